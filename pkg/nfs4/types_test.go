package nfs4

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// Operations on files of the wrong type: each has its code, none waits (for the other end of a FIFO, say), and nothing is
// changed.
func TestBadTypes(t *testing.T) {
	dir := rightsDir(t, "t")
	at := filepath.Join(dir, "t")
	must(t, unix.Mkfifo(filepath.Join(at, "p"), 0o666))
	must(t, unix.Mknod(filepath.Join(at, "c"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 5)))) // /dev/zero
	must(t, unix.Mknod(filepath.Join(at, "b"), unix.S_IFBLK|0o666, int(unix.Mkdev(7, 250))))
	sock, err := net.Listen("unix", filepath.Join(at, "s"))
	must(t, err)
	defer sock.Close()
	s := startTable(t, dir, at+" *(rw,no_root_squash,insecure)\n", func(*Config) {})
	before := contents(t, dir)
	for minor := range uint32(3) {
		x := s.session(minor, fmt.Sprint("types", minor))
		var anon wire.Stateid4
		top, file := x.fhOf(at), x.fhOf(at, "f")
		save, owner := op{wire.OP_SAVEFH, nil}, wire.StateOwner4{Clientid: x.clientid, Owner: []byte("o")}
		// Of data, by what the current file is; special is what is none of file, directory and link.
		link, special := wire.NFS4ERR_SYMLINK, wire.NFS4ERR_WRONG_TYPE
		if minor == 0 {
			link, special = wire.NFS4ERR_INVAL, wire.NFS4ERR_INVAL
		}
		data := map[string]wire.Nfsstat4{"d": wire.NFS4ERR_ISDIR, "l": link, "p": special, "c": special, "b": special, "s": special}
		size := map[string]wire.Nfsstat4{"d": wire.NFS4ERR_ISDIR, "l": wire.NFS4ERR_INVAL, "p": wire.NFS4ERR_INVAL, "c": wire.NFS4ERR_INVAL, "b": wire.NFS4ERR_INVAL, "s": wire.NFS4ERR_INVAL}
		noLink := map[string]wire.Nfsstat4{"d": wire.NFS4ERR_INVAL, "l": ok, "f": wire.NFS4ERR_INVAL, "p": wire.NFS4ERR_INVAL, "c": wire.NFS4ERR_INVAL, "s": wire.NFS4ERR_INVAL}
		notDir := map[string]wire.Nfsstat4{"f": wire.NFS4ERR_NOTDIR, "l": wire.NFS4ERR_NOTDIR, "p": wire.NFS4ERR_NOTDIR, "c": wire.NFS4ERR_NOTDIR, "s": wire.NFS4ERR_NOTDIR}
		walk := map[string]wire.Nfsstat4{"f": wire.NFS4ERR_NOTDIR, "l": wire.NFS4ERR_SYMLINK, "p": wire.NFS4ERR_NOTDIR, "c": wire.NFS4ERR_NOTDIR, "s": wire.NFS4ERR_NOTDIR}
		cases := []struct {
			what string
			ops  []op
			want map[string]wire.Nfsstat4
		}{
			{"READ", []op{read(anon, 0, 10)}, data}, {"WRITE", []op{write(anon, 0, "evil")}, data}, {"COMMIT", []op{{wire.OP_COMMIT, &wire.COMMIT4args{}}}, data},
			{"LOCKT", []op{{wire.OP_LOCKT, &wire.LOCKT4args{Locktype: wire.WRITE_LT, Length: 1, Owner: owner}}}, data},
			{"SETATTR of the size", []op{{wire.OP_SETATTR, &wire.SETATTR4args{ObjAttributes: fattr(func(e *xdr.Encoder) { e.Uint64(1) }, wire.FATTR4_SIZE)}}}, size},
			{"READLINK", []op{{wire.OP_READLINK, nil}}, noLink}, {"LOOKUP", []op{lookup("x")}, walk},
			{"LOOKUPP", []op{{wire.OP_LOOKUPP, nil}}, walk}, {"READDIR", []op{{wire.OP_READDIR, &wire.READDIR4args{Dircount: 4096, Maxcount: 4096}}}, notDir},
			{"REMOVE", []op{remove("x")}, notDir}, {"SECINFO", []op{{wire.OP_SECINFO, &wire.SECINFO4args{Name: []byte("x")}}}, notDir},
			{"CREATE", []op{{wire.OP_CREATE, &wire.CREATE4args{Objtype: wire.Createtype4{Type: wire.NF4DIR}, Objname: []byte("x"), Createattrs: mode(0o755)}}}, notDir},
			{"OPEN in it", []op{{wire.OP_OPEN, openArgs(opener(), 0, x.clientid, "x", wire.OPEN4_SHARE_ACCESS_READ, 0, true)}}, walk},
		}
		if minor == 2 {
			cases = append(cases, []struct {
				what string
				ops  []op
				want map[string]wire.Nfsstat4
			}{
				{"READ_PLUS", []op{{wire.OP_READ_PLUS, &wire.READPLUS4args{RpaCount: 10}}}, data}, {"SEEK", []op{{wire.OP_SEEK, &wire.SEEK4args{}}}, data},
				{"ALLOCATE", []op{{wire.OP_ALLOCATE, &wire.ALLOCATE4args{AaLength: 10}}}, data}, {"DEALLOCATE", []op{{wire.OP_DEALLOCATE, &wire.DEALLOCATE4args{DaLength: 10}}}, data},
				{"IO_ADVISE", []op{{wire.OP_IO_ADVISE, &wire.IOADVISE4args{IaaHints: wire.Bits(wire.IO_ADVISE4_WILLNEED)}}}, data},
				{"COPY from it", []op{save, putfh(file), {wire.OP_COPY, &wire.COPY4args{CaCount: 4, CaSynchronous: true}}}, data},
				{"CLONE from it", []op{save, putfh(file), {wire.OP_CLONE, &wire.CLONE4args{}}}, data},
				{"SETXATTR", []op{{wire.OP_SETXATTR, &wire.SETXATTR4args{SxaKey: []byte("a"), SxaValue: []byte("v")}}},
					map[string]wire.Nfsstat4{"l": wire.NFS4ERR_WRONG_TYPE, "p": wire.NFS4ERR_WRONG_TYPE, "c": wire.NFS4ERR_WRONG_TYPE, "s": wire.NFS4ERR_WRONG_TYPE}},
			}...)
		}
		for _, c := range cases {
			for name, want := range c.want {
				fh := x.fhOf(at, name)
				if r := x.compound(append([]op{putfh(fh)}, c.ops...)...); r.status != want {
					t.Errorf("4.%d: %s of %s: %v, want %v", minor, c.what, name, r.status, want)
				}
			}
		}
		// What cannot be opened, by name.
		other := wire.NFS4ERR_WRONG_TYPE
		if minor == 0 {
			other = wire.NFS4ERR_SYMLINK
		}
		for name, want := range map[string]wire.Nfsstat4{"d": wire.NFS4ERR_ISDIR, "l": wire.NFS4ERR_SYMLINK, "p": other, "c": other, "b": other, "s": other} {
			for _, create := range []bool{false, true} {
				if r := x.compound(putfh(top), op{wire.OP_OPEN, openArgs(opener(), 0, x.clientid, name, wire.OPEN4_SHARE_ACCESS_BOTH, 0, create)}); r.status != want {
					t.Errorf("4.%d: OPEN of %s, to make it %v: %v, want %v", minor, name, create, r.status, want)
				}
			}
		}
		// Two-handled operations between what are not a file and a directory.
		for what, k := range map[string]struct {
			ops  []op
			want wire.Nfsstat4
		}{
			"LINK of a directory":  {[]op{putfh(x.fhOf(at, "d")), save, putfh(top), {wire.OP_LINK, &wire.LINK4args{Newname: []byte("x")}}}, wire.NFS4ERR_ISDIR},
			"LINK in a file":       {[]op{putfh(file), save, {wire.OP_LINK, &wire.LINK4args{Newname: []byte("x")}}}, wire.NFS4ERR_NOTDIR},
			"RENAME from a file":   {[]op{putfh(file), save, putfh(top), {wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("x"), Newname: []byte("y")}}}, wire.NFS4ERR_NOTDIR},
			"RENAME into a file":   {[]op{putfh(top), save, putfh(file), {wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("f"), Newname: []byte("y")}}}, wire.NFS4ERR_NOTDIR},
			"RENAME file over dir": {[]op{putfh(top), save, {wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("f"), Newname: []byte("d")}}}, wire.NFS4ERR_ISDIR}, // RFC 8881 18.26.3 has EXIST for both; as Linux

			"RENAME dir over file": {[]op{putfh(top), save, {wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("d"), Newname: []byte("f")}}}, wire.NFS4ERR_NOTDIR},
			"RENAME into itself":   {[]op{putfh(top), save, putfh(x.fhOf(at, "d")), {wire.OP_RENAME, &wire.RENAME4args{Oldname: []byte("d"), Newname: []byte("y")}}}, wire.NFS4ERR_INVAL},
			"REMOVE of a full one": {[]op{putfh(top), remove("d")}, wire.NFS4ERR_NOTEMPTY},
		} {
			if r := x.compound(k.ops...); r.status != k.want {
				t.Errorf("4.%d: %s: %v, want %v", minor, what, r.status, k.want)
			}
		}
	}
	if after := contents(t, dir); after != before {
		t.Errorf("something was changed:\n%s\nwas\n%s", after, before)
	}
}
