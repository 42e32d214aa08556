package proto

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/test/nfscall"
	wire3 "sluice/xdr/nfs3"
)

// model runs the same operations over the protocol and, in a second directory,
// as system calls, and compares every outcome and then the two trees.
type model struct {
	t      *testing.T
	c      *nfscall.Client
	root   []byte
	served string // the exported directory
	shadow string // the same by system calls
	rnd    *rand.Rand
}

// nfsErrors are the statuses that stand for an errno; more than one where
// RFC 1813 leaves a choice.
var nfsErrors = map[error][]wire3.Nfsstat3{
	nil:               {wire3.NFS3_OK},
	unix.ENOENT:       {wire3.NFS3ERR_NOENT},
	unix.EEXIST:       {wire3.NFS3ERR_EXIST},
	unix.ENOTDIR:      {wire3.NFS3ERR_NOTDIR},
	unix.EISDIR:       {wire3.NFS3ERR_ISDIR},
	unix.ENOTEMPTY:    {wire3.NFS3ERR_NOTEMPTY, wire3.NFS3ERR_EXIST},
	unix.EINVAL:       {wire3.NFS3ERR_INVAL},
	unix.ENAMETOOLONG: {wire3.NFS3ERR_NAMETOOLONG},
	unix.ELOOP:        {wire3.NFS3ERR_INVAL},
	unix.EPERM:        {wire3.NFS3ERR_PERM, wire3.NFS3ERR_ISDIR},
}

func (m *model) same(what string, err error, got wire3.Nfsstat3) {
	m.t.Helper()
	var e unix.Errno
	if err != nil && !errors.As(err, &e) {
		m.t.Fatalf("%s: %v", what, err)
	}
	want, known := nfsErrors[nil], err == nil
	if err != nil {
		want, known = nfsErrors[error(e)]
	}
	if !known {
		m.t.Fatalf("%s: the system call says %v, which the test does not know; the server %v", what, err, got)
	}
	for _, w := range want {
		if got == w {
			return
		}
	}
	m.t.Fatalf("%s: %v, the system call says %v", what, got, err)
}

// walk returns the handle of a directory in the tree, which must be there.
func (m *model) walk(dir string) []byte {
	m.t.Helper()
	h := m.root
	if dir == "." {
		return h
	}
	for _, name := range strings.Split(dir, "/") {
		h = m.c.Lookup(m.t, h, name)
	}
	return h
}

// pick chooses a directory that exists, and a name of a small set.
func (m *model) pick() (dir, name string) {
	var dirs []string
	filepath.WalkDir(m.shadow, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			if rel, err := filepath.Rel(m.shadow, p); err == nil && strings.Count(rel, "/") < 3 {
				dirs = append(dirs, rel)
			}
		}
		return nil
	})
	return dirs[m.rnd.IntN(len(dirs))], fmt.Sprintf("n%d", m.rnd.IntN(6))
}

