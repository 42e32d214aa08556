package vfs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// fillDir makes n files.
func fillDir(t testing.TB, d string, n int) {
	t.Helper()
	for i := range n {
		fd, err := unix.Open(filepath.Join(d, "file"+strconv.Itoa(i)), unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
	}
}

// TestReaddir lists 20,000 names in small pieces while others are made and removed: names that are there throughout come
// exactly once, with "." and "..".
func TestReaddir(t *testing.T) {
	for _, fs := range []string{"ext4", "tmpfs"} {
		t.Run(fs, func(t *testing.T) {
			var d string
			if fs == "ext4" {
				d = ext4Dir(t, 64<<20)
			} else {
				d = exportDir(t)
				mountFS(t, "tmpfs", d, "tmpfs", 0, "mode=777")
			}
			const n = 20000
			fillDir(t, d, n)
			b := newBench(t, d+" *(rw,async,no_root_squash)\n")
			stop := make(chan struct{})
			var wg sync.WaitGroup
			wg.Add(1)
			go func() {
				defer wg.Done()
				b.as(0, 0, func(u *user) {
					root := u.mount(d)
					for i := 0; ; i++ {
						select {
						case <-stop:
							return
						default:
						}
						name := fmt.Sprintf("temp%d", i%50)
						if u.remove(root, name) == unix.ENOENT {
							u.create(root, name, 0o644)
						}
					}
				})
			}()
			b.as(0, 0, func(u *user) {
				root := u.mount(d)
				for _, c := range []struct {
					plus    bool
					perCall int
				}{{false, 37}, {true, 700}} {
					names, err := u.list(root, c.plus, c.perCall)
					ok(t, "list", err)
					seen := map[string]int{}
					for _, n := range names {
						seen[n]++
					}
					bad := 0
					for i := range n {
						if seen["file"+strconv.Itoa(i)] != 1 {
							bad++
						}
					}
					if bad > 0 || seen["."] != 1 || seen[".."] != 1 {
						t.Errorf("%+v: %d names not exactly once, . %d, .. %d", c, bad, seen["."], seen[".."])
					}
					for name, k := range seen {
						// A name that was removed and made again may come again, at its new place.
						if k > 1 && !strings.HasPrefix(name, "temp") {
							t.Errorf("%s came %d times", name, k)
						}
					}
				}
			})
			close(stop)
			wg.Wait()
		})
	}
}

// Deleting what was listed, as `rm -r` does, ends with an empty directory.
func TestReaddirAndRemove(t *testing.T) {
	d := ext4Dir(t, 32<<20)
	fillDir(t, d, 3000)
	b := newBench(t, d+" *(rw,async,no_root_squash)\n")
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		q := ReaddirReq{Want: 600}
		for eof, calls := false, 0; !eof; calls++ {
			if calls > 3000 {
				t.Error("the listing does not end")
				return
			}
			var page []string
			ok(t, "readdir", u.do(root, func(v *View, n Node) error {
				r, err := v.Readdir(n, &q, func(e *DirEntry) bool {
					if len(page) == 20 {
						return false
					}
					page = append(page, string(e.Name))
					q.Cookie = e.Cookie
					return true
				})
				eof = r.EOF
				return err
			}))
			for _, name := range page {
				if name != "." && name != ".." && name != "lost+found" {
					ok(t, "remove", u.remove(root, name))
				}
			}
		}
	})
	if left, _ := os.ReadDir(d); len(left) > 1 {
		t.Errorf("%d names left", len(left))
	}
}

