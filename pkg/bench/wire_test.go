package bench

import (
	"errors"
	"strings"
	"testing"

	"sluice/rpc"
	"sluice/xdr"
	wire3 "sluice/xdr/nfs3"
	wire4 "sluice/xdr/nfs4"
)

// compound4 is the answer to a COMPOUND, behind its mark: status, and results
// by operation, status and body.
func compound4(st wire4.Nfsstat4, results ...func(e *xdr.Encoder)) []byte {
	return reply(7, append([]func(e *xdr.Encoder){func(e *xdr.Encoder) {
		e.Uint32(uint32(st))
		e.Opaque([]byte("a tag"))
		e.Uint32(uint32(len(results)))
	}}, results...)...)[4:]
}

func result4(op wire4.NfsOpnum4, st wire4.Nfsstat4, body ...uint32) func(e *xdr.Encoder) {
	return words(append([]uint32{uint32(op), uint32(st)}, body...)...)
}

func TestVerdictOfCompound(t *testing.T) {
	seq := result4(wire4.OP_SEQUENCE, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
	fh := result4(wire4.OP_PUTFH, 0)
	for name, tc := range map[string]struct {
		k     kind
		b     []byte
		want  string // of the error; "": none
		slot  bool
		later bool
		count int
	}{
		"READ":                 {kindRead, compound4(0, seq, fh, result4(wire4.OP_READ, 0, 1, 8, 10, 20)), "", true, false, 8},
		"WRITE":                {kindWrite, compound4(0, seq, fh, result4(wire4.OP_WRITE, 0, 4096, 2, 1, 1)), "", true, false, 4096},
		"COMMIT":               {kindCommit, compound4(0, seq, fh, result4(wire4.OP_COMMIT, 0, 1, 1)), "", true, false, 0},
		"an error":             {kindRead, compound4(wire4.NFS4ERR_IO, seq, fh, result4(wire4.OP_READ, wire4.NFS4ERR_IO)), "OP_READ: NFS4ERR_IO", true, false, 0},
		"a handle gone":        {kindRead, compound4(wire4.NFS4ERR_STALE, seq, result4(wire4.OP_PUTFH, wire4.NFS4ERR_STALE)), "OP_PUTFH: NFS4ERR_STALE", true, false, 0},
		"later":                {kindRead, compound4(wire4.NFS4ERR_DELAY, seq, fh, result4(wire4.OP_READ, wire4.NFS4ERR_DELAY)), "NFS4ERR_DELAY", true, true, 0},
		"SEQUENCE fails":       {kindRead, compound4(wire4.NFS4ERR_BADSESSION, result4(wire4.OP_SEQUENCE, wire4.NFS4ERR_BADSESSION)), "NFS4ERR_BADSESSION", false, false, 0},
		"SEQUENCE later":       {kindRead, compound4(wire4.NFS4ERR_DELAY, result4(wire4.OP_SEQUENCE, wire4.NFS4ERR_DELAY)), "NFS4ERR_DELAY", false, false, 0},
		"no results":           {kindRead, compound4(0), "0 results of 3", false, false, 0},
		"too few":              {kindRead, compound4(0, seq, fh), "2 results of 3", true, false, 0},
		"of another operation": {kindRead, compound4(0, seq, fh, result4(wire4.OP_WRITE, 0, 1, 1, 1, 1)), "in the place of OP_READ's", true, false, 0},
		"one too many":         {kindCommit, compound4(0, seq, fh, result4(wire4.OP_COMMIT, 0, 1, 1), result4(wire4.OP_COMMIT, 0, 1, 1)), "in the place of", true, false, 0},
		"cut off":              {kindWrite, compound4(0, seq, fh, result4(wire4.OP_WRITE, 0, 4096)), "can't be decoded", true, false, 4096},
	} {
		var v verdict
		if err := v.head(tc.b, true, 4, tc.k); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if (tc.want == "") != (v.err == nil) || v.err != nil && !strings.Contains(v.err.Error(), tc.want) || v.slot != tc.slot || v.later != tc.later || v.err == nil && v.count != tc.count {
			t.Errorf("%s: error %v, slot %t, later %t, count %d", name, v.err, v.slot, v.later, v.count)
		}
		// Whatever has come of it, it is complete or wants more; and with all of it, the same.
		for n := range len(tc.b) {
			err := v.head(tc.b[:n], false, 4, tc.k)
			if err != nil && !errors.Is(err, errNeedMore) || err == nil && (v.err == nil) != (tc.want == "") && !strings.Contains(tc.want, "decoded") {
				t.Errorf("%s, %d bytes of it: %v, %v", name, n, err, v.err)
			}
		}
	}
}

// TestTemplates: a call that is patched is what the generated types decode.
func TestTemplates(t *testing.T) {
	cred := &rpc.Cred{Flavor: rpc.FlavorSys, UID: 5, GID: 6, Machine: []byte("m")}
	fh := []byte("a handle")
	s := &step{off: 1 << 40, length: 4095}
	args := func(b []byte, proc uint32) *xdr.Decoder {
		t.Helper()
		var d xdr.Decoder
		size := be.Uint32(b) &^ lastFragment
		d.Reset(b[4:])
		if xid, p := d.Uint32(), be.Uint32(b[24:]); xid != 99 || p != proc {
			t.Errorf("xid %d, procedure %d", xid, p)
		}
		d.Next(20)
		for range 2 {
			d.Uint32()
			d.Opaque(rpc.MaxAuthBytes)
		}
		if rest := int(size) - len(b[4:]); rest != 0 && rest != 4096 {
			t.Errorf("the mark says %d bytes, %d are there", size, len(b)-4)
		}
		return &d
	}
	var read wire3.READ3args
	d := args(newTemplate3(kindRead, cred, fh, 0).append(nil, 99, s, nil, 0, 0), wire3.NFSPROC3_READ)
	if read.Decode(d); d.Err() != nil || d.Len() != 0 || string(read.File.Data) != string(fh) || read.Offset != 1<<40 || read.Count != 4095 {
		t.Errorf("READ %+v, %v", read, d.Err())
	}
	b := newTemplate3(kindWrite, cred, fh, 2).append(nil, 99, s, nil, 0, 0)
	var write wire3.WRITE3args
	d = args(b, wire3.NFSPROC3_WRITE)
	d.Reset(append(d.Next(d.Len()), make([]byte, 4096)...))
	if write.Decode(d); d.Err() != nil || d.Len() != 0 || write.Offset != 1<<40 || write.Count != 4095 || len(write.Data) != 4095 || write.Stable != wire3.FILE_SYNC {
		t.Errorf("WRITE at %d of %d, %v", write.Offset, write.Count, d.Err())
	}
	sess := &session{id: wire4.Sessionid4{1, 2, 3}, slots: 16}
	d = args(newTemplate4(kindRead, cred, fh, wire4.Stateid4{Seqid: 8}, 0).append(nil, 99, s, sess, 77, 3), wire4.NFSPROC4_COMPOUND)
	var head wire4.COMPOUND4args
	head.Decode(d)
	var seq wire4.SEQUENCE4args
	d.Uint32()
	seq.Decode(d)
	d.Uint32()
	d.Opaque(128)
	d.Uint32()
	var read4 wire4.READ4args
	if read4.Decode(d); d.Err() != nil || d.Len() != 0 || head.Argarray != 3 || head.Minorversion != 1 || seq.SaSessionid != sess.id || seq.SaSequenceid != 77 || seq.SaSlotid != 3 || seq.SaHighestSlotid != 15 ||
		read4.Offset != 1<<40 || read4.Count != 4095 || read4.Stateid.Seqid != 8 {
		t.Errorf("%+v %+v %+v, %v", head, seq, read4, d.Err())
	}
}

// FuzzStream feeds arbitrary bytes as a server's replies: no panic, and no call
// is answered twice.
func FuzzStream(f *testing.F) {
	c := &fakeCall{xid: 1 << slotBits, count: 512}
	f.Add(c.readOf(true, make([]byte, 512)), uint8(3))
	f.Add(fragments(c.readOf(false, make([]byte, 512)), 7), uint8(100))
	f.Add(reply(c.xid, words(5)), uint8(1))
	f.Add([]byte("\x00\x00\x00\x00\x80\x00\x00\x00"), uint8(2))
	f.Fuzz(func(t *testing.T, b []byte, piece uint8) {
		w := Workload{BlockSize: 512, FileBytes: 512, MaxBytes: 512, Depth: 1, Verify: true}
		if err := w.Complete(); err != nil {
			t.Fatal(err)
		}
		p := &phase{ctx: t.Context(), w: &w, files: []file{{name: "f"}}, until: 1 << 62, interval: 1e9, templates: make([][kinds]*template, 1)}
		p.templates[0][kindRead] = newTemplate3(kindRead, nil, nil, 0)
		l := newLoop(p)
		c := &conn{version: 3, slots: make([]slot, 1)}
		c.slots[0] = slot{job: newJob(&w, 0)}
		l.conns = []*conn{c}
		l.advance(c, 0)
		for len(b) > 0 {
			n := min(int(piece)+1, len(b))
			if l.consume(c, b[:n]) != nil {
				break
			}
			b = b[n:]
		}
		if l.sides[0].ops+l.errs > 1 || l.flying < 0 {
			t.Errorf("%d calls answered, %d failed, %d under way", l.sides[0].ops, l.errs, l.flying)
		}
	})
}
