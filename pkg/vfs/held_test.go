package vfs

import (
	"fmt"
	"testing"
	"time"
)

// What the file system says of a file that another client has a write delegation on is marked as perhaps old, by whichever
// way it comes; the holder's own and what others do not write to is not.
func TestHeldAttributes(t *testing.T) {
	for _, opt := range []string{"no_subtree_check", "subtree_check"} {
		t.Run(opt, func(t *testing.T) {
			d := ext4Dir(t, 64<<20)
			g := &gate4{}
			b := serve(t, d, "rw,no_root_squash,"+opt)
			b.as(0, 0, func(u *user) {
				root := u.mount(d)
				fh, _, err := u.create(root, "f", 0o644)
				ok(t, "create", err)
				_, _, err = u.create(root, "other", 0o644)
				ok(t, "create", err)
				u.do(fh, func(v *View, n Node) error { g.key = n.Key(); return nil })
				b.ns.SetGuard(g)
				time.Sleep(noteAge + 50*time.Millisecond) // so that names are noted
				ways := map[string]func() Attr{
					"lookup": func() Attr { _, a, err := u.lookup(root, "f"); ok(t, "lookup", err); return a },
					"lookup, noted": func() Attr {
						u.c.MayBlock = false
						defer func() { u.c.MayBlock = true }()
						u.lookup(root, "f")
						_, a, err := u.lookup(root, "f")
						ok(t, "lookup", err)
						return a
					},
					"access": func() (a Attr) {
						ok(t, "access", u.do(fh, func(v *View, n Node) (err error) { _, a, err = v.Access(n, AccessRead); return err }))
						return a
					},
					"commit": func() (a Attr) {
						ok(t, "commit", u.do(fh, func(v *View, n Node) error {
							_, c, err := v.Commit(n, 0, 0)
							if c.Before.Held != c.After.Held {
								t.Errorf("commit: before %v, after %v", c.Before.Held, c.After.Held)
							}
							a = c.After
							return err
						}))
						return a
					},
					"readdir": func() (a Attr) {
						ok(t, "readdir", u.do(root, func(v *View, n Node) error {
							_, err := v.Readdir(n, &ReaddirReq{Plus: true}, func(e *DirEntry) bool {
								if string(e.Name) == "f" {
									if a = e.Attr; a.Held && e.Key != g.key {
										t.Errorf("readdir: key %v, want %v", e.Key, g.key)
									}
								} else if e.Attr.Held {
									t.Errorf("readdir: %s is held", e.Name)
								}
								return true
							})
							return err
						}))
						return a
					},
				}
				for _, g.held = range []bool{true, false} {
					for name, way := range ways {
						if a := way(); !a.Valid() || a.Held != g.held {
							t.Errorf("%s: held %v, want %v", name, a.Held, g.held)
						}
					}
				}
				g.held, g.refuse = true, fmt.Errorf("refused")
				if w, err := u.write(fh, 0, "data"); err != ErrJukebox || !w.Change.Before.Held || !w.Change.After.Held {
					t.Errorf("refused write: %v, %+v", err, w.Change)
				}
			})
		})
	}
}