func (m *model) step(n int) {
	m.t.Helper()
	dir, name := m.pick()
	h := m.walk(dir)
	local := filepath.Join(m.shadow, dir, name)
	what := fmt.Sprintf("step %d, %s/%s", n, dir, name)
	where := nfscall.Dirop(h, name)
	mode := uint32(m.rnd.IntN(0o1000))
	switch op := m.rnd.IntN(14); op {
	case 0, 1: // CREATE, either way
		how, flags := wire3.UNCHECKED, unix.O_CREAT|unix.O_RDWR|unix.O_NOFOLLOW
		if op == 1 {
			how, flags = wire3.GUARDED, flags|unix.O_EXCL
		}
		st := m.c.Status(m.t, wire3.NFSPROC3_CREATE, &wire3.CREATE3args{Where: where, How: wire3.Createhow3{Mode: how, ObjAttributes: nfscall.Mode(mode)}})
		if fi, err := os.Lstat(local); op == 0 && err == nil && !fi.Mode().IsRegular() {
			// What UNCHECKED does to what is not a file is the server's choice:
			// nothing, in any case (RFC 1813, 3.3.8; Linux says OK).
			if st != wire3.NFS3_OK && st != wire3.NFS3ERR_EXIST && st != wire3.NFS3ERR_ISDIR && st != wire3.NFS3ERR_INVAL {
				m.t.Fatalf("%s: CREATE UNCHECKED over %v: %v", what, fi.Mode(), st)
			}
			return
		}
		fd, err := unix.Open(local, flags, mode)
		if err == nil {
			unix.Close(fd)
		}
		m.same(what+" CREATE", err, st)
	case 2:
		st := m.c.Status(m.t, wire3.NFSPROC3_MKDIR, &wire3.MKDIR3args{Where: where, Attributes: nfscall.Mode(mode | 0o700)})
		m.same(what+" MKDIR", unix.Mkdir(local, mode|0o700), st)
	case 3:
		target := strings.Repeat("t/", 1+m.rnd.IntN(20))
		st := m.c.Status(m.t, wire3.NFSPROC3_SYMLINK, &wire3.SYMLINK3args{Where: where, Symlink: wire3.Symlinkdata3{SymlinkData: []byte(target)}})
		m.same(what+" SYMLINK", unix.Symlink(target, local), st)
	case 4:
		st := m.c.Status(m.t, wire3.NFSPROC3_MKNOD, &wire3.MKNOD3args{Where: where, What: wire3.Mknoddata3{Type: wire3.NF3FIFO, PipeAttributes: nfscall.Mode(mode)}})
		m.same(what+" MKNOD", unix.Mkfifo(local, mode), st)
	case 5, 6:
		st := m.c.Status(m.t, wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: where})
		m.same(what+" REMOVE", unix.Unlinkat(unix.AT_FDCWD, local, 0), st)
	case 7:
		st := m.c.Status(m.t, wire3.NFSPROC3_RMDIR, &wire3.RMDIR3args{Object: where})
		m.same(what+" RMDIR", unix.Unlinkat(unix.AT_FDCWD, local, unix.AT_REMOVEDIR), st)
	case 8, 9:
		toDir, toName := m.pick()
		to := nfscall.Dirop(m.walk(toDir), toName)
		st := m.c.Status(m.t, wire3.NFSPROC3_RENAME, &wire3.RENAME3args{From: where, To: to})
		err := unix.Rename(local, filepath.Join(m.shadow, toDir, toName))
		if err == unix.EISDIR || err == unix.ENOTDIR { // RFC 1813, 3.3.14 has EXIST for targets of the other kind
			if st == wire3.NFS3ERR_EXIST {
				return
			}
		}
		m.same(fmt.Sprintf("%s RENAME to %s/%s", what, toDir, toName), err, st)
	case 10:
		fromDir, fromName := m.pick()
		from := filepath.Join(m.shadow, fromDir, fromName)
		if _, err := os.Lstat(from); err != nil {
			return
		}
		file := m.c.Lookup(m.t, m.walk(fromDir), fromName)
		st := m.c.Status(m.t, wire3.NFSPROC3_LINK, &wire3.LINK3args{File: nfscall.FH(file), Link: where})
		if fi, err := os.Lstat(from); err == nil && fi.IsDir() && st == wire3.NFS3ERR_ISDIR {
			return // which of two reasons to refuse comes first is the server's choice
		}
		m.same(fmt.Sprintf("%s LINK from %s/%s", what, fromDir, fromName), unix.Link(from, local), st)
	case 11:
		fi, err := os.Lstat(local)
		if err != nil || !fi.Mode().IsRegular() {
			return
		}
		file := m.c.Lookup(m.t, h, name)
		off := int64(m.rnd.IntN(20000))
		data := make([]byte, 1+m.rnd.IntN(9000))
		for i := range data {
			data[i] = byte(m.rnd.Uint32())
		}
		m.c.Write(m.t, file, uint64(off), data)
		f, err := os.OpenFile(local, os.O_WRONLY, 0)
		nfscall.Must(m.t, err)
		_, err = f.WriteAt(data, off)
		nfscall.Must(m.t, errors.Join(err, f.Close()))
	case 12:
		fi, err := os.Lstat(local)
		if err != nil || fi.Mode()&os.ModeSymlink != 0 {
			return
		}
		file := m.c.Lookup(m.t, h, name)
		args := &wire3.SETATTR3args{Object: nfscall.FH(file), NewAttributes: nfscall.Mode(mode)}
		uid, gid, size := uint32(m.rnd.IntN(5)), uint32(m.rnd.IntN(5)), uint64(m.rnd.IntN(30000))
		args.NewAttributes.Uid = wire3.SetUid3{SetIt: true, Uid: uid}
		args.NewAttributes.Gid = wire3.SetGid3{SetIt: true, Gid: gid}
		if fi.Mode().IsRegular() {
			args.NewAttributes.Size = wire3.SetSize3{SetIt: true, Size: size}
			nfscall.Must(m.t, os.Truncate(local, int64(size)))
		}
		if fi.IsDir() {
			args.NewAttributes.Mode.Mode |= 0o700
			mode |= 0o700
		}
		st := m.c.Status(m.t, wire3.NFSPROC3_SETATTR, args)
		m.same(what+" SETATTR", errors.Join(os.Lchown(local, int(uid), int(gid)), unix.Chmod(local, mode)), st)
	case 13:
		var res wire3.LOOKUP3res
		m.c.Do(m.t, wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: where}, &res)
		var st unix.Stat_t
		m.same(what+" LOOKUP", unix.Lstat(local, &st), res.Status)
	}
}

