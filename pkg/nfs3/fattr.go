// Attributes on the wire: vfs.Attr to fattr3, post_op_attr and wcc_data, and
// sattr3 to vfs.SetAttr (RFC 1813, 2.5 and 2.6).
//
// Plan: everything that a reply says of attributes goes through the put
// functions below, so that no procedure can mix up before and after, or send
// attributes that could not be had.

package nfs3

import (
	"golang.org/x/sys/unix"

	"sluice/pkg/vfs"
	wire3 "sluice/xdr/nfs3"
)

// Encoded sizes, in bytes.
const (
	fattrLen      = 84           // fattr3
	postOpAttrLen = 4 + fattrLen // post_op_attr with attributes
)

// putTime converts a time. NFSv3 has 32 bits for the seconds; like Linux
// (encode_nfstime3) the rest is cut off, so that the range is 1970 to 2106.
func putTime(w *wire3.Nfstime3, t vfs.Time) {
	w.Seconds, w.Nseconds = uint32(t.Sec), t.Nsec
}

func getTime(w wire3.Nfstime3) vfs.Time {
	return vfs.Time{Sec: int64(w.Seconds), Nsec: w.Nseconds}
}

func putAttr(w *wire3.Fattr3, a *vfs.Attr) {
	w.Type = wire3.Ftype3(a.Type)
	w.Mode = a.Mode
	w.Nlink = a.Nlink
	w.Uid = a.UID
	w.Gid = a.GID
	w.Size = a.Size
	w.Used = a.Used
	w.Rdev.Specdata1 = a.RdevMajor
	w.Rdev.Specdata2 = a.RdevMinor
	w.Fsid = a.FSID
	w.Fileid = a.FileID
	putTime(&w.Atime, a.Atime)
	putTime(&w.Mtime, a.Mtime)
	putTime(&w.Ctime, a.Ctime)
}

// current tells whether attributes can be sent. The attributes of a file that a
// client of version 4 has to itself are as that client last sent them: the asker
// gets none, and on GETATTR the client is asked to bring the file up to date.
func current(a *vfs.Attr) bool { return a.Valid() && !a.Held }

func putPostOp(w *wire3.PostOpAttr, a *vfs.Attr) {
	if w.AttributesFollow = current(a); w.AttributesFollow {
		putAttr(&w.Attributes, a)
	}
}

func putWcc(w *wire3.WccData, c *vfs.Change) {
	if w.Before.AttributesFollow = c.BeforeOK && !c.Before.Held; w.Before.AttributesFollow {
		b := &w.Before.Attributes
		b.Size = c.Before.Size
		putTime(&b.Mtime, c.Before.Mtime)
		putTime(&b.Ctime, c.Before.Ctime)
	}
	if w.After.AttributesFollow = c.AfterOK && current(&c.After); w.After.AttributesFollow {
		putAttr(&w.After.Attributes, &c.After)
	}
}

func putEntry(fh *wire3.PostOpFh3, a *wire3.PostOpAttr, e *vfs.Entry) {
	if fh.HandleFollows = e.Handle.Len > 0; fh.HandleFollows {
		fh.Handle.Data = e.Handle.Bytes()
	}
	putPostOp(a, &e.Attr)
}

// getSattr converts the attributes to set. A time of more than 999,999,999
// nanoseconds is EINVAL, as newer Linux has it (nfsd3_time_in_range): stored as
// it came it would harm the file system.
func getSattr(s *vfs.SetAttr, w *wire3.Sattr3) error {
	*s = vfs.SetAttr{
		SetMode: w.Mode.SetIt, Mode: w.Mode.Mode,
		SetUID: w.Uid.SetIt, UID: w.Uid.Uid,
		SetGID: w.Gid.SetIt, GID: w.Gid.Gid,
		SetSize: w.Size.SetIt, Size: w.Size.Size,
		AtimeHow: vfs.TimeHow(w.Atime.SetIt), Atime: getTime(w.Atime.Atime),
		MtimeHow: vfs.TimeHow(w.Mtime.SetIt), Mtime: getTime(w.Mtime.Mtime),
	}
	const second = 1_000_000_000
	if s.AtimeHow == vfs.TimeClient && s.Atime.Nsec >= second ||
		s.MtimeHow == vfs.TimeClient && s.Mtime.Nsec >= second {
		return unix.EINVAL
	}
	return nil
}
