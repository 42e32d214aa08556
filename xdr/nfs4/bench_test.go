// Benchmarks and allocation tests of the types on the hot paths.

package nfs4

import (
	"testing"

	"sluice/xdr"
)

var (
	handle   = make([]byte, 48)
	wanted   = Bits(FATTR4_TYPE, FATTR4_CHANGE, FATTR4_SIZE, FATTR4_FSID, FATTR4_FILEID, FATTR4_MODE, FATTR4_NUMLINKS, FATTR4_OWNER, FATTR4_OWNER_GROUP, FATTR4_TIME_MODIFY)
	sequence = SEQUENCE4args{SaSessionid: sess, SaSequenceid: 1, SaHighestSlotid: 63}
	readArgs = READ4args{Stateid: sid, Offset: 1 << 40, Count: 1 << 20}
	bigWrite = WRITE4args{Stateid: sid, Offset: 1 << 40, Stable: FILE_SYNC4, Data: make([]byte, 1<<20)}
	openArgs = OPEN4args{ShareAccess: OPEN4_SHARE_ACCESS_BOTH, Owner: owner, Openhow: Openflag4{Opentype: OPEN4_CREATE,
		How: Createhow4{Mode: EXCLUSIVE4_1, ChCreateboth: Creatverfattr{CvaVerf: verf, CvaAttrs: attrs}}}, Claim: OpenClaim4{File: name}}
	values  = make([]byte, 160)
	gotAttr = GETATTR4res{Resok4: GETATTR4resok{Fattr4{Attrmask: wanted, AttrVals: values}}}
	opened  = OPEN4res{Resok4: OPEN4resok{Stateid: sid, Cinfo: cinfo, Attrset: mask, Delegation: OpenDelegation4{DelegationType: OPEN_DELEGATE_READ, Read: OpenReadDelegation4{Stateid: sid, Permissions: ace}}}}
	inSlot  = SEQUENCE4res{SrResok4: SEQUENCE4resok{SrSessionid: sess, SrSequenceid: 1, SrHighestSlotid: 63, SrTargetHighestSlotid: 63}}
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
	putfh, getattr, lookup := encoded(&PUTFH4args{Object: handle}), encoded(&GETATTR4args{AttrRequest: wanted}), encoded(&LOOKUP4args{Objname: name})
	read, write, open, seq := encoded(&readArgs), encoded(&bigWrite), encoded(&openArgs), encoded(&sequence)
	access, setattr, closed := encoded(&ACCESS4args{Access: 0x3f}), encoded(&SETATTR4args{Stateid: sid, ObjAttributes: attrs}), encoded(&CLOSE4args{OpenStateid: sid})
	readdir, lock := encoded(&READDIR4args{Maxcount: 1 << 15, AttrRequest: wanted}), encoded(&LOCK4args{Locktype: WRITE_LT, Locker: Locker4{NewLockOwner: true, OpenOwner: OpenToLockOwner4{LockOwner: owner}}})
	compound := append(encoded(&COMPOUND4args{Tag: name, Minorversion: 2, Argarray: 1}), 0, 0, 0, 1)
	unknown := encoded(&Bitmap4{N: 3, Rest: make([]byte, 4*1000)})
	huge := append(encoded(&GETATTR4args{}), 0xff)
	huge[0], huge[3] = 0x7f, 0xff
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"decode COMPOUND4args", func() { var v COMPOUND4args; d.Reset(compound); v.Decode(&d) }},
		{"decode SEQUENCE4args", func() { var v SEQUENCE4args; d.Reset(seq); v.Decode(&d) }},
		{"decode PUTFH4args", func() { var v PUTFH4args; d.Reset(putfh); v.Decode(&d) }},
		{"decode GETATTR4args", func() { var v GETATTR4args; d.Reset(getattr); v.Decode(&d) }},
		{"decode SETATTR4args", func() { var v SETATTR4args; d.Reset(setattr); v.Decode(&d) }},
		{"decode LOOKUP4args", func() { var v LOOKUP4args; d.Reset(lookup); v.Decode(&d) }},
		{"decode ACCESS4args", func() { var v ACCESS4args; d.Reset(access); v.Decode(&d) }},
		{"decode READDIR4args", func() { var v READDIR4args; d.Reset(readdir); v.Decode(&d) }},
		{"decode OPEN4args", func() { var v OPEN4args; d.Reset(open); v.Decode(&d) }},
		{"decode CLOSE4args", func() { var v CLOSE4args; d.Reset(closed); v.Decode(&d) }},
		{"decode LOCK4args", func() { var v LOCK4args; d.Reset(lock); v.Decode(&d) }},
		{"decode READ4args", func() { var v READ4args; d.Reset(read); v.Decode(&d) }},
		{"decode WRITE4args of 1 MiB", func() { var v WRITE4args; d.Reset(write); v.Decode(&d) }},
		{"decode a bitmap of 1003 words", func() { var v Bitmap4; d.Reset(unknown); v.Decode(&d) }},
		{"refuse a bitmap of 2^31 words", func() { var v GETATTR4args; d.Reset(huge); v.Decode(&d) }},
		{"encode SEQUENCE4res", func() { e.Reset(buf); inSlot.Encode(&e) }},
		{"encode GETATTR4res", func() { e.Reset(buf); gotAttr.Encode(&e) }},
		{"encode OPEN4res", func() { e.Reset(buf); opened.Encode(&e) }},
		{"make a bitmap", func() { v := Bits(FATTR4_SIZE, FATTR4_MODE); e.Reset(buf); v.Encode(&e) }},
	} {
		if n := testing.AllocsPerRun(100, c.f); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// BenchmarkDecodeREAD decodes all of the COMPOUND that a Linux client sends
// for a READ: SEQUENCE, PUTFH, READ.
func BenchmarkDecodeREAD(b *testing.B) {
	b.ReportAllocs()
	msg := encoded(&COMPOUND4args{Minorversion: 2, Argarray: 3})
	for _, v := range []xdr.Type{&sequence, &PUTFH4args{Object: handle}, &readArgs} {
		msg = append(append(msg, 0, 0, 0, 0), encoded(v)...)
	}
	var d xdr.Decoder
	for b.Loop() {
		var c COMPOUND4args
		var s SEQUENCE4args
		var p PUTFH4args
		var r READ4args
		d.Reset(msg)
		c.Decode(&d)
		d.Uint32()
		s.Decode(&d)
		d.Uint32()
		p.Decode(&d)
		d.Uint32()
		r.Decode(&d)
		if d.Err() != nil {
			b.Fatal(d.Err())
		}
	}
}

func BenchmarkDecodeGETATTR4args(b *testing.B) {
	b.ReportAllocs()
	var d xdr.Decoder
	for msg := encoded(&GETATTR4args{AttrRequest: wanted}); b.Loop(); {
		var v GETATTR4args
		d.Reset(msg)
		v.Decode(&d)
	}
}

func BenchmarkDecodeOPEN4args(b *testing.B) {
	b.ReportAllocs()
	var d xdr.Decoder
	for msg := encoded(&openArgs); b.Loop(); {
		var v OPEN4args
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

func BenchmarkEncodeSEQUENCE4res(b *testing.B) { benchmarkEncode(b, &inSlot) }
func BenchmarkEncodeGETATTR4res(b *testing.B)  { benchmarkEncode(b, &gotAttr) }
func BenchmarkEncodeOPEN4res(b *testing.B)     { benchmarkEncode(b, &opened) }
