// The table of attributes.
//
// Plan: one row for each attribute: since which minor version, what it takes
// to know it, how its value is encoded from that, and how a client's value is
// taken. GETATTR, READDIR, VERIFY and NVERIFY encode by the same rows, in
// ascending order of numbers, straight into the reply; SETATTR, CREATE and OPEN
// take values by them (attrset.go). What a file system does not have
// (access control lists) is taken out of the supported set for that file.

package nfs4

import (
	"math/bits"
	"time"

	"sluice/pkg/state"
	"sluice/pkg/vfs"
	"sluice/xdr"
	wire "sluice/xdr/nfs4"
)

// attrNeed says what has to be asked before an attribute can be encoded.
type attrNeed uint8

const (
	needStat  attrNeed = 1 << iota // Fsstat
	needConf                       // Pathconf
	needInfo                       // Fsinfo
	needACL                        // the access control list
	needXattr                      // whether there are extended attributes
	needDeleg                      // the holder of a write delegation knows better
)

// attrRow is one attribute.
type attrRow struct {
	minor uint8 // since which minor version
	need  attrNeed
	get   func(*attrSource, *xdr.Encoder)        // nil: cannot be read
	set   func(*attrSetter, *xdr.Decoder) status // nil: cannot be set
	keep  bool                                   // not for EXCLUSIVE4_1: it holds the verifier
}

const numAttrs = int(wire.FATTR4_OPEN_ARGUMENTS) + 1

// words is a set of attributes, as a bitmap4 without its count.
type words [wire.BitmapWords]uint32

func (w *words) set(n int)      { w[n/32] |= 1 << (n % 32) }
func (w *words) has(n int) bool { return w[n/32]>>(n%32)&1 != 0 }

// any tells whether the sets have an attribute in common.
func (w *words) any(o *words) bool {
	for i := range w {
		if w[i]&o[i] != 0 {
			return true
		}
	}
	return false
}

var (
	attrs     [numAttrs]attrRow
	supported [3]words // by minor version
	writable  words    // those with a set
	exclusive words    // of suppattr_exclcreat, before supported
)

