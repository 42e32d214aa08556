// Plan of this file: who may do what. Each case is a list of steps run in the
// guest as one user; fscheck/steps.go has their grammar.

package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/test/testenv"
)

var (
	root  = User{}
	alice = User{UID: 1001, GID: 1001}
	bob   = User{UID: 1002, GID: 1002, Groups: []uint32{1002, 2000}}
	carol = User{UID: 1003, GID: 1003, Groups: groups(15, 2000)} // the 16th group counts
	dave  = User{UID: 1004, GID: 1004, Groups: groups(16, 2000)} // AUTH_SYS has no room for a 17th
)

// groups is n groups with low numbers and last as one more: the client sends
// them in the order of their numbers.
func groups(n int, last uint32) []uint32 {
	var g []uint32
	for i := range n {
		g = append(g, uint32(1100+i))
	}
	return append(g, last)
}

// steps is one user's part of a case.
type steps struct {
	who  User
	text string
}

func (s *station) steps(t *testing.T, dir string, parts []steps) {
	t.Helper()
	for _, p := range parts {
		if err := s.guest.CheckAs(t, p.who, "steps", dir, "steps="+p.text); err != nil {
			t.Error(err)
		}
	}
}

func (s *station) permissions(t *testing.T) {
	dir := filepath.Join(s.export, "permissions")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	s.steps(t, s.mnt+"/permissions", []steps{
		{root, `
			create 0600 private
			chown 1001:1001 private
			create 0640 shared
			chown 1001:2000 shared
			create 0444 readonly
			create 0711 program
			mkdir 0777 open
			mkdir 0700 closed
			create 0644 closed/inside
			mkdir 0711 passage
			create 0644 passage/inside
			mkdir 01777 sticky
			mkdir 0777 setgid
			chown 0:2000 setgid
			chmod 02777 setgid
			read private
			write private root`},
		{alice, `
			holds private root
			write private text
			holds private text
			write shared text
			read readonly
			write readonly x = EACCES
			chmod 0600 readonly = EPERM
			chown 1001:1001 readonly = EPERM
			truncate 0 readonly = EACCES
			utimes readonly = EPERM
			touch readonly = EACCES
			create 0600 here = EACCES
			mkdir 0700 here = EACCES
			symlink x here = EACCES
			mkfifo here = EACCES
			unlink readonly = EACCES
			rename readonly open/readonly = EACCES
			list closed = EACCES
			stat closed/inside = EACCES
			read closed/inside = EACCES
			list passage = EACCES
			holds passage/inside new
			stat passage/missing = ENOENT
			create 0644 sticky/alices
			create 0644 open/alices
			owner open/alices 1001:1001
			create 0444 open/readonly-at-birth
			holds open/readonly-at-birth new
			mkdir 0750 open/dir
			owner open/dir 1001:1001
			mode open/dir 0750
			mknod open/device = EPERM
			chown 1002:1001 private = EPERM
			chown 1001:2000 private = EPERM
			chmod 0640 private
			mode private 0640
			utimes private
			touch private
			chmod 0600 private
			create 0600 setgid/alices
			owner setgid/alices 1001:2000
			mkdir 0700 setgid/dir
			mode setgid/dir 02700`},
		{bob, `
			read private = EACCES
			write private x = EACCES
			chmod 0777 private = EPERM
			touch private = EACCES
			holds shared text
			write shared x = EACCES
			unlink sticky/alices = EPERM|EACCES
			rename sticky/alices sticky/bobs = EPERM|EACCES
			create 0644 sticky/bobs
			rename sticky/bobs sticky/alices = EPERM|EACCES
			list open/dir = EACCES
			unlink open/alices
			rename open/dir open/renamed
			create 0600 open/bobs
			chown 1002:2000 open/bobs
			owner open/bobs 1002:2000`},
		{carol, `
			read private = EACCES
			holds shared text`},
		{dave, `
			read shared = EACCES`},
		{root, `
			unlink sticky/alices
			chown 1003:1003 readonly
			owner readonly 1003:1003
			mknod open/device`},
	})
	s.executeOnly(t, dir)
}

// executeOnly runs a program that others may execute but not read: the server
// lets READ through on the execute bit (RFC 1813, 4.4).
func (s *station) executeOnly(t *testing.T, dir string) {
	b, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "true"), b, 0o711); err != nil {
		t.Fatal(err)
	}
	s.steps(t, s.mnt+"/permissions", []steps{{alice, "exec true\nread true = EACCES"}})
}

