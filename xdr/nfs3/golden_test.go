// Wire goldens: the bytes are worked out by hand from RFC 1813 and RFC 4506.

package nfs3

import (
	"testing"

	"sluice/xdr"
	"sluice/xdr/xdrtest"
)

// Pieces that occur again and again, in both notations.
const (
	fhWire   = ` 00000005 0102030405 000000 `
	nameWire = ` 00000003 "a.c" 00 `
	noSattr  = ` 00000000 00000000 00000000 00000000 00000000 00000000 `
	attrWire = `
		00000001          // type NF3REG
		000081a4          // mode
		00000002          // nlink
		000003e8 000003e9 // uid gid
		0000000100000002  // size
		0000000000001000  // used
		00000008 00000001 // rdev
		0011223344556677  // fsid
		8899aabbccddeeff  // fileid
		5f000001 00000001 // atime
		5f000002 00000002 // mtime
		5f000003 3b9ac9ff // ctime
	`
	postAttrWire = ` 00000001 ` + attrWire
	wccWire      = `
		00000001 0000000000000007 5f000002 00000002 5f000003 3b9ac9ff // before
	` + postAttrWire
)

var (
	fh     = NfsFh3{Data: []byte{1, 2, 3, 4, 5}}
	name   = []byte("a.c")
	fattr  = Fattr3{Type: NF3REG, Mode: 0o100644, Nlink: 2, Uid: 1000, Gid: 1001, Size: 1<<32 + 2, Used: 4096, Rdev: Specdata3{8, 1}, Fsid: 0x0011223344556677, Fileid: 0x8899aabbccddeeff, Atime: Nfstime3{0x5f000001, 1}, Mtime: Nfstime3{0x5f000002, 2}, Ctime: Nfstime3{0x5f000003, 999999999}}
	post   = PostOpAttr{AttributesFollow: true, Attributes: fattr}
	wcc    = WccData{Before: PreOpAttr{AttributesFollow: true, Attributes: WccAttr{Size: 7, Mtime: fattr.Mtime, Ctime: fattr.Ctime}}, After: post}
	where  = Diropargs3{Dir: fh, Name: name}
	postFh = PostOpFh3{HandleFollows: true, Handle: fh}
	verf   = [8]byte{0xca, 0xfe, 0xba, 0xbe, 0xde, 0xad, 0xbe, 0xef}
)

