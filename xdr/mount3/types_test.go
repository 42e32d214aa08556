package mount3

import (
	"testing"

	"sluice/xdr/xdrtest"
)

func FuzzTypes(f *testing.F) { xdrtest.Fuzz(f, allTypes) }

func TestBounds(t *testing.T) { xdrtest.Bounds(t, allTypes) }

func TestAllocs(t *testing.T) { xdrtest.Allocs(t, allTypes, "Exports") }