// mutations is every kind of change, each refused on a read-only export. What
// opens a file for writing the client refuses itself, after ACCESS said so.
const mutations = `
	create 0600 new = EROFS
	mkdir 0700 new = EROFS
	symlink x new = EROFS
	mkfifo new = EROFS
	mknod new = EROFS
	link file new = EROFS
	unlink file = EROFS
	rmdir dir = EROFS
	rename file new = EROFS
	rename dir/inside file = EROFS
	chmod 0600 file = EROFS
	chown 1:1 file = EROFS
	utimes file = EROFS
	touch file = EROFS
	write file x = EROFS|EACCES
	truncate 1 file = EROFS|EACCES
	holds file text
	holds dir/inside text
	owner file 0:0
	mode file 0666
	list dir`

// TestExportOptions shows the options that decide what a client may do.
func TestExportOptions(t *testing.T) { byVersion(t, allVersions, exportOptions) }

func exportOptions(t *testing.T, version string) {
	base := testenv.Disk(t)
	options := map[string]string{
		"ro":       "ro,insecure,no_root_squash",
		"squash":   "rw,insecure",
		"all":      "rw,insecure,all_squash,anonuid=4321,anongid=1234",
		"nosquash": "rw,insecure,no_root_squash",
	}
	var exports []testenv.Export
	for _, name := range []string{"ro", "squash", "all", "nosquash"} {
		dir := filepath.Join(base, name)
		for _, d := range []string{dir, filepath.Join(dir, "dir")} {
			if err := os.Mkdir(d, 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(d, 0o777); err != nil {
				t.Fatal(err)
			}
		}
		for _, f := range []struct {
			name string
			mode os.FileMode
		}{{"file", 0o666}, {"dir/inside", 0o644}, {"secret", 0o600}} {
			path := filepath.Join(dir, f.name)
			if err := os.WriteFile(path, []byte("text"), f.mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, f.mode); err != nil {
				t.Fatal(err)
			}
		}
		exports = append(exports, testenv.Export{Dir: dir, Options: options[name]})
	}
	server := testenv.StartServer(t, testenv.ServerConfig{Exports: exports})
	guest := Boot(t)
	for _, e := range exports {
		guest.MountVersion(t, server, version, e.Dir, "/mnt/"+filepath.Base(e.Dir), "")
	}
	for _, c := range []struct {
		name   string
		export string
		parts  []steps
	}{
		{"ro refuses every change", "ro", []steps{{root, mutations}, {alice, foreignMutations()}}},
		{"root_squash", "squash", []steps{
			{root, `
				read secret = EACCES
				holds file text
				create 0644 new
				owner new 65534:65534
				chown 0:0 new = EPERM
				chmod 0600 file = EPERM
				unlink dir/inside`},
			{alice, "create 0644 alices\nowner alices 1001:1001"},
		}},
		{"all_squash", "all", []steps{
			{root, "create 0644 new\nowner new 4321:1234\nread secret = EACCES"},
			{alice, "mkdir 0755 alices\nowner alices 4321:1234"},
		}},
		{"no_root_squash", "nosquash", []steps{
			{root, "read secret\ncreate 0600 new\nowner new 0:0\nchown 7:7 new\nowner new 7:7"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &station{guest: guest}
			s.steps(t, "/mnt/"+c.export, c.parts)
		})
	}
	t.Run("ro left everything as it was", func(t *testing.T) {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(base, "ro/file"), &st); err != nil {
			t.Fatal(err)
		}
		if st.Mode&0o7777 != 0o666 || st.Size != 4 || st.Uid != 0 || st.Nlink != 1 {
			t.Errorf("mode %o size %d uid %d links %d", st.Mode, st.Size, st.Uid, st.Nlink)
		}
		list, err := os.ReadDir(filepath.Join(base, "ro"))
		if err != nil || len(list) != 3 {
			t.Errorf("names %v, %v", list, err)
		}
	})
}

// foreignMutations is mutations for a user who could not do all of them anyway.
func foreignMutations() string {
	return strings.NewReplacer(
		"mknod new = EROFS", "mknod new = EROFS|EPERM",
		"link file new = EROFS", "link file new = EROFS|EPERM", // fs.protected_hardlinks in the guest
		"chmod 0600 file = EROFS", "chmod 0600 file = EROFS|EPERM",
		"chown 1:1 file = EROFS", "chown 1:1 file = EROFS|EPERM",
		"utimes file = EROFS", "utimes file = EROFS|EPERM",
		"touch file = EROFS", "touch file = EROFS|EACCES",
	).Replace(mutations)
}
