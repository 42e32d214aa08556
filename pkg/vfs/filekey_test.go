package vfs

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestOpenPins opens more files than there are descriptors: pins take their
// share and no more, and whoever comes after can still work.
func TestOpenPins(t *testing.T) {
	dir := t.TempDir()
	b := serve(t, dir, "rw,no_root_squash")
	b.ns.Close()
	b.cache.Close()
	b.cache = smallCache()
	cfg, old := b.ns.cfg, b.eng
	cfg.Cache = b.cache
	t.Cleanup(func() { old.Close() })
	b.remake(cfg)
	share := b.cache.Budget() / openShare
	files := 3 * b.cache.Budget()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(i)), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	b.as(0, 0, func(u *user) {
		var pins []*OpenPin
		top := u.mount(dir)
		for i := range files {
			fh, _, err := u.lookup(top, fmt.Sprint(i))
			ok(t, "lookup", err)
			u.do(fh, func(v *View, n Node) error { pins = append(pins, v.PinOpen(n)); return nil })
			if (pins[i] != nil) != (i < share) {
				t.Fatalf("pin %d of %d: %v", i, share, pins[i])
			}
		}
		for _, p := range pins {
			p.Release()
		}
		fh, _, err := u.lookup(top, "0")
		ok(t, "lookup", err)
		u.do(fh, func(v *View, n Node) error {
			p := v.PinOpen(n)
			if p == nil {
				t.Error("no pin though all were released")
			}
			p.Release()
			return nil
		})
	})
	if n := b.ns.openPins.Load(); n != 0 {
		t.Errorf("%d pins at the end", n)
	}
}
