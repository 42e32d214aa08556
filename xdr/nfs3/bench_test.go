// Benchmarks and allocation tests of the types on the hot paths. The figures
// are in docs/decisions/0001-xdr-generator.md.

package nfs3

import (
	"testing"

	"sluice/xdr"
)

var (
	handle   = NfsFh3{Data: make([]byte, 28)}
	attr     = PostOpAttr{AttributesFollow: true, Attributes: Fattr3{Type: NF3REG, Mode: 0o644, Nlink: 1}}
	readArgs = READ3args{File: handle, Offset: 1 << 40, Count: 1 << 20}
	bigWrite = WRITE3args{File: handle, Offset: 1 << 40, Count: 1 << 20, Stable: FILE_SYNC, Data: make([]byte, 1<<20)}
	lookup   = LOOKUP3args{What: Diropargs3{Dir: handle, Name: []byte("name.go")}}
	getattr  = GETATTR3res{Resok: GETATTR3resok{ObjAttributes: attr.Attributes}}
	found    = LOOKUP3res{Resok: LOOKUP3resok{Object: handle, ObjAttributes: attr, DirAttributes: attr}}
	written  = WRITE3res{Resok: WRITE3resok{
		FileWcc: WccData{Before: PreOpAttr{AttributesFollow: true}, After: attr}, Count: 1 << 20}}
)

func encoded(v xdr.Type) []byte {
	var e xdr.Encoder
	v.Encode(&e)
	return e.Bytes()
}

// TestHotPathAllocs decodes into a fresh value each time, as a server does:
// TestAllocs of types_test.go, which covers all types, reuses one.
func TestHotPathAllocs(t *testing.T) {
	var d xdr.Decoder
	var e xdr.Encoder
	buf := make([]byte, 0, 512)
	read, write, look := encoded(&readArgs), encoded(&bigWrite), encoded(&lookup)
	huge := append(encoded(&handle), 0xff, 0xff, 0xff, 0xff)
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"decode READ3args", func() { var v READ3args; d.Reset(read); v.Decode(&d) }},
		{"decode WRITE3args of 1 MiB", func() { var v WRITE3args; d.Reset(write); v.Decode(&d) }},
		{"decode LOOKUP3args", func() { var v LOOKUP3args; d.Reset(look); v.Decode(&d) }},
		{"encode GETATTR3res", func() { e.Reset(buf); getattr.Encode(&e) }},
		{"encode LOOKUP3res", func() { e.Reset(buf); found.Encode(&e) }},
		{"encode WRITE3res", func() { e.Reset(buf); written.Encode(&e) }},
		{"refuse a name of 2^32-1 bytes", func() { var v LOOKUP3args; d.Reset(huge); v.Decode(&d) }},
	} {
		if n := testing.AllocsPerRun(100, c.f); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func BenchmarkDecodeREAD3args(b *testing.B) {
	b.ReportAllocs()
	var d xdr.Decoder
	for msg := encoded(&readArgs); b.Loop(); {
		var v READ3args
		d.Reset(msg)
		v.Decode(&d)
	}
}

func BenchmarkDecodeWRITE3args1MiB(b *testing.B) {
	b.ReportAllocs()
	var d xdr.Decoder
	for msg := encoded(&bigWrite); b.Loop(); {
		var v WRITE3args
		d.Reset(msg)
		v.Decode(&d)
	}
}

func BenchmarkDecodeLOOKUP3args(b *testing.B) {
	b.ReportAllocs()
	var d xdr.Decoder
	for msg := encoded(&lookup); b.Loop(); {
		var v LOOKUP3args
		d.Reset(msg)
		v.Decode(&d)
	}
}

func benchmarkEncode(b *testing.B, v xdr.Type) {
	b.ReportAllocs()
	var e xdr.Encoder
	for buf := make([]byte, 0, 512); b.Loop(); {
		e.Reset(buf)
		v.Encode(&e)
	}
}

func BenchmarkEncodeGETATTR3res(b *testing.B) { benchmarkEncode(b, &getattr) }
func BenchmarkEncodeLOOKUP3res(b *testing.B)  { benchmarkEncode(b, &found) }
func BenchmarkEncodeWRITE3res(b *testing.B)   { benchmarkEncode(b, &written) }
