// The hot paths: GETATTR, LOOKUP, ACCESS, READ and WRITE allocate nothing, and what they cost.

package vfs

import (
	"os"
	"path/filepath"
	"testing"

	"sluice/pkg/dataio"
)

// hot returns a thread's user and the handles of an export and of files in it.
func hot(t testing.TB, f func(u *user, root, file []byte)) {
	d := exportDir(t)
	for _, n := range []string{"file", "other"} {
		if err := os.WriteFile(filepath.Join(d, n), make([]byte, 1<<16), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	os.Chown(filepath.Join(d, "file"), 1000, 1000)
	b := newBench(t, d+" *(rw,async,no_root_squash)\n")
	b.as(1000, 1000, func(u *user) {
		root := u.mount(d)
		fh, _, err := u.lookup(root, "file")
		ok(t, "lookup", err)
		u.c.MayBlock = false
		f(u, root, fh)
	})
}

type hotOp struct {
	name string
	run  func(u *user, root, file []byte) error
}

var (
	hotData   = make([]byte, 4096)
	hotName   = []byte("file")
	hotGroups = []uint32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
)

// The Views are opened in place: one that is passed to a function value would be on the heap.
func hotOps() []hotOp {
	return []hotOp{
		{"Getattr", func(u *user, root, file []byte) error {
			v, n, err := u.b.ns.View(u.th, &u.c, file)
			if err != nil {
				return err
			}
			_, err = v.Getattr(n)
			v.Close()
			return err
		}},
		{"Lookup", func(u *user, root, file []byte) error {
			v, n, err := u.b.ns.View(u.th, &u.c, root)
			if err != nil {
				return err
			}
			_, _, err = v.Lookup(n, hotName)
			v.Close()
			return err
		}},
		{"LookupGroups", func(u *user, root, file []byte) error {
			u.c.Cred.Groups = hotGroups
			v, n, err := u.b.ns.View(u.th, &u.c, root)
			if err != nil {
				return err
			}
			_, _, err = v.Lookup(n, hotName)
			v.Close()
			return err
		}},
		{"LookupTwoUsers", func(u *user, root, file []byte) error {
			u.c.Cred.UID ^= 1
			v, n, err := u.b.ns.View(u.th, &u.c, root)
			if err != nil {
				return err
			}
			_, _, err = v.Lookup(n, hotName)
			v.Close()
			return err
		}},
		{"Access", func(u *user, root, file []byte) error {
			v, n, err := u.b.ns.View(u.th, &u.c, file)
			if err != nil {
				return err
			}
			_, _, err = v.Access(n, 0x3f)
			v.Close()
			return err
		}},
		{"Read4K", func(u *user, root, file []byte) error {
			v, n, err := u.b.ns.View(u.th, &u.c, file)
			if err != nil {
				return err
			}
			var r ReadResult
			if r, err = v.Read(n, 4096, 4096); r.Data != nil {
				r.Data.Release()
			}
			v.Close()
			return err
		}},
		{"Write4K", func(u *user, root, file []byte) error {
			v, n, err := u.b.ns.View(u.th, &u.c, file)
			if err != nil {
				return err
			}
			_, err = v.Write(n, 4096, hotData, dataio.Unstable)
			v.Close()
			return err
		}},
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	for _, op := range hotOps() {
		t.Run(op.name, func(t *testing.T) {
			hot(t, func(u *user, root, file []byte) {
				ok(t, op.name, op.run(u, root, file))
				if n := testing.AllocsPerRun(200, func() {
					if err := op.run(u, root, file); err != nil {
						panic(err)
					}
				}); n != 0 {
					t.Errorf("%v allocations", n)
				}
			})
		})
	}
}

func BenchmarkHot(b *testing.B) {
	for _, op := range hotOps() {
		b.Run(op.name, func(b *testing.B) {
			hot(b, func(u *user, root, file []byte) {
				b.ReportAllocs()
				b.ResetTimer()
				for b.Loop() {
					if err := op.run(u, root, file); err != nil {
						panic(err)
					}
				}
			})
		})
	}
}