// compare looks at both trees.
func (m *model) compare() {
	m.t.Helper()
	list := func(top string) map[string]string {
		out := map[string]string{}
		nfscall.Must(m.t, filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(p, &st); err != nil {
				return err
			}
			rel, err := filepath.Rel(top, p)
			if err != nil || rel == "." {
				return err
			}
			line := fmt.Sprintf("mode %o links %d owner %d:%d", st.Mode, st.Nlink, st.Uid, st.Gid)
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG:
				data, err := os.ReadFile(p)
				if err != nil {
					return err
				}
				line += fmt.Sprintf(" size %d data %x", st.Size, data)
			case unix.S_IFLNK:
				target, err := os.Readlink(p)
				if err != nil {
					return err
				}
				line += " to " + target
			}
			out[rel] = line
			return nil
		}))
		return out
	}
	got, want := list(m.served), list(m.shadow)
	for name, line := range want {
		if got[name] != line {
			m.t.Errorf("%s: over the protocol %.300q, by system calls %.300q", name, got[name], line)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			m.t.Errorf("%s is there over the protocol only", name)
		}
	}
}

func TestModel(t *testing.T) {
	unix.Umask(0)
	for seed := range uint64(3) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			i := serve(t, "rw,no_root_squash,insecure,async")
			c, root := i.root(t)
			m := &model{t: t, c: c, root: root, served: i.dir, shadow: t.TempDir(), rnd: rand.New(rand.NewPCG(seed, 1))}
			for n := range 700 {
				m.step(n)
			}
			m.compare()
		})
	}
}

// What was written by system calls is read over the protocol, in every mode and
// at odd places, and the other way round.
func TestReadAgreesWithTheFile(t *testing.T) {
	i := serve(t, "rw,no_root_squash,insecure,async")
	const size = 3<<20 + 777
	rnd := rand.New(rand.NewPCG(7, 7))
	data := make([]byte, size)
	for k := range data {
		data[k] = byte(rnd.Uint32())
	}
	clear(data[1<<20 : 1<<20+300000])
	f, err := os.Create(i.path("f"))
	nfscall.Must(t, err)
	_, err = f.WriteAt(data[:1<<20], 0)
	nfscall.Must(t, err)
	_, err = f.WriteAt(data[1<<20+300000:], 1<<20+300000) // a hole between the two
	nfscall.Must(t, errors.Join(err, f.Close()))

	for _, mode := range []string{"buffered", "dontcache", "direct"} {
		i.cfg.ReadMode = mode
		i.restart(t)
		c, root := i.root(t)
		file := c.Lookup(t, root, "f")
		check := func(off uint64, count uint32) {
			t.Helper()
			got, eof := c.Read(t, file, off, count)
			var want []byte
			if off < size {
				want = data[off:min(size, off+uint64(count))]
			}
			if len(want) > 1<<20 {
				want = want[:1<<20]
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("%s: READ of %d bytes at %d gives %d bytes, not the file's %d", mode, count, off, len(got), len(want))
			}
			if end := off+uint64(len(want)) >= size; eof != end {
				t.Errorf("%s: READ of %d bytes at %d: eof is %v", mode, count, off, eof)
			}
		}
		for _, count := range []uint32{0, 1, 511, 512, 513, 4095, 4096, 4097, 65536, 1 << 20} {
			for _, off := range []uint64{0, 1, 511, 4095, 4096, 1<<20 - 1, 1<<20 + 299999, size - 513, size - 1, size, size + 1, size + 1<<20} {
				check(off, count)
			}
		}
		for range 200 {
			check(rnd.Uint64N(size+5000), rnd.Uint32N(200000))
		}
	}
}
