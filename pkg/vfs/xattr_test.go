package vfs

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestXattr(t *testing.T) {
	onEach(t, func(t *testing.T, d string) {
		b := serve(t, d, "rw,no_root_squash")
		b.as(1000, 1000, func(u *user) {
			fh, _, err := u.create(u.mount(d), "f", 0o640)
			ok(t, "create", err)
			buf := make([]byte, MaxXattrValue)
			ok(t, "xattr", u.do(fh, func(v *View, n Node) error {
				for range 2 { // the second answer is remembered
					if !v.XattrSupport(n) {
						t.Error("no attributes")
					}
				}
				set := func(name, value string, how XattrHow) error {
					c, err := v.Setxattr(n, []byte(name), []byte(value), how)
					if err == nil && (!c.BeforeOK || !c.AfterOK || c.After.Change == c.Before.Change) {
						t.Errorf("change of %s: %+v", name, c)
					}
					return err
				}
				_, err := v.Getxattr(n, []byte("a"), buf)
				want(t, "get none", err, unix.ENODATA)
				want(t, "replace none", set("a", "1", XattrReplace), unix.ENODATA)
				want(t, "create", set("a", "1", XattrCreate), nil)
				want(t, "create again", set("a", "2", XattrCreate), unix.EEXIST)
				want(t, "replace", set("a", "2", XattrReplace), nil)
				want(t, "either", set("user.b", "", XattrEither), nil)
				want(t, "neither", set("user.b", "", 3), unix.EINVAL)
				got, err := v.Getxattr(n, []byte("a"), buf)
				if err != nil || string(got) != "2" {
					t.Errorf("get: %q %v", got, err)
				}
				got, err = v.Getxattr(n, []byte("user.b"), nil)
				if err != nil || len(got) != 0 {
					t.Errorf("get of an empty value: %q %v", got, err)
				}
				_, err = v.Getxattr(n, []byte("a"), nil)
				want(t, "no room", err, unix.ERANGE)
				want(t, "empty name", set("", "1", XattrEither), unix.EINVAL)
				want(t, "NUL", set("a\x00b", "1", XattrEither), unix.EINVAL)
				long := strings.Repeat("n", MaxXattrName)
				want(t, "longest name", set(long, "1", XattrEither), nil)
				want(t, "longer name", set(long+"n", "1", XattrEither), unix.ENAMETOOLONG)
				want(t, "long value", set("a", strings.Repeat("v", MaxXattrValue+1), XattrEither), unix.E2BIG)

				list := func(cookie uint64, max int) (names []string, eof bool, err error) {
					eof, err = v.Listxattr(n, cookie, func(name []byte) bool {
						if len(names) == max {
							return false
						}
						names = append(names, string(name))
						return true
					})
					return names, eof, err
				}
				all, eof, err := list(0, 9)
				slices.Sort(all)
				if err != nil || !eof || !slices.Equal(all, []string{"a", long, "user.b"}) {
					t.Errorf("list: %q %v %v", all, eof, err)
				}
				one, eof, _ := list(0, 1)
				rest, eof2, _ := list(1, 9)
				if both := append(one, rest...); len(both) != 3 || eof || !eof2 {
					t.Errorf("list in two: %q, %q, %v, %v", one, rest, eof, eof2)
				}
				_, _, err = list(4, 9)
				want(t, "a cookie past the end", err, ErrBadCookie)
				_, err = v.Removexattr(n, []byte("a"))
				want(t, "remove", err, nil)
				_, err = v.Removexattr(n, []byte("a"))
				want(t, "remove again", err, unix.ENODATA)
				return nil
			}))
			o := b.user(u.th, 2000, 2000)
			o.do(fh, func(v *View, n Node) error {
				_, err := v.Getxattr(n, []byte("user.b"), buf)
				want(t, "get by a stranger", err, unix.EACCES)
				_, err = v.Setxattr(n, []byte("user.b"), nil, XattrEither)
				want(t, "set by a stranger", err, unix.EACCES)
				_, err = v.Removexattr(n, []byte("user.b"))
				want(t, "remove by a stranger", err, unix.EACCES)
				_, err = v.Listxattr(n, 0, func([]byte) bool { return true })
				want(t, "list by a stranger", err, unix.EACCES)
				return nil
			})
			u.symlink(u.mount(d), "l", "f")
			l, _, err := u.lookup(u.mount(d), "l")
			ok(t, "lookup", err)
			u.do(l, func(v *View, n Node) error {
				_, err := v.Getxattr(n, []byte("user.b"), buf)
				want(t, "get of a link", err, unix.EPERM)
				_, err = v.Setxattr(n, []byte("b"), nil, XattrEither)
				want(t, "set of a link", err, unix.EPERM)
				return nil
			})
		})
		// Outside of the user namespace nothing can be reached, whatever the name.
		var v [10]byte
		if n, err := unix.Getxattr(filepath.Join(d, "f"), "user.user.b", v[:]); err != nil || n != 0 {
			t.Errorf("the name on disk: %v", err)
		}
	})
}