func TestGolden(t *testing.T) {
	for _, c := range []struct {
		name string
		v    xdr.Type
		wire string
	}{
		{"GETATTR", &GETATTR3args{Object: fh}, fhWire},
		{"GETATTR ok", &GETATTR3res{Resok: GETATTR3resok{ObjAttributes: fattr}}, `00000000` + attrWire},
		{"GETATTR stale", &GETATTR3res{Status: NFS3ERR_STALE}, `00000046`},
		{"GETATTR bad handle", &GETATTR3res{Status: NFS3ERR_BADHANDLE}, `00002711`},

		{"SETATTR nothing", &SETATTR3args{Object: fh}, fhWire + noSattr + `00000000`},
		{"SETATTR all, guarded", &SETATTR3args{
			Object: fh,
			NewAttributes: Sattr3{
				Mode: SetMode3{true, 0o755}, Uid: SetUid3{true, 1}, Gid: SetGid3{true, 2}, Size: SetSize3{true, 1 << 40},
				Atime: SetAtime{SetIt: SET_TO_SERVER_TIME},
				Mtime: SetMtime{SetIt: SET_TO_CLIENT_TIME, Mtime: Nfstime3{3, 4}},
			},
			Guard: Sattrguard3{Check: true, ObjCtime: Nfstime3{5, 6}},
		}, fhWire + `
			00000001 000001ed
			00000001 00000001
			00000001 00000002
			00000001 0000010000000000
			00000001
			00000002 00000003 00000004
			00000001 00000005 00000006`},
		{"SETATTR ok", &SETATTR3res{Resok: SETATTR3resok{ObjWcc: wcc}}, `00000000` + wccWire},
		{"SETATTR not sync", &SETATTR3res{Status: NFS3ERR_NOT_SYNC}, `00002712 00000000 00000000`},

		{"LOOKUP", &LOOKUP3args{What: where}, fhWire + nameWire},
		{"LOOKUP ok", &LOOKUP3res{Resok: LOOKUP3resok{Object: fh, ObjAttributes: post}}, `00000000` + fhWire + postAttrWire + `00000000`},
		{"LOOKUP noent", &LOOKUP3res{Status: NFS3ERR_NOENT, Resfail: LOOKUP3resfail{DirAttributes: post}}, `00000002` + postAttrWire},

		{"ACCESS", &ACCESS3args{Object: fh, Access: ACCESS3_READ | ACCESS3_EXECUTE}, fhWire + `00000021`},
		{"ACCESS ok", &ACCESS3res{Resok: ACCESS3resok{ObjAttributes: post, Access: ACCESS3_READ}}, `00000000` + postAttrWire + `00000001`},
		{"ACCESS fails", &ACCESS3res{Status: NFS3ERR_IO}, `00000005 00000000`},

		{"READLINK", &READLINK3args{Symlink: fh}, fhWire},
		{"READLINK ok", &READLINK3res{Resok: READLINK3resok{Data: []byte("../up")}}, `00000000 00000000 00000005 "../up" 000000`},
		{"READLINK fails", &READLINK3res{Status: NFS3ERR_INVAL}, `00000016 00000000`},

		{"READ", &READ3args{File: fh, Offset: 1 << 33, Count: 1 << 20}, fhWire + `0000000200000000 00100000`},
		{"READ ok", &READ3res{Resok: READ3resok{FileAttributes: post, Count: 5, Eof: true, Data: xdr.NewBytes([]byte("hello"))}},
			`00000000` + postAttrWire + `00000005 00000001 00000005 "hello" 000000`},
		{"READ fails", &READ3res{Status: NFS3ERR_ISDIR, Resfail: READ3resfail{FileAttributes: post}}, `00000015` + postAttrWire},

		{"WRITE", &WRITE3args{File: fh, Offset: 9, Count: 3, Stable: FILE_SYNC, Data: []byte("xyz")}, fhWire + `0000000000000009 00000003 00000002 00000003 "xyz" 00`},
		{"WRITE ok", &WRITE3res{Resok: WRITE3resok{FileWcc: wcc, Count: 3, Committed: DATA_SYNC, Verf: verf}},
			`00000000` + wccWire + `00000003 00000001 cafebabedeadbeef`},
		{"WRITE fails", &WRITE3res{Status: NFS3ERR_NOSPC, Resfail: WRITE3resfail{FileWcc: wcc}}, `0000001c` + wccWire},

		{"CREATE unchecked", &CREATE3args{Where: where, How: Createhow3{Mode: UNCHECKED}}, fhWire + nameWire + `00000000` + noSattr},
		{"CREATE guarded", &CREATE3args{Where: where, How: Createhow3{Mode: GUARDED}}, fhWire + nameWire + `00000001` + noSattr},
		{"CREATE exclusive", &CREATE3args{Where: where, How: Createhow3{Mode: EXCLUSIVE, Verf: verf}}, fhWire + nameWire + `00000002 cafebabedeadbeef`},
		{"CREATE ok", &CREATE3res{Resok: CREATE3resok{Obj: postFh, ObjAttributes: post, DirWcc: wcc}}, `00000000 00000001` + fhWire + postAttrWire + wccWire},
		{"CREATE fails", &CREATE3res{Status: NFS3ERR_EXIST, Resfail: CREATE3resfail{DirWcc: wcc}}, `00000011` + wccWire},

		{"MKDIR", &MKDIR3args{Where: where}, fhWire + nameWire + noSattr},
		{"MKDIR ok", &MKDIR3res{Resok: MKDIR3resok{Obj: postFh, DirWcc: wcc}}, `00000000 00000001` + fhWire + `00000000` + wccWire},
		{"MKDIR fails", &MKDIR3res{Status: NFS3ERR_ROFS}, `0000001e 00000000 00000000`},

		{"SYMLINK", &SYMLINK3args{Where: where, Symlink: Symlinkdata3{SymlinkData: []byte("to")}}, fhWire + nameWire + noSattr + `00000002 "to" 0000`},
		{"SYMLINK ok", &SYMLINK3res{Resok: SYMLINK3resok{DirWcc: wcc}}, `00000000 00000000 00000000` + wccWire},
		{"SYMLINK fails", &SYMLINK3res{Status: NFS3ERR_NAMETOOLONG}, `0000003f 00000000 00000000`},

		{"MKNOD chr", &MKNOD3args{Where: where, What: Mknoddata3{Type: NF3CHR, Device: Devicedata3{Spec: Specdata3{1, 3}}}}, fhWire + nameWire + `00000004` + noSattr + `00000001 00000003`},
		{"MKNOD blk", &MKNOD3args{Where: where, What: Mknoddata3{Type: NF3BLK, Device: Devicedata3{Spec: Specdata3{8, 0}}}}, fhWire + nameWire + `00000003` + noSattr + `00000008 00000000`},
		{"MKNOD fifo", &MKNOD3args{Where: where, What: Mknoddata3{Type: NF3FIFO}}, fhWire + nameWire + `00000007` + noSattr},
		{"MKNOD reg", &MKNOD3args{Where: where, What: Mknoddata3{Type: NF3REG}}, fhWire + nameWire + `00000001`},
		{"MKNOD ok", &MKNOD3res{Resok: MKNOD3resok{Obj: postFh}}, `00000000 00000001` + fhWire + `00000000 00000000 00000000`},
		{"MKNOD fails", &MKNOD3res{Status: NFS3ERR_BADTYPE}, `00002717 00000000 00000000`},

		{"REMOVE", &REMOVE3args{Object: where}, fhWire + nameWire},
		{"REMOVE ok", &REMOVE3res{Resok: REMOVE3resok{DirWcc: wcc}}, `00000000` + wccWire},
		{"REMOVE fails", &REMOVE3res{Status: NFS3ERR_ACCES}, `0000000d 00000000 00000000`},
		{"RMDIR", &RMDIR3args{Object: where}, fhWire + nameWire},
		{"RMDIR ok", &RMDIR3res{Resok: RMDIR3resok{DirWcc: wcc}}, `00000000` + wccWire},
		{"RMDIR fails", &RMDIR3res{Status: NFS3ERR_NOTEMPTY}, `00000042 00000000 00000000`},

		{"RENAME", &RENAME3args{From: where, To: Diropargs3{Dir: NfsFh3{Data: []byte{9}}, Name: []byte("b")}}, fhWire + nameWire + `00000001 09 000000 00000001 "b" 000000`},
		{"RENAME ok", &RENAME3res{Resok: RENAME3resok{FromdirWcc: wcc}}, `00000000` + wccWire + `00000000 00000000`},
		{"RENAME fails", &RENAME3res{Status: NFS3ERR_XDEV, Resfail: RENAME3resfail{TodirWcc: wcc}}, `00000012 00000000 00000000` + wccWire},

		{"LINK", &LINK3args{File: NfsFh3{Data: []byte{9}}, Link: where}, `00000001 09 000000` + fhWire + nameWire},
		{"LINK ok", &LINK3res{Resok: LINK3resok{FileAttributes: post, LinkdirWcc: wcc}}, `00000000` + postAttrWire + wccWire},
		{"LINK fails", &LINK3res{Status: NFS3ERR_MLINK}, `0000001f 00000000 00000000 00000000`},

		{"READDIR", &READDIR3args{Dir: fh, Cookie: 17, Cookieverf: verf, Count: 4096}, fhWire + `0000000000000011 cafebabedeadbeef 00001000`},
		{"READDIR ok", &READDIR3res{Resok: READDIR3resok{DirAttributes: post, Cookieverf: verf, Reply: Dirlist3{
			Entries: []Entry3{{Fileid: 2, Name: []byte("."), Cookie: 1}, {Fileid: 1 << 32, Name: []byte("file"), Cookie: 2}}, Eof: true}}},
			`00000000` + postAttrWire + `cafebabedeadbeef
			00000001 0000000000000002 00000001 "." 000000 0000000000000001
			00000001 0000000100000000 00000004 "file" 0000000000000002
			00000000 00000001`},
		{"READDIR empty", &READDIR3res{Resok: READDIR3resok{}}, `00000000 00000000 0000000000000000 00000000 00000000`},
		{"READDIR fails", &READDIR3res{Status: NFS3ERR_BAD_COOKIE}, `00002713 00000000`},

		{"READDIRPLUS", &READDIRPLUS3args{Dir: fh, Cookie: 17, Cookieverf: verf, Dircount: 512, Maxcount: 4096}, fhWire + `0000000000000011 cafebabedeadbeef 00000200 00001000`},
		{"READDIRPLUS ok", &READDIRPLUS3res{Resok: READDIRPLUS3resok{Cookieverf: verf, Reply: Dirlistplus3{
			Entries: []Entryplus3{{Fileid: 3, Name: name, Cookie: 4, NameAttributes: post, NameHandle: postFh}, {Fileid: 5, Name: name, Cookie: 6}}}}},
			`00000000 00000000 cafebabedeadbeef
			00000001 0000000000000003` + nameWire + `0000000000000004` + postAttrWire + `00000001` + fhWire + `
			00000001 0000000000000005` + nameWire + `0000000000000006 00000000 00000000
			00000000 00000000`},
		{"READDIRPLUS fails", &READDIRPLUS3res{Status: NFS3ERR_TOOSMALL}, `00002715 00000000`},

		{"FSSTAT", &FSSTAT3args{Fsroot: fh}, fhWire},
		{"FSSTAT ok", &FSSTAT3res{Resok: FSSTAT3resok{ObjAttributes: post, Tbytes: 1, Fbytes: 2, Abytes: 3, Tfiles: 4, Ffiles: 5, Afiles: 6, Invarsec: 7}},
			`00000000` + postAttrWire + `0000000000000001 0000000000000002 0000000000000003 0000000000000004 0000000000000005 0000000000000006 00000007`},
		{"FSSTAT fails", &FSSTAT3res{Status: NFS3ERR_SERVERFAULT}, `00002716 00000000`},

		{"FSINFO", &FSINFO3args{Fsroot: fh}, fhWire},
		{"FSINFO ok", &FSINFO3res{Resok: FSINFO3resok{ObjAttributes: post, Rtmax: 1, Rtpref: 2, Rtmult: 3, Wtmax: 4, Wtpref: 5, Wtmult: 6, Dtpref: 7, Maxfilesize: 1<<63 - 1, TimeDelta: Nfstime3{0, 1}, Properties: FSF3_LINK | FSF3_SYMLINK | FSF3_HOMOGENEOUS | FSF3_CANSETTIME}},
			`00000000` + postAttrWire + `00000001 00000002 00000003 00000004 00000005 00000006 00000007 7fffffffffffffff 00000000 00000001 0000001b`},
		{"FSINFO fails", &FSINFO3res{Status: NFS3ERR_PERM}, `00000001 00000000`},

		{"PATHCONF", &PATHCONF3args{Object: fh}, fhWire},
		{"PATHCONF ok", &PATHCONF3res{Resok: PATHCONF3resok{ObjAttributes: post, Linkmax: 32000, NameMax: 255, NoTrunc: true, ChownRestricted: true, CasePreserving: true}},
			`00000000` + postAttrWire + `00007d00 000000ff 00000001 00000001 00000000 00000001`},
		{"PATHCONF fails", &PATHCONF3res{Status: NFS3ERR_JUKEBOX}, `00002718 00000000`},

		{"COMMIT", &COMMIT3args{File: fh, Offset: 1, Count: 2}, fhWire + `0000000000000001 00000002`},
		{"COMMIT ok", &COMMIT3res{Resok: COMMIT3resok{FileWcc: wcc, Verf: verf}}, `00000000` + wccWire + `cafebabedeadbeef`},
		{"COMMIT fails", &COMMIT3res{Status: NFS3ERR_DQUOT, Resfail: COMMIT3resfail{FileWcc: wcc}}, `00000045` + wccWire},
	} {
		t.Run(c.name, func(t *testing.T) { xdrtest.Golden(t, c.v, c.wire) })
	}
}