// An attribute's minor version: open_arguments is of RFC 9754, an extension of
// 4.2. It is offered to 4.1 too: what it describes (share_access bits of OPEN) is
// in 4.1's OPEN just as well, and pynfs's DELEG24 and DELEG25 look for it there.
func init() {
	attrs = [numAttrs]attrRow{
		wire.FATTR4_SUPPORTED_ATTRS: {get: func(s *attrSource, e *xdr.Encoder) {
			b := wire.NewBitmap4(s.supported)
			b.Encode(e)
		}},
		wire.FATTR4_TYPE:            {get: func(s *attrSource, e *xdr.Encoder) { e.Uint32(uint32(s.a.Type)) }},
		wire.FATTR4_FH_EXPIRE_TYPE:  {get: constant(wire.FH4_PERSISTENT)},
		wire.FATTR4_CHANGE:          {need: needDeleg, get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.change()) }},
		wire.FATTR4_SIZE:            {need: needDeleg, get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.size()) }, set: setSize},
		wire.FATTR4_LINK_SUPPORT:    {get: constant(1)},
		wire.FATTR4_SYMLINK_SUPPORT: {get: constant(1)},
		wire.FATTR4_NAMED_ATTR:      {get: constant(0)},
		wire.FATTR4_FSID: {get: func(s *attrSource, e *xdr.Encoder) {
			e.Uint64(s.a.FSID)
			e.Uint64(0)
		}},
		wire.FATTR4_UNIQUE_HANDLES:   {get: constant(1)},
		wire.FATTR4_LEASE_TIME:       {get: func(s *attrSource, e *xdr.Encoder) { e.Uint32(s.lease) }},
		wire.FATTR4_RDATTR_ERROR:     {get: func(s *attrSource, e *xdr.Encoder) { e.Uint32(uint32(s.err)) }},
		wire.FATTR4_ACL:              {need: needACL, get: getACL, set: setACL},
		wire.FATTR4_ACLSUPPORT:       {need: needACL, get: getACLSupport},
		wire.FATTR4_CANSETTIME:       {get: constant(1)},
		wire.FATTR4_CASE_INSENSITIVE: {need: needConf, get: func(s *attrSource, e *xdr.Encoder) { e.Bool(s.conf.CaseInsensitive) }},
		wire.FATTR4_CASE_PRESERVING:  {need: needConf, get: func(s *attrSource, e *xdr.Encoder) { e.Bool(s.conf.CasePreserving) }},
		wire.FATTR4_CHOWN_RESTRICTED: {need: needConf, get: func(s *attrSource, e *xdr.Encoder) { e.Bool(s.conf.ChownRestricted) }},
		wire.FATTR4_FILEHANDLE:       {get: func(s *attrSource, e *xdr.Encoder) { e.Opaque(s.fh) }},
		wire.FATTR4_FILEID:           {get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.a.FileID) }},
		wire.FATTR4_FILES_AVAIL:      {need: needStat, get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.stat.Afiles) }},
		wire.FATTR4_FILES_FREE:       {need: needStat, get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.stat.Ffiles) }},
		wire.FATTR4_FILES_TOTAL:      {need: needStat, get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.stat.Tfiles) }},
		wire.FATTR4_FS_LOCATIONS: {get: func(s *attrSource, e *xdr.Encoder) {
			e.Uint32(0) // fs_root: no components
			e.Uint32(0) // locations: none, the file system is here
		}},
		wire.FATTR4_HOMOGENEOUS: {get: constant(1)},
		wire.FATTR4_MAXFILESIZE: {need: needInfo, get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.info.MaxFileSize) }},
		wire.FATTR4_MAXLINK:     {need: needConf, get: func(s *attrSource, e *xdr.Encoder) { e.Uint32(s.conf.LinkMax) }},
		wire.FATTR4_MAXNAME:     {need: needConf, get: func(s *attrSource, e *xdr.Encoder) { e.Uint32(s.conf.NameMax) }},
		wire.FATTR4_MAXREAD:     {need: needInfo, get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(uint64(s.info.RtMax)) }},
		wire.FATTR4_MAXWRITE:    {need: needInfo, get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(uint64(s.info.WtMax)) }},
		wire.FATTR4_MODE:        {get: func(s *attrSource, e *xdr.Encoder) { e.Uint32(s.a.Mode) }, set: setMode},
		wire.FATTR4_NO_TRUNC:    {get: constant(1)},
		wire.FATTR4_NUMLINKS:    {get: func(s *attrSource, e *xdr.Encoder) { e.Uint32(s.a.Nlink) }},
		wire.FATTR4_OWNER:       {get: func(s *attrSource, e *xdr.Encoder) { s.putOwner(e, s.a.UID, false) }, set: setOwner},
		wire.FATTR4_OWNER_GROUP: {get: func(s *attrSource, e *xdr.Encoder) { s.putOwner(e, s.a.GID, true) }, set: setGroup},
		wire.FATTR4_RAWDEV: {get: func(s *attrSource, e *xdr.Encoder) {
			e.Uint32(s.a.RdevMajor)
			e.Uint32(s.a.RdevMinor)
		}},
		wire.FATTR4_SPACE_AVAIL:       {need: needStat, get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.stat.Abytes) }},
		wire.FATTR4_SPACE_FREE:        {need: needStat, get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.stat.Fbytes) }},
		wire.FATTR4_SPACE_TOTAL:       {need: needStat, get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.stat.Tbytes) }},
		wire.FATTR4_SPACE_USED:        {get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.a.Used) }},
		wire.FATTR4_TIME_ACCESS:       {get: func(s *attrSource, e *xdr.Encoder) { putTime(e, s.a.Atime) }},
		wire.FATTR4_TIME_ACCESS_SET:   {set: setAtime, keep: true},
		wire.FATTR4_TIME_CREATE:       {get: func(s *attrSource, e *xdr.Encoder) { putTime(e, birthOf(&s.a)) }},
		wire.FATTR4_TIME_DELTA:        {need: needInfo, get: func(s *attrSource, e *xdr.Encoder) { putTime(e, s.info.TimeDelta) }},
		wire.FATTR4_TIME_METADATA:     {need: needDeleg, get: func(s *attrSource, e *xdr.Encoder) { putTime(e, s.orAsked(s.a.Ctime)) }},
		wire.FATTR4_TIME_MODIFY:       {need: needDeleg, get: func(s *attrSource, e *xdr.Encoder) { putTime(e, s.orAsked(s.a.Mtime)) }},
		wire.FATTR4_TIME_MODIFY_SET:   {set: setMtime, keep: true},
		wire.FATTR4_MOUNTED_ON_FILEID: {get: func(s *attrSource, e *xdr.Encoder) { e.Uint64(s.a.MountedOnFileID) }},
		wire.FATTR4_SUPPATTR_EXCLCREAT: {minor: 1, get: func(s *attrSource, e *xdr.Encoder) {
			w := exclusive
			for i := range w {
				w[i] &= s.supported[i]
			}
			b := wire.NewBitmap4(w)
			b.Encode(e)
		}},
		wire.FATTR4_MODE_SET_MASKED:  {minor: 1, set: setModeMasked},
		wire.FATTR4_CLONE_BLKSIZE:    {minor: 2, need: needStat, get: func(s *attrSource, e *xdr.Encoder) { e.Uint32(s.stat.BlockSize) }},
		wire.FATTR4_CHANGE_ATTR_TYPE: {minor: 2, get: constant(uint32(wire.NFS4_CHANGE_TYPE_IS_TIME_METADATA))},
		wire.FATTR4_MODE_UMASK:       {minor: 2, set: setModeUmask},
		wire.FATTR4_XATTR_SUPPORT:    {minor: 2, need: needXattr, get: func(s *attrSource, e *xdr.Encoder) { e.Bool(s.xattrs) }},
		wire.FATTR4_OPEN_ARGUMENTS:   {minor: 1, get: func(_ *attrSource, e *xdr.Encoder) { openArguments.Encode(e) }},
	}
	for n := range attrs {
		r := &attrs[n]
		if r.get == nil && r.set == nil {
			continue
		}
		for m := range supported {
			if int(r.minor) <= m && n != wire.FATTR4_RDATTR_ERROR || n == wire.FATTR4_RDATTR_ERROR {
				supported[m].set(n)
			}
		}
		if r.set != nil {
			writable.set(n)
			if !r.keep {
				exclusive.set(n)
			}
		}
	}
	if !bits32(supported[0], 56) {
		panic("nfs4: 4.0 supports an attribute that it does not have")
	}
}