func TestReaddirDetails(t *testing.T) {
	d := exportDir(t)
	os.Mkdir(filepath.Join(d, "sub"), 0o755)
	os.WriteFile(filepath.Join(d, "sub", "f"), []byte("12345"), 0o640)
	os.Symlink("x", filepath.Join(d, "sub", "link"))
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		sub, sa, err := u.lookup(root, "sub")
		ok(t, "lookup", err)
		ra, _ := u.getattr(root)
		list := func(dir []byte, plus bool) map[string]DirEntry {
			m := map[string]DirEntry{}
			ok(t, "readdir", u.do(dir, func(v *View, n Node) error {
				r, err := v.Readdir(n, &ReaddirReq{Plus: plus}, func(e *DirEntry) bool {
					x := *e
					x.Name = nil
					m[string(e.Name)] = x
					return true
				})
				if !r.EOF || !r.Dir.Valid() || r.Verf != [8]byte{} {
					t.Errorf("readdir: %+v", r)
				}
				return err
			}))
			return m
		}
		for _, plus := range []bool{false, true} {
			m := list(root, plus)
			if m["."].FileID != ra.FileID || m[".."].FileID != ra.FileID || m["sub"].FileID != sa.FileID {
				t.Errorf("file ids: . %d .. %d sub %d; want %d %d %d", m["."].FileID, m[".."].FileID, m["sub"].FileID, ra.FileID, ra.FileID, sa.FileID)
			}
			m = list(sub, plus)
			if m["."].FileID != sa.FileID || m[".."].FileID != ra.FileID || len(m) != 4 {
				t.Errorf("sub: %+v", m)
			}
			if !plus {
				for name, e := range m {
					if e.Handle.Len != 0 || e.Attr.Valid() {
						t.Errorf("%s has a handle in a plain READDIR", name)
					}
				}
				continue
			}
			for name, e := range m {
				fh, a, err := u.lookup(sub, name)
				ok(t, "lookup", err)
				if string(e.Handle.Bytes()) != string(fh) || e.Attr != a {
					t.Errorf("%s: handle and attributes differ from LOOKUP's", name)
				}
			}
		}
		for _, cookie := range []uint64{1 << 63, 1<<64 - 1} {
			want(t, "a cookie past 2^63", u.do(root, func(v *View, n Node) error {
				_, err := v.Readdir(n, &ReaddirReq{Cookie: cookie}, func(*DirEntry) bool { return true })
				return err
			}), ErrBadCookie)
		}
		rng := rand.New(rand.NewPCG(3, 4))
		for range 200 { // whatever comes, it ends and lists names of this directory
			if err := u.do(root, func(v *View, n Node) error {
				_, err := v.Readdir(n, &ReaddirReq{Cookie: rng.Uint64() >> (1 + rng.IntN(63)), Verf: [8]byte{1}}, func(e *DirEntry) bool {
					if !slices.Contains([]string{".", "..", "sub"}, string(e.Name)) {
						t.Errorf("a made-up cookie lists %q", e.Name)
					}
					return true
				})
				return err
			}); err != nil && err != ErrBadCookie {
				t.Error(err)
			}
		}
		f, _, _ := u.lookup(sub, "f")
		want(t, "readdir of a file", u.do(f, func(v *View, n Node) error {
			_, err := v.Readdir(n, &ReaddirReq{}, func(*DirEntry) bool { return true })
			return err
		}), unix.ENOTDIR)
		u.c.MayBlock = false
		want(t, "readdir where it may not sleep", u.do(root, func(v *View, n Node) error {
			_, err := v.Readdir(n, &ReaddirReq{}, func(*DirEntry) bool { return true })
			return err
		}), ErrWouldBlock)
	})
}

// TestManyThreads mixes everything on many threads, under the race detector when asked for, and looks at what is left.
func TestManyThreads(t *testing.T) {
	d := ext4Dir(t, 32<<20)
	before := openFDs(t)
	b := newBench(t, d+" *(rw,async,no_root_squash)\n")
	var wg sync.WaitGroup
	const threads = 8
	for i := range threads {
		wg.Add(1)
		go func() {
			defer wg.Done()
			b.as(1000+uint32(i%3), 1000, func(u *user) {
				rng := rand.New(rand.NewPCG(uint64(i), 1))
				root := u.mount(d)
				for j := range 150 {
					u.c.MayBlock = rng.IntN(2) == 0
					name, other := fmt.Sprintf("n%d", rng.IntN(12)), fmt.Sprintf("n%d", rng.IntN(12))
					fh, _, _ := u.lookup(root, name)
					switch rng.IntN(9) {
					case 0, 1:
						u.create(root, name, 0o666)
					case 2:
						u.remove(root, name)
					case 3:
						u.rename(root, name, root, other)
					case 4:
						u.write(fh, uint64(rng.IntN(10000)), "some data")
					case 5:
						u.read(fh, 0, 20000)
					case 6:
						u.mkdir(root, name, 0o777)
					case 7:
						u.c.MayBlock = true
						if _, err := u.list(root, j%2 == 0, 5); err != nil {
							t.Errorf("list: %v", err)
						}
					case 8:
						u.setattr(fh, SetAttr{SetMode: true, Mode: 0o666, SetSize: true, Size: uint64(rng.IntN(9000))})
					}
				}
			})
		}()
	}
	for range 10 {
		if err := b.ns.Reload(mustSet(t, d+" *(rw,async,no_root_squash)\n")); err != nil {
			t.Error(err)
		}
		runtime.Gosched()
	}
	wg.Wait()
	b.close()
	if after := openFDs(t); after != before {
		t.Errorf("%d descriptors open, were %d", after, before)
	}
}

// TestFewDescriptors: no error reaches a client when the budget is small.
func TestFewDescriptors(t *testing.T) {
	d := ext4Dir(t, 32<<20)
	b := newBench(t, d+" *(rw,async,no_root_squash)\n", func(c *Config) {})
	b.ns.Close()
	b.cache.Close()
	b.cache = smallCache()
	cfg := b.ns.cfg
	cfg.Cache = b.cache
	old := b.eng
	t.Cleanup(func() { old.Close() })
	b.remake(cfg)
	b.as(0, 0, func(u *user) {
		root := u.mount(d)
		// As a server: first where it may not sleep, then where it may.
		call := func(what string, f func() error) {
			u.c.MayBlock = false
			err := f()
			if err == ErrWouldBlock {
				u.c.MayBlock = true
				err = f()
			}
			ok(t, what, err)
		}
		fhs := map[string][]byte{}
		for i := range 500 {
			name := "f" + strconv.Itoa(i)
			call("create", func() (err error) { fhs[name], _, err = u.create(root, name, 0o644); return })
		}
		for name, fh := range fhs {
			call("write", func() error { _, err := u.write(fh, 0, "x"); return err })
			call("remove", func() error { return u.remove(root, name) })
		}
	})
	if n := b.cache.Stats().Descriptors; n > 20 {
		t.Errorf("%d descriptors in a cache of 16", n)
	}
}
