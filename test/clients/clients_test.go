// Package clients tests the server with NFS clients that others wrote and that
// share no code with it or with the Linux kernel: go-nfs-client, and the tools
// of libnfs.
package clients

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"math/rand/v2"
	"os/exec"

	"github.com/vmware/go-nfs-client/nfs"
	"github.com/vmware/go-nfs-client/nfs/rpc"

	"sluice/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.BuildSluice)) }

// content is reproducible and compresses badly.
func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestGoNFSClient goes through what go-nfs-client can do. It finds MOUNT and NFS
// through the portmapper on port 111, which the server answers itself.
func TestGoNFSClient(t *testing.T) {
	dir := testenv.Disk(t)
	server := testenv.StartServer(t, testenv.ServerConfig{
		Exports: []testenv.Export{{Dir: dir}}, Portmapper: true,
	})
	for _, mode := range server.Modes() {
		t.Run(mode, func(t *testing.T) {
			must(t, server.SetMode(mode))
			goNFSClient(t, dir)
		})
	}
}

func goNFSClient(t *testing.T, dir string) {
	mount, err := nfs.DialMount(testenv.ServerIP)
	must(t, err)
	defer mount.Close()
	auth := rpc.NewAuthUnix("client", 0, 0).Auth()
	if _, err := mount.Mount(dir+"/missing", auth); err == nil {
		t.Error("mounted a directory that is not exported")
	}
	v, err := mount.Mount(dir, auth)
	must(t, err)
	defer v.Close()
	info, err := v.FSInfo()
	must(t, err)
	if info.RTMax < 1<<20 || info.WTMax < 1<<20 {
		t.Errorf("FSINFO offers reads of %d and writes of %d bytes, want 1 MiB", info.RTMax, info.WTMax)
	}
	_, err = v.Mkdir("top", 0o775)
	must(t, err)
	if _, err := v.Mkdir("top", 0o775); err == nil {
		t.Error("made a directory twice")
	}
	_, err = v.Mkdir("top/sub", 0o700)
	must(t, err)
	for i, size := range []int{0, 1, 7, 4097, 10<<20 + 13} {
		goNFSFile(t, v, dir, fmt.Sprintf("top/f%d", size), content(uint64(i), size))
	}
	goNFSMany(t, v)
	// A removed file is gone here and on the disk; RemoveAll takes the rest.
	must(t, v.Remove("top/f7"))
	if _, _, err := v.Lookup("top/f7"); !os.IsNotExist(err) {
		t.Errorf("LOOKUP of a removed file: %v", err)
	}
	if err := v.RmDir("top"); err == nil {
		t.Error("removed a directory that is not empty")
	}
	must(t, v.RemoveAll("top"))
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("left in the export: %v, %v", list, err)
	}
	must(t, mount.Unmount())
}

// goNFSFile writes a file, reads it back and compares both with the disk.
func goNFSFile(t *testing.T, v *nfs.Target, dir, name string, want []byte) {
	f, err := v.OpenFile(name, 0o640)
	must(t, err)
	for rest := want; len(rest) > 0; {
		n, err := f.Write(rest[:min(len(rest), 300000)])
		must(t, err)
		rest = rest[n:]
	}
	must(t, f.Close()) // COMMIT
	onDisk, err := os.ReadFile(filepath.Join(dir, name))
	must(t, err)
	if !bytes.Equal(onDisk, want) {
		t.Errorf("%s: %d bytes on the disk differ from %d written", name, len(onDisk), len(want))
	}
	st, _, err := v.Lookup(name)
	must(t, err)
	if st.Size() != int64(len(want)) || st.Mode().Perm() != 0o640 {
		t.Errorf("%s: size %d mode %v, want %d 0640", name, st.Size(), st.Mode(), len(want))
	}
	r, err := v.Open(name)
	must(t, err)
	defer r.Close()
	var got bytes.Buffer
	// The client returns no end of file for an empty file before a read of it.
	if _, err := io.Copy(&got, r); err != nil {
		t.Fatalf("read %s: %v", name, err)
	}
	if !bytes.Equal(got.Bytes(), want) {
		t.Errorf("%s: %d bytes read differ from %d written", name, got.Len(), len(want))
	}
}

// goNFSMany lists more names than one READDIRPLUS reply of this client holds.
func goNFSMany(t *testing.T, v *nfs.Target) {
	const files = 500
	for i := range files {
		_, err := v.Create(fmt.Sprintf("top/sub/name-%d", i), 0o600)
		must(t, err)
	}
	list, err := v.ReadDirPlus("top/sub")
	must(t, err)
	seen := map[string]bool{}
	for _, e := range list {
		if seen[e.Name()] {
			t.Errorf("%s is listed twice", e.Name())
		}
		seen[e.Name()] = true
	}
	for i := range files {
		if name := fmt.Sprintf("name-%d", i); !seen[name] {
			t.Errorf("%s is not listed", name)
		}
	}
	delete(seen, ".")
	delete(seen, "..")
	if len(seen) != files {
		t.Errorf("%d names, want %d", len(seen), files)
	}
}

// TestLibNFS copies files in and out with libnfs' tools and lists them.
func TestLibNFS(t *testing.T) {
	testenv.Commands(t, "nfs-ls", "nfs-cp", "nfs-cat")
	dir := testenv.Disk(t)
	server := testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{{Dir: dir}}})
	url := func(name string) string {
		return fmt.Sprintf("nfs://%s%s?version=3&nfsport=%d&mountport=%d",
			testenv.ServerIP, filepath.Join(dir, name), server.Port, server.MountPort())
	}
	tool := func(t *testing.T, args ...string) string {
		t.Helper()
		var stderr bytes.Buffer
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v: %s%s", strings.Join(args, " "), err, out, stderr.Bytes())
		}
		return string(out)
	}
	must(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	for _, mode := range server.Modes() {
		t.Run(mode, func(t *testing.T) {
			must(t, server.SetMode(mode))
			local := t.TempDir()
			for i, size := range []int{0, 1, 4097, 12345678} {
				want := content(uint64(i+100), size)
				name := fmt.Sprintf("%s-%d", mode, size)
				src, back := filepath.Join(local, name), filepath.Join(local, name+"-back")
				must(t, os.WriteFile(src, want, 0o644))
				tool(t, "nfs-cp", src, url("sub/"+name))
				onDisk, err := os.ReadFile(filepath.Join(dir, "sub", name))
				must(t, err)
				if !bytes.Equal(onDisk, want) {
					t.Errorf("nfs-cp to the server: %d bytes on the disk differ from %d", len(onDisk), size)
				}
				tool(t, "nfs-cp", url("sub/"+name), back)
				got, err := os.ReadFile(back)
				must(t, err)
				if !bytes.Equal(got, want) {
					t.Errorf("nfs-cp from the server: %d bytes differ from %d", len(got), size)
				}
				if out := tool(t, "nfs-cat", url("sub/"+name)); out != string(want) {
					t.Errorf("nfs-cat: %d bytes differ from %d", len(out), size)
				}
				if out := tool(t, "nfs-ls", url("sub")); !listed(out, name, size) {
					t.Errorf("nfs-ls does not show %s with %d bytes:\n%s", name, size, out)
				}
			}
		})
	}
}

// listed says whether a line of nfs-ls has this size and this name.
func listed(out, name string, size int) bool {
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) == 6 && f[4] == fmt.Sprint(size) && f[5] == name {
			return true
		}
	}
	return false
}