// bits32 tells whether no bit from n on is set.
func bits32(w words, n int) bool {
	for i := n; i < 32*len(w); i++ {
		if w.has(i) {
			return false
		}
	}
	return true
}

// openArguments is what OPEN takes (RFC 9754, 3).
var openArguments = wire.OpenArguments4{
	OaShareAccess: wire.Bits(wire.OPEN_ARGS_SHARE_ACCESS_READ, wire.OPEN_ARGS_SHARE_ACCESS_WRITE, wire.OPEN_ARGS_SHARE_ACCESS_BOTH),
	OaShareDeny: wire.Bits(wire.OPEN_ARGS_SHARE_DENY_NONE, wire.OPEN_ARGS_SHARE_DENY_READ, wire.OPEN_ARGS_SHARE_DENY_WRITE,
		wire.OPEN_ARGS_SHARE_DENY_BOTH),
	OaShareAccessWant: wire.Bits(wire.OPEN_ARGS_SHARE_ACCESS_WANT_ANY_DELEG, wire.OPEN_ARGS_SHARE_ACCESS_WANT_NO_DELEG,
		wire.OPEN_ARGS_SHARE_ACCESS_WANT_CANCEL, wire.OPEN_ARGS_SHARE_ACCESS_WANT_OPEN_XOR_DELEGATION),
	OaOpenClaim: wire.Bits(wire.OPEN_ARGS_OPEN_CLAIM_NULL, wire.OPEN_ARGS_OPEN_CLAIM_PREVIOUS, wire.OPEN_ARGS_OPEN_CLAIM_DELEGATE_CUR,
		wire.OPEN_ARGS_OPEN_CLAIM_FH, wire.OPEN_ARGS_OPEN_CLAIM_DELEG_CUR_FH),
	OaCreateMode: wire.Bits(wire.OPEN_ARGS_CREATEMODE_UNCHECKED4, wire.OPEN_ARGS_CREATE_MODE_GUARDED,
		wire.OPEN_ARGS_CREATEMODE_EXCLUSIVE4, wire.OPEN_ARGS_CREATE_MODE_EXCLUSIVE4_1),
}

func constant(v uint32) func(*attrSource, *xdr.Encoder) {
	return func(_ *attrSource, e *xdr.Encoder) { e.Uint32(v) }
}

func putTime(e *xdr.Encoder, t vfs.Time) {
	e.Int64(t.Sec)
	e.Uint32(t.Nsec)
}

// attrSource is what attributes are encoded from.
type attrSource struct {
	c         *compound
	a         vfs.Attr
	fh        []byte
	err       status // rdattr_error
	lease     uint32
	supported words

	stat   vfs.FSStat
	conf   vfs.PathConf
	info   vfs.FSInfo
	deleg  state.DelegAttrs
	hasDel bool
	asked  vfs.Time // when the holder was
	xattrs bool
	acl    aclSource
}

// askHolder asks for what a client knows that has a write delegation on the file.
func (s *attrSource) askHolder(call *state.Call, file state.FileKey) (err error) {
	s.deleg, s.hasDel, err = s.c.s.st.DelegAttrs(call, file)
	if s.hasDel {
		now := time.Now()
		s.asked = vfs.Time{Sec: now.Unix(), Nsec: uint32(now.Nanosecond())}
	}
	return err
}