func TestACL(t *testing.T) {
	onEach(t, func(t *testing.T, d string) {
		b := serve(t, d, "rw,no_root_squash")
		acl := ACL{
			{Tag: ACLUserObj, Perm: 6}, {Tag: ACLUser, Perm: 4, ID: 2000}, {Tag: ACLGroupObj, Perm: 0},
			{Tag: ACLGroup, Perm: 7, ID: 3000}, {Tag: ACLMask, Perm: 5}, {Tag: ACLOther, Perm: 0},
		}
		b.as(1000, 1000, func(u *user) {
			root := u.mount(d)
			dir, err := u.mkdir(root, "dir", 0o700)
			ok(t, "mkdir", err)
			fh, _, err := u.create(root, "f", 0o600)
			ok(t, "create", err)
			u.do(fh, func(v *View, n Node) error {
				if !v.ACLSupport(n) {
					t.Fatal("no access lists")
				}
				got, err := v.GetACL(n, false)
				if err != nil || len(got) != 0 {
					t.Errorf("none: %v %v", got, err)
				}
				want(t, "set", v.SetACL(n, &acl, nil), nil)
				got, err = v.GetACL(n, false)
				if err != nil || !reflect.DeepEqual(got, acl) {
					t.Errorf("get: %v %v", got, err)
				}
				if a, _ := v.Getattr(n); a.Mode != 0o650 {
					t.Errorf("mode %o: the mask goes into it", a.Mode)
				}
				want(t, "default of a file", v.SetACL(n, nil, &acl), unix.EINVAL)
				want(t, "not sorted", v.SetACL(n, &ACL{acl[1], acl[0]}, nil), unix.EINVAL)
				big := make(ACL, MaxACL+1)
				want(t, "too long", v.SetACL(n, &big, nil), unix.ENOSPC)
				return nil
			})
			o := b.user(u.th, 2000, 2000)
			if _, _, err := o.read(fh, 0, 1); err != nil {
				t.Errorf("read by whom the list lets: %v", err)
			}
			o.do(fh, func(v *View, n Node) error {
				want(t, "set by a stranger", v.SetACL(n, &acl, nil), unix.EPERM)
				return nil
			})
			ok(t, "remove", u.do(fh, func(v *View, n Node) error { return v.SetACL(n, &ACL{}, nil) }))
			if got, _ := u.acl(fh, false); len(got) != 0 {
				t.Errorf("after removal: %v", got)
			}

			// What a directory hands on, which goes before the umask (RFC 8275).
			ok(t, "default", u.do(dir, func(v *View, n Node) error { return v.SetACL(n, nil, &acl) }))
			if got, err := u.acl(dir, true); err != nil || !reflect.DeepEqual(got, acl) {
				t.Errorf("default: %v %v", got, err)
			}
			s := &SetAttr{SetMode: true, Mode: 0o666, SetUmask: true, Umask: 0o077}
			made := func(in []byte, name string) (a Attr) {
				ok(t, name, u.do(in, func(v *View, n Node) error {
					e, _, err := v.Create(n, []byte(name), Guarded, [8]byte{}, s)
					a = e.Attr
					return err
				}))
				return a
			}
			if a := made(dir, "in"); a.Mode != 0o640 {
				t.Errorf("mode %o where a list is inherited", a.Mode)
			}
			if a := made(root, "out"); a.Mode != 0o600 {
				t.Errorf("mode %o where none is", a.Mode)
			}
			ok(t, "mkdir", u.do(root, func(v *View, n Node) error {
				e, _, err := v.Mkdir(n, []byte("sub"), &SetAttr{SetMode: true, Mode: 0o777, SetUmask: true, Umask: 0o027})
				if e.Attr.Mode != 0o750 {
					t.Errorf("mode %o of a directory", e.Attr.Mode)
				}
				return err
			}))
			if _, a, err := u.create(root, "later", 0o666); err != nil || a.Mode != 0o666 {
				t.Errorf("mode %o: the umask of a call outlives it", a.Mode)
			}
		})
	})
}

func (u *user) acl(fh []byte, dflt bool) (l ACL, err error) {
	err = u.do(fh, func(v *View, n Node) error { l, err = v.GetACL(n, dflt); return err })
	return l, err
}
