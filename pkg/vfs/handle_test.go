package vfs

import (
	"bytes"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/pkg/filecache"
)

func TestHandleLayout(t *testing.T) {
	k := HandleKey{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	key := filecache.Key{FS: 99, Type: 0x81, Len: 12}
	copy(key.Bytes[:], "kernelhandle")
	var h Handle
	k.encode(&h, 0x01020304, 0x1112131415161718, &key)
	const golden = "01810c00" + "01020304" + "1112131415161718" + "7940d51c6d543a61" + "6b65726e656c68616e646c65"
	if got := hex.EncodeToString(h.Bytes()); got != golden {
		t.Errorf("handle\n%s, want\n%s", got, golden)
	}
	var back filecache.Key
	var tmp Handle
	exp, fs, err := k.decode(&tmp, h.Bytes(), &back)
	back.FS = 99
	if err != nil || exp != 0x01020304 || fs != 0x1112131415161718 || back != key {
		t.Errorf("decoded %x %x %+v, %v", exp, fs, back, err)
	}
	// The largest kernel handle fits in NFS3_FHSIZE.
	key.Len = maxKernelBytes
	key.Type |= typeFlags
	k.encode(&h, 1, 2, &key)
	if h.Len != 64 {
		t.Errorf("the largest handle has %d bytes", h.Len)
	}
	if _, _, err := k.decode(&tmp, h.Bytes(), &back); err != nil || back.Type != key.Type {
		t.Errorf("decoded type %x, %v", back.Type, err)
	}
	if n := testing.AllocsPerRun(100, func() {
		k.encode(&h, 1, 2, &key)
		k.decode(&tmp, h.Bytes(), &back)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestHandlesOfOthers(t *testing.T) {
	d, d2 := exportDir(t), exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n"+d2+" *(rw,no_root_squash)\n")
	b.as(0, 0, func(u *user) {
		root, root2 := u.mount(d), u.mount(d2)
		fh, _, err := u.create(root, "f", 0o644)
		ok(t, "create", err)
		for i := range fh {
			for bit := range 8 {
				bad := bytes.Clone(fh)
				bad[i] ^= 1 << bit
				_, err := u.getattr(bad)
				want(t, "a changed handle", err, ErrBadHandle)
			}
		}
		for n := range fh {
			_, err := u.getattr(fh[:n])
			want(t, "a cut handle", err, ErrBadHandle)
		}
		_, err = u.getattr(append(bytes.Clone(fh), 0))
		want(t, "a longer handle", err, ErrBadHandle)
		_, err = u.getattr(make([]byte, 64))
		want(t, "zeros", err, ErrBadHandle)
		_, err = u.getattr(make([]byte, 65))
		want(t, "65 bytes", err, ErrBadHandle)

		// Rightly signed, but of nothing that is here.
		sign := func(exp uint32, fs uint64, key filecache.Key) []byte {
			var h Handle
			b.ns.cfg.HandleKey.encode(&h, exp, fs, &key)
			return bytes.Clone(h.Bytes())
		}
		var tmp Handle
		var key filecache.Key
		exp, fs, err := b.ns.cfg.HandleKey.decode(&tmp, fh, &key)
		ok(t, "decode", err)
		if _, err := u.getattr(sign(exp, fs, key)); err != nil {
			t.Errorf("the same handle: %v", err)
		}
		gen := key
		gen.Bytes[4]++
		for what, h := range map[string][]byte{
			"another export": sign(exp+1, fs, key), "another file system": sign(exp, fs+1, key), "another generation": sign(exp, fs, gen),
			"no kernel handle": sign(exp, fs, filecache.Key{Type: key.Type}), "another type": sign(exp, fs, filecache.Key{Type: 0x99, Len: 8}),
			"a long kernel handle": sign(exp, fs, filecache.Key{Type: key.Type, Len: 40}),
		} {
			_, err := u.getattr(h)
			want(t, what, err, ErrStale)
		}

		// Files of the same file system under another export are that one's.
		fh2, _, err := u.create(root2, "g", 0o644)
		ok(t, "create", err)
		_, _, err = u.rename(root, "f", root2, "f")
		want(t, "rename to another export", err, unix.EXDEV)
		want(t, "link to another export", u.do(fh2, func(v *View, n Node) error { _, err := v.Node(root); return err }), unix.EXDEV)
		want(t, "a second handle that is forged", u.do(fh2, func(v *View, n Node) error { _, err := v.Node(root[:20]); return err }), ErrBadHandle)
	})
	k2 := HandleKey{9}
	b2 := newBench(t, d+" *(rw,no_root_squash)\n", func(c *Config) { c.HandleKey = k2 })
	b2.as(0, 0, func(u *user) {
		var fh []byte
		b.as(0, 0, func(u *user) { fh = u.mount(d) })
		_, err := u.getattr(fh)
		want(t, "another server's handle", err, ErrBadHandle)
	})
}

func TestHandlesSurviveRestartAndRename(t *testing.T) {
	d := exportDir(t)
	b := newBench(t, d+" *(rw,no_root_squash)\n")
	b.on(func(th *Thread) {
		u := b.user(th, 0, 0)
		root := u.mount(d)
		dir, err := u.mkdir(root, "a", 0o755)
		ok(t, "mkdir", err)
		fh, _, err := u.create(dir, "f", 0o644)
		ok(t, "create", err)
		b.restart()
		th2 := b.newThread()
		defer th2.Close()
		u = b.user(th2, 0, 0)
		if string(u.mount(d)) != string(root) {
			t.Error("the export has another handle after a restart")
		}
		if err := os.Rename(filepath.Join(d, "a"), filepath.Join(d, "b")); err != nil {
			t.Error(err)
		}
		_, err = u.getattr(fh)
		ok(t, "a file in a renamed directory, after a restart", err)
		// mkdir inner in a directory that was renamed while a client works in it.
		inner, err := u.mkdir(dir, "inner", 0o755)
		ok(t, "mkdir in the renamed directory", err)
		up, _, err := u.lookup(inner, "..")
		ok(t, "lookup", err)
		if string(up) != string(dir) || !exists(d, "b", "inner") {
			t.Error("the directory was made elsewhere")
		}
	})
}

func TestHandleKeyFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "sluice")
	var wg sync.WaitGroup
	keys := make([]HandleKey, 8)
	for i := range keys {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var err error
			if keys[i], err = LoadHandleKey(dir); err != nil {
				t.Error(err)
			}
		}()
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] || k == (HandleKey{}) {
			t.Errorf("keys differ: %x %x", k, keys[0])
		}
	}
	names, _ := os.ReadDir(dir)
	if len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
	path := filepath.Join(dir, keyFile)
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	whole, _ := os.ReadFile(path)
	for n := range whole {
		os.WriteFile(path, whole[:n], 0o600)
		if k, err := LoadHandleKey(dir); err == nil || k != (HandleKey{}) || !strings.Contains(err.Error(), "damaged") {
			t.Fatalf("a file cut at %d: %v", n, err)
		}
	}
	bad := bytes.Clone(whole)
	bad[25] ^= 1
	os.WriteFile(path, bad, 0o600)
	if _, err := LoadHandleKey(dir); err == nil {
		t.Error("a changed file was taken")
	}
	os.WriteFile(path, whole, 0o600)
	os.Chmod(path, 0o640)
	if _, err := LoadHandleKey(dir); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("a file that others can read: %v", err)
	}
	os.Chmod(path, 0o600)
	if k, err := LoadHandleKey(dir); err != nil || k != keys[0] {
		t.Errorf("the whole file again: %v", err)
	}
}