// modified tells whether the holder of a write delegation has changed the file.
func (s *attrSource) modified() bool {
	return s.hasDel && (s.deleg.Modified || s.deleg.HasSize && s.deleg.Size != s.a.Size)
}

// change tells the file's change attribute. Of a holder it says only that it has changed the file, and may say the same
// after the next change: each answer must be above the one before (RFC 8881, 10.4.3).
func (s *attrSource) change() uint64 {
	if s.modified() {
		return s.a.Change + s.deleg.Asked
	}
	return s.a.Change
}

func (s *attrSource) size() uint64 {
	if s.hasDel && s.deleg.HasSize {
		return s.deleg.Size
	}
	return s.a.Size
}

// orAsked is a time of the file's, or, when its holder has changed it, that of the answer: nobody knows better (RFC 8881,
// 10.4.3).
func (s *attrSource) orAsked(t vfs.Time) vfs.Time {
	if s.modified() && later(s.asked, t) {
		return s.asked
	}
	return t
}

func later(a, b vfs.Time) bool { return a.Sec > b.Sec || a.Sec == b.Sec && a.Nsec > b.Nsec }

func (s *attrSource) putOwner(e *xdr.Encoder, id uint32, group bool) {
	var b [maxOwnerName]byte
	e.Opaque(s.c.s.ids.name(b[:0], id, group))
}

// known cuts a client's bitmap down to what there is. Beyond the last number that is known there is nothing.
func (s *attrSource) known(req *wire.Bitmap4) words {
	w := words(req.Words)
	for i := range w {
		w[i] &= s.supported[i]
	}
	return w
}

// needs sums up what a set of attributes needs.
func (w *words) needs() (n attrNeed) {
	for i, v := range w {
		for ; v != 0; v &= v - 1 {
			n |= attrs[32*i+bits.TrailingZeros32(v)].need
		}
	}
	return n
}

// beginAttrs readies c.src for the current file, or what is below it, and for the attributes in asked.
func (c *compound) beginAttrs(asked *wire.Bitmap4) *attrSource {
	s := &c.src
	s.c, s.fh, s.err, s.hasDel = c, nil, ok, false
	s.lease = uint32(c.s.st.Lease().Seconds())
	s.supported = supported[c.minor]
	w := words(asked.Words)
	c.fileSystemAttrs(s, c.node, &w)
	return s
}

// gather asks for what the attributes in w need, of the current file.
func (c *compound) gather(s *attrSource, w *words) status {
	need := w.needs()
	var err error
	if need&needDeleg != 0 && c.node.Type() == vfs.TypeReg {
		// First: who gives the delegation back meanwhile has brought the file up to date before.
		err = s.askHolder(&c.call, c.key())
	}
	if err == nil {
		s.a, err = c.view.Getattr(c.node)
	}
	if err == nil {
		err = c.gatherFS(s, c.node, need)
		if err == nil && need&needACL != 0 {
			err = c.gatherACL(s, c.node, w)
		}
	}
	s.fh = c.cur.bytes()
	return c.statusOf(err)
}

// gatherFS asks for what is of n's file system.
func (c *compound) gatherFS(s *attrSource, n vfs.Node, need attrNeed) (err error) {
	if need&needStat != 0 {
		if s.stat, err = c.view.Fsstat(n); err != nil {
			return err
		}
	}
	if need&needConf != 0 {
		if s.conf, err = c.view.Pathconf(n); err != nil {
			return err
		}
	}
	if need&needInfo != 0 {
		if s.info, err = c.view.Fsinfo(n); err != nil {
			return err
		}
	}
	if need&needXattr != 0 {
		s.xattrs = c.view.XattrSupport(n)
	}
	return nil
}

// encode appends a fattr4 of the attributes in w.
func (s *attrSource) encode(e *xdr.Encoder, w words) {
	m := wire.NewBitmap4(w)
	m.Encode(e)
	at := len(e.Bytes())
	e.Uint32(0)
	s.values(e, w)
	e.PatchUint32(at, uint32(len(e.Bytes())-at-4))
}

// values appends the values, in ascending order of numbers.
func (s *attrSource) values(e *xdr.Encoder, w words) {
	for i, v := range w {
		for ; v != 0; v &= v - 1 {
			if r := &attrs[32*i+bits.TrailingZeros32(v)]; r.get != nil {
				r.get(s, e)
			}
		}
	}
}

// unreadable tells whether w has an attribute that can only be set.
func (w *words) unreadable() bool {
	for i, v := range w {
		for ; v != 0; v &= v - 1 {
			if attrs[32*i+bits.TrailingZeros32(v)].get == nil {
				return true
			}
		}
	}
	return false
}
