package vfs

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/dataio"
)

// A direct WRITE by somebody else than the owner clears set-user-ID and
// set-group-ID, as his own write would, is refused to who may not write, and
// goes to a thread that may sleep.
func TestDirectWriteIsTheCallers(t *testing.T) {
	dir := exportDir(t)
	var modes dataio.Modes
	modes.SetWrite(dataio.Direct)
	b := newBench(t, dir+" *(rw,no_root_squash)\n", func(c *Config) { c.Modes = &modes })
	data := string(bytes.Repeat([]byte("d"), 8192))
	for _, n := range []int{8192, 100, 6000} { // all direct, all buffered, in pieces
		p := filepath.Join(dir, fmt.Sprint(n))
		if err := os.WriteFile(p, make([]byte, 8192), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := unix.Chmod(p, 0o6777); err != nil {
			t.Fatal(err)
		}
		b.as(1000, 1000, func(u *user) {
			fh, _, err := u.lookup(u.mount(dir), fmt.Sprint(n))
			ok(t, "lookup", err)
			w, err := u.write(fh, 0, data[:n])
			ok(t, "write", err)
			if w.N != n || w.Committed != dataio.Unstable {
				t.Errorf("%d of %d bytes", w.N, n)
			}
			a, err := u.getattr(fh)
			ok(t, "getattr", err)
			if a.Mode&0o7777 != 0o777 {
				t.Errorf("after a WRITE of %d bytes by another user the mode is %#o", n, a.Mode&0o7777)
			}
			u.c.MayBlock = false
			if _, err := u.write(fh, 0, data[:n]); b.eng.Stats().Write["direct"].Calls > 0 && n >= 4096 {
				want(t, "direct without sleeping", err, ErrWouldBlock)
			}
		})
		if err := unix.Chmod(p, 0o644); err != nil {
			t.Fatal(err)
		}
		b.as(1000, 1000, func(u *user) {
			fh, _, err := u.lookup(u.mount(dir), fmt.Sprint(n))
			ok(t, "lookup", err)
			_, err = u.write(fh, 0, data[:n])
			want(t, "direct WRITE of who may not", err, unix.EACCES)
		})
	}
	if st := b.eng.Stats().Write["direct"]; st.Fallbacks["no_direct_io"] == 0 && st.Calls != 2 {
		t.Errorf("%+v", st)
	}
}

// Two exports of one file: what one writes direct, the other writes buffered
// and reads, in either order.
func TestModesOfTwoExports(t *testing.T) {
	dir := exportDir(t)
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(sub, "f"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	var modes dataio.Modes
	modes.SetExportWrite(dir, dataio.Direct)
	modes.SetExportRead(dir, dataio.Direct)
	b := newBench(t, fmt.Sprintf("%s *(rw,no_root_squash)\n%s *(rw,no_root_squash)\n", dir, sub), func(c *Config) { c.Modes = &modes })
	b.as(0, 0, func(u *user) {
		d, _, err := u.lookup(u.mount(dir), "sub")
		ok(t, "lookup", err)
		one, _, err := u.lookup(d, "f")
		ok(t, "lookup", err)
		two, _, err := u.lookup(u.mount(sub), "f")
		ok(t, "lookup", err)
		if bytes.Equal(one, two) {
			t.Skip("one handle")
		}
		model := make([]byte, 64<<10)
		for i := range 40 {
			fh := [][]byte{one, two}[i%2]
			off, n := i*1117, 20_000+i*13
			data := bytes.Repeat([]byte{byte('a' + i%26)}, n)
			model = append(model, make([]byte, max(0, off+n-len(model)))...)
			copy(model[off:], data)
			if w, err := u.write(fh, uint64(off), string(data)); err != nil || w.N != n {
				t.Fatal(w.N, err)
			}
			for _, fh := range [][]byte{one, two} {
				got, _, err := u.read(fh, uint64(off), uint32(n))
				if err != nil || got != string(data) {
					t.Fatalf("write %d: %d bytes read back, %v", i, len(got), err)
				}
			}
		}
		files := map[any]bool{}
		for _, fh := range [][]byte{one, two} {
			ok(t, "order", u.do(fh, func(_ *View, n Node) error { files[n.f.Order()] = true; return nil }))
		}
		if len(files) != 1 {
			t.Error("the two exports have an order each")
		}
	})
}