func TestExportIDs(t *testing.T) {
	id := func(path string, f exports.FSID) uint32 { return exportID(&exports.Export{Path: path, FSID: f}) }
	uuid := exports.FSID{Kind: exports.FSIDUUID, UUID: [16]byte{1}}
	num := func(n uint32) exports.FSID { return exports.FSID{Kind: exports.FSIDNum, Num: n} }
	if id("/a", num(5)) != id("/b", num(5)) {
		t.Error("a number does not name the export by itself")
	}
	if id("/a", num(0)) != id("/a", exports.FSID{Kind: exports.FSIDRoot}) {
		t.Error("fsid=0 and fsid=root differ")
	}
	seen := map[uint32]bool{}
	for _, v := range []uint32{id("/a", num(5)), id("/a", num(6)), id("/a", uuid), id("/b", uuid), id("/a", exports.FSID{}), id("/b", exports.FSID{})} {
		if seen[v] {
			t.Error("two exports have one id")
		}
		seen[v] = true
	}
}

// FuzzHandle: whatever the bytes, only handles with the right MAC decode, and those decode to what was encoded.
func FuzzHandle(f *testing.F) {
	k := HandleKey{1, 2, 3}
	key := filecache.Key{Type: 1, Len: 8}
	var h Handle
	k.encode(&h, 7, 8, &key)
	f.Add(h.Bytes())
	f.Add([]byte{})
	f.Add(make([]byte, 24))
	f.Add(bytes.Repeat([]byte{1}, 64))
	f.Add(bytes.Repeat([]byte{255}, 65))
	f.Fuzz(func(t *testing.T, b []byte) {
		var tmp, again Handle
		var key filecache.Key
		exp, fs, err := k.decode(&tmp, b, &key)
		if err != nil {
			if err != ErrBadHandle {
				t.Fatal(err)
			}
			// The same bytes, rightly signed, must come back as they are or be refused for their form.
			if len(b) < handleHeader || len(b) > maxHandle {
				return
			}
			key = filecache.Key{Type: int32(b[1]), Len: uint8(len(b) - handleHeader)}
			copy(key.Bytes[:], b[handleHeader:])
			k.encode(&again, 1, 2, &key)
			var back filecache.Key
			if _, _, err := k.decode(&tmp, again.Bytes(), &back); err != nil || back != key {
				t.Fatalf("%v: %+v, want %+v", err, back, key)
			}
			return
		}
		k.encode(&again, exp, fs, &key)
		if !bytes.Equal(again.Bytes(), b) {
			t.Fatalf("decoded %x, encoded %x", b, again.Bytes())
		}
	})
}
