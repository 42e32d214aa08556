package nfs4

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	wire "sluice/xdr/nfs4"
)

// An operation that needs a second file, over and over in one COMPOUND: what a call can hold must not run out.
func TestManyInOneCompound(t *testing.T) {
	s := startServer(t)
	must(t, os.Mkdir(filepath.Join(s.dir, "d"), 0o755))
	must(t, os.WriteFile(filepath.Join(s.dir, "f"), []byte("data"), 0o644))
	for i := range 40 {
		must(t, os.WriteFile(filepath.Join(s.dir, fmt.Sprint("r", i)), nil, 0o644))
	}
	c := s.conn() // 4.0, whose SECINFO keeps the current file
	rename := func(i int) op {
		return op{wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte(fmt.Sprint("r", i)), Newname: []byte(fmt.Sprint("n", i))}}
	}
	link := func(i int) op { return op{wire.OP_LINK, &wire.LINK4args{Newname: []byte(fmt.Sprint("l", i))}} }
	secinfo := func(int) op { return op{wire.OP_SECINFO, &wire.SECINFO4args{Name: []byte("f")}} }
	save := op{wire.OP_SAVEFH, nil}
	for what, k := range map[string]struct {
		before []op
		each   func(int) op
	}{
		"RENAME":  {[]op{root(), save, lookup("d")}, rename},
		"LINK":    {[]op{root(), lookup("f"), save, root()}, link},
		"SECINFO": {[]op{root()}, secinfo},
	} {
		ops := k.before
		for i := range 40 {
			ops = append(ops, k.each(i))
		}
		if r := c.compound(ops...); r.status != ok || r.n != len(ops) {
			t.Errorf("%s: %v, %d results of %d", what, r.status, r.n, len(ops))
		}
	}
	x := s.session(2, "many")
	ops := []op{root(), lookup("f"), save, root(), lookup("l0")}
	must(t, os.Remove(filepath.Join(s.dir, "l0")))
	must(t, os.WriteFile(filepath.Join(s.dir, "l0"), nil, 0o644))
	for i := range 10 {
		ops = append(ops, op{wire.OP_COPY, &wire.COPY4args{CaDstOffset: uint64(4 * i), CaCount: 4, CaSynchronous: true, CaConsecutive: true}})
	}
	if r := x.compound(ops...); r.status != ok {
		t.Errorf("COPY: %v, %d results of %d", r.status, r.n, len(ops)+1)
	}
}
