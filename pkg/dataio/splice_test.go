// What a spliced READ falls back to while nothing is sent, and what the client
// gets of one whose file changes or fails meanwhile.

package dataio

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// TestTruncatedWhileSending: a file cut short while its reply is half sent. The
// rest comes as the header promised it, and never another file's bytes.
func TestTruncatedWhileSending(t *testing.T) {
	const size = 1 << 20
	for _, fs := range fileSystems {
		t.Run(fs, func(t *testing.T) {
			dir := dirOn(t, fs)
			p, model := holeyFile(t, dir, size)
			r := newRig(t, Config{}, filecache.Config{})
			f := r.file(p)
			sock, far := tcpPair(t, true)
			defer far.Close()
			res, err := r.e.Read(r.th, &ReadReq{File: f, Count: size, Splice: true})
			if err != nil {
				t.Fatal(err)
			}
			n, err := res.Data.SendTo(sock)
			if err != nil || n < pageSize || n == size {
				t.Fatalf("the first part: %d bytes, %v", n, err)
			}
			if err := os.Truncate(p, 10); err != nil {
				t.Fatal(err)
			}
			// What the cut set free goes to somebody else.
			if err := os.WriteFile(filepath.Join(dir, "other"), bytes.Repeat([]byte{0xEE}, 2*size), 0o600); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, size)
			done := make(chan error)
			go func() {
				_, err := io.ReadFull(far, got)
				done <- err
			}()
			sendPayload(t, sock, res)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			// The kernel clears what lies behind the cut in the same folio, which
			// can be larger than a page.
			if !bytes.Equal(got[:10], model[:10]) {
				t.Error("wrong bytes before the cut")
			}
			cleared := 0
			for i, b := range got {
				switch {
				case b == model[i]:
				case b == 0:
					cleared++
				default:
					t.Fatalf("%#x at %d, which is neither the file's nor cleared", b, i)
				}
			}
			t.Logf("%d bytes were cleared", cleared)
			if st := r.e.Stats().Pipes; st.InUse != 0 || st.Dropped != 0 {
				t.Errorf("%+v", st)
			}
		})
	}
}

// TestCannotSplice: a file system that refuses is found out before anything is
// sent, and the READ copies.
func TestCannotSplice(t *testing.T) {
	const p = "/proc/self/auxv" // a regular file that has no splice_read
	want, err := os.ReadFile(p)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(p, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Config{SpliceMin: 1}, filecache.Config{})
	f := r.cache.Insert(&filecache.Key{FS: 1}, fd, unix.S_IFREG)
	t.Cleanup(f.Release)
	res, err := r.e.Read(r.th, &ReadReq{File: f, Count: 64 << 10, Splice: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, inMemory := res.Data.Bytes(); !inMemory {
		t.Error("in a pipe")
	}
	if got := r.take(res); !bytes.Equal(got, want) {
		t.Errorf("%d bytes, want %d", len(got), len(want))
	}
	st := r.e.Stats()
	if st.Read["buffered"].Fallbacks["no_splice"] != 1 || st.Spliced != 0 || st.Pipes.InUse != 0 {
		t.Errorf("%+v", st)
	}
}

// badFile is a FUSE file of which the second half cannot be read.
type badFile struct {
	fs.Inode
	data []byte
}

func (f *badFile) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = unix.S_IFREG|0o644, uint64(len(f.data))
	return 0
}

func (f *badFile) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

func (f *badFile) Read(_ context.Context, _ fs.FileHandle, b []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if off+int64(len(b)) > int64(len(f.data)/2) {
		return nil, syscall.EIO
	}
	return fuse.ReadResultData(f.data[off : off+int64(len(b))]), 0
}

// badDir is the root directory, which holds the file under the name "bad".
type badDir struct {
	fs.Inode
	file *badFile
}

func (d *badDir) OnAdd(ctx context.Context) {
	d.AddChild("bad", d.NewPersistentInode(ctx, d.file, fs.StableAttr{Mode: unix.S_IFREG}), true)
}

// TestDiskFailsWhileSplicing: what came before the place that cannot be read is a
// shorter answer, as a copy's would be; the READ that starts there gets the
// error, and no pipe is left with anything in it.
func TestDiskFailsWhileSplicing(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount FUSE here")
	}
	const size = 1 << 20
	data := make([]byte, size)
	for i := range data {
		data[i] = byte(i>>12 + i)
	}
	dir := t.TempDir()
	srv, err := fs.Mount(dir, &badDir{file: &badFile{data: data}}, &fs.Options{MountOptions: fuse.MountOptions{DirectMountStrict: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := srv.Unmount(); err != nil {
			t.Error(err)
			unix.Unmount(dir, unix.MNT_DETACH) //nolint:errcheck
		}
	}()
	t.Run("read", func(t *testing.T) { // its files are closed before the mount goes
		r := newRig(t, Config{}, filecache.Config{})
		f := r.file(filepath.Join(dir, "bad"))
		off := uint64(0)
		for {
			res, err := r.e.Read(r.th, &ReadReq{File: f, Offset: off, Count: size, Splice: true})
			if err == unix.EIO {
				break
			}
			if err != nil || res.N == 0 || !res.Short {
				t.Fatalf("at %d: %+v, %v", off, res, err)
			}
			if _, inMemory := res.Data.Bytes(); inMemory {
				t.Error("not in a pipe")
			}
			if got := r.take(res); !bytes.Equal(got, data[off:off+uint64(len(got))]) {
				t.Fatalf("wrong bytes at %d", off)
			}
			off += uint64(res.N)
		}
		if off == 0 || off > size/2 {
			t.Errorf("the error came at %d", off)
		}
		if st := r.e.Stats().Pipes; st.InUse != 0 {
			t.Errorf("%+v", st)
		}
	})
}