// TestEntriesOneByOne checks the promise of the package comment: a list built
// entry by entry is the list.
func TestEntriesOneByOne(t *testing.T) {
	list := Dirlist3{Entries: []Entry3{{Fileid: 1, Name: name, Cookie: 2}, {Fileid: 3, Name: name, Cookie: 4}}, Eof: true}
	var e xdr.Encoder
	for i := range list.Entries {
		e.Bool(true)
		list.Entries[i].Encode(&e)
	}
	e.Bool(false)
	e.Bool(true)
	if got, want := string(e.Bytes()), string(encoded(&list)); got != want {
		t.Errorf("entry by entry %x, at once %x", got, want)
	}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		v    xdr.Type
		wire string
		want error
	}{
		{"handle of 65 bytes", new(GETATTR3args), `00000041` + `0000000000000000000000000000000000000000000000000000000000000000`, xdr.ErrTooLong},
		{"handle cut off", new(GETATTR3args), `00000008 01020304`, xdr.ErrShort},
		{"padding cut off", new(GETATTR3args), `00000005 0102030405`, xdr.ErrShort},
		{"bool of 2", new(PostOpAttr), `00000002` + attrWire, xdr.ErrBadValue},
		{"stable_how of 3", new(WRITE3args), fhWire + `0000000000000009 00000003 00000003 00000003 "xyz" 00`, xdr.ErrBadValue},
		{"createmode of 3", new(CREATE3args), fhWire + nameWire + `00000003` + noSattr, xdr.ErrBadValue},
		{"time_how of 3", new(SetAtime), `00000003 00000000 00000000`, xdr.ErrBadValue},
		{"ftype of 0", new(MKNOD3args), fhWire + nameWire + `00000000` + noSattr, xdr.ErrBadValue},
		{"ftype of 8 in attributes", new(PostOpAttr), `00000001 00000008` + `0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000`, xdr.ErrBadValue},
		{"status of 3", new(GETATTR3res), `00000003`, xdr.ErrBadValue},
		{"data of 4 GiB", new(WRITE3args), fhWire + `0000000000000009 00000003 00000000 ffffffff 00000000`, xdr.ErrTooLong},
		{"nothing", new(LOOKUP3args), ``, xdr.ErrShort},
	} {
		t.Run(c.name, func(t *testing.T) { xdrtest.Refused(t, c.v, c.wire, c.want) })
	}
	var e xdr.Encoder
	(&Createhow3{Mode: 3}).Encode(&e)
	if e.Err() != xdr.ErrBadValue {
		t.Errorf("encoding createhow3 of 3: error %v", e.Err())
	}
}

func TestNames(t *testing.T) {
	for proc, want := range []string{"NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READLINK", "READ", "WRITE", "CREATE", "MKDIR", "SYMLINK",
		"MKNOD", "REMOVE", "RMDIR", "RENAME", "LINK", "READDIR", "READDIRPLUS", "FSSTAT", "FSINFO", "PATHCONF", "COMMIT", ""} {
		if got := ProcName(100003, 3, uint32(proc)); got != want {
			t.Errorf("procedure %d is called %q, want %q", proc, got, want)
		}
	}
	if got := ProcName(NFS_PROGRAM, 2, 0); got != "" {
		t.Errorf("version 2 has procedure %q", got)
	}
	for v, want := range map[Nfsstat3]string{NFS3_OK: "NFS3_OK", NFS3ERR_JUKEBOX: "NFS3ERR_JUKEBOX", 3: "Nfsstat3(3)", -1: "Nfsstat3(-1)"} {
		if got := v.String(); got != want {
			t.Errorf("status %d is called %q, want %q", int32(v), got, want)
		}
	}
}
