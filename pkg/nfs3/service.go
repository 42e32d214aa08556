// Package nfs3 serves NFS version 3 and MOUNT versions 1 to 3 (RFC 1813).
//
// Plan of every procedure: decode the arguments into a value on the stack
// (bytes alias the record), open a vfs.View on the file handle, do one
// operation of it, encode the result. What a procedure knows is the shape of
// its arguments and of its two result arms, no more: permissions, export
// options, names and offsets are checked by the View, and errors become codes in
// one table (status.go). Failed calls carry the attributes that RFC 1813 gives
// them whenever the handle was good.
//
// Nothing is allocated by GETATTR, LOOKUP, ACCESS, READ and WRITE; what they
// need beyond the stack lives in the service thread's Local.
package nfs3

import (
	"time"

	"github.com/rs/zerolog"

	"sluice/exports"
	"sluice/pkg/trace"
	"sluice/pkg/vfs"
	"sluice/rpc"
	"sluice/xdr/mount3"
	wire3 "sluice/xdr/nfs3"
)

// Config makes a Service. Namespace and Exports are required.
type Config struct {
	Namespace *vfs.Namespace
	Exports   func() *exports.Set // the exports in force, for MOUNT's EXPORT
	Log       zerolog.Logger
	Trace     *trace.Bus // may be nil
}

// Service holds the procedures.
type Service struct {
	ns      *vfs.Namespace
	exports func() *exports.Set
	mounts  *mountList
	log     zerolog.Logger
	trace   *trace.Bus

	mountLog zerolog.Logger // log, held to mountLogBurst
}

// New makes the service.
func New(cfg Config) *Service {
	return &Service{
		ns: cfg.Namespace, exports: cfg.Exports, mounts: newMountList(), log: cfg.Log, trace: cfg.Trace,
		mountLog: cfg.Log.Sample(&zerolog.BurstSampler{Burst: mountLogBurst, Period: time.Second}),
	}
}

// mountLogBurst is how many lines a second MOUNT may log: anyone may call it, and a log is not for filling.
const mountLogBurst = 20

// Programs returns NFS (version 3) and MOUNT (versions 1, 2 and 3).
//
// Cache marks the procedures that are not idempotent (RFC 1813, 4.6); MKNOD is
// one, if the RFC's example list leaves it out. COMMIT and the reading ones may
// run twice.
func (s *Service) Programs() []rpc.Program {
	return []rpc.Program{
		{Prog: wire3.NFS_PROGRAM, Name: "NFS", Versions: []rpc.Version{{Vers: wire3.NFS_V3, Procs: []rpc.Proc{
			wire3.NFSPROC3_NULL:        {Name: "NULL", Run: null},
			wire3.NFSPROC3_GETATTR:     {Name: "GETATTR", Run: s.getattr},
			wire3.NFSPROC3_SETATTR:     {Name: "SETATTR", Run: s.setattr, Cache: true},
			wire3.NFSPROC3_LOOKUP:      {Name: "LOOKUP", Run: s.lookup},
			wire3.NFSPROC3_ACCESS:      {Name: "ACCESS", Run: s.access},
			wire3.NFSPROC3_READLINK:    {Name: "READLINK", Run: s.readlink},
			wire3.NFSPROC3_READ:        {Name: "READ", Run: s.read},
			wire3.NFSPROC3_WRITE:       {Name: "WRITE", Run: s.write, Cache: true, Bulk: true, Land: landWrite},
			wire3.NFSPROC3_CREATE:      {Name: "CREATE", Run: s.create, Cache: true},
			wire3.NFSPROC3_MKDIR:       {Name: "MKDIR", Run: s.mkdir, Cache: true},
			wire3.NFSPROC3_SYMLINK:     {Name: "SYMLINK", Run: s.symlink, Cache: true},
			wire3.NFSPROC3_MKNOD:       {Name: "MKNOD", Run: s.mknod, Cache: true},
			wire3.NFSPROC3_REMOVE:      {Name: "REMOVE", Run: s.remove, Cache: true},
			wire3.NFSPROC3_RMDIR:       {Name: "RMDIR", Run: s.rmdir, Cache: true},
			wire3.NFSPROC3_RENAME:      {Name: "RENAME", Run: s.rename, Cache: true},
			wire3.NFSPROC3_LINK:        {Name: "LINK", Run: s.link, Cache: true},
			wire3.NFSPROC3_READDIR:     {Name: "READDIR", Run: s.readdir},
			wire3.NFSPROC3_READDIRPLUS: {Name: "READDIRPLUS", Run: s.readdirplus},
			wire3.NFSPROC3_FSSTAT:      {Name: "FSSTAT", Run: s.fsstat},
			wire3.NFSPROC3_FSINFO:      {Name: "FSINFO", Run: s.fsinfo},
			wire3.NFSPROC3_PATHCONF:    {Name: "PATHCONF", Run: s.pathconf},
			wire3.NFSPROC3_COMMIT:      {Name: "COMMIT", Run: s.commit},
		}}}},
		{Prog: mount3.MOUNT_PROGRAM, Name: "MOUNT", Versions: []rpc.Version{
			{Vers: 1, Procs: s.mountProcs1()},
			{Vers: 2, Procs: s.mountProcs1()},
			{Vers: 3, Procs: []rpc.Proc{
				mount3.MOUNTPROC3_NULL: {Name: "NULL", Run: null},
				// Slow: resolving a path may wait for a disk at each component.
				mount3.MOUNTPROC3_MNT:     {Name: "MNT", Run: s.mnt, Slow: true},
				mount3.MOUNTPROC3_DUMP:    {Name: "DUMP", Run: s.dump},
				mount3.MOUNTPROC3_UMNT:    {Name: "UMNT", Run: s.umnt},
				mount3.MOUNTPROC3_UMNTALL: {Name: "UMNTALL", Run: s.umntall},
				mount3.MOUNTPROC3_EXPORT:  {Name: "EXPORT", Run: s.export},
			}},
		}},
	}
}

// Mounts lists who says to have mounted what, oldest first. It is advisory:
// clients that crash leave their entries, and MOUNT is not asked by NFSv4.
func (s *Service) Mounts() []Mount { return s.mounts.all() }

// Local is what one OS thread keeps for the procedures: its file-system state
// and the scratch space that would not stay on the stack.
type Local struct {
	fs     *vfs.Thread // nil: could not be made
	caller vfs.Caller
	path   [vfs.MaxPath + 1]byte // READLINK's target
	dir    dirWriter
	gather gather
}

// NewLocal makes the state of the calling OS thread, for rpc.Config.NewLocal.
func (s *Service) NewLocal() any { return s.newLocal(s.ns.NewThread()) }

func (s *Service) newLocal(fs *vfs.Thread, err error) *Local {
	t := &Local{fs: fs}
	if err != nil {
		t.fs = nil
		s.log.Error().Err(err).Msg("no state for a service thread: its calls are answered with JUKEBOX (try again)")
	}
	t.dir.init()
	return t
}

// Threaded is what rpc.Thread.Local must be: one protocol's state, or several protocols' together.
type Threaded interface{ NFS3() *Local }

// NFS3 returns t.
func (t *Local) NFS3() *Local { return t }

// Thread returns the thread's file-system state, for other protocols to share; nil if it could not be made.
func (t *Local) Thread() *vfs.Thread { return t.fs }

// local returns the state of the thread that a call runs on.
func local(c *rpc.Call) *Local { return c.Thread.Local.(Threaded).NFS3() }

// CloseLocal ends what NewLocal made, for rpc.Config.CloseLocal.
func (s *Service) CloseLocal(l any) {
	if x, ok := l.(Threaded); ok && x.NFS3().fs != nil {
		t := x.NFS3()
		t.fs.Close()
		t.fs = nil
	}
}

// Connect gives a connection its memory of which exports its client may use,
// for rpc.Config.OnConnect.
func (s *Service) Connect(c *rpc.Conn) { c.Data = new(vfs.ClientMemo) }

// enter fills in the caller of a call and returns the thread's state.
func (s *Service) enter(c *rpc.Call) *Local {
	t := local(c)
	peer := c.Peer()
	t.caller = vfs.Caller{
		Addr: peer.Addr(), Port: peer.Port(),
		Cred:     vfs.Cred{UID: c.Cred.UID, GID: c.Cred.GID, Groups: c.Cred.Groups, Flavor: c.Cred.Flavor},
		XID:      c.XID,
		MayBlock: c.MayBlock,
	}
	if c.Conn != nil {
		t.caller.Splice = c.Conn.Plain()
		t.caller.Memo, _ = c.Conn.Data.(*vfs.ClientMemo)
	}
	return t
}

// view opens a file handle for a call. On success the View must be closed.
func (s *Service) view(c *rpc.Call, fh []byte) (vfs.View, vfs.Node, error) {
	t := s.enter(c)
	if t.fs == nil {
		return vfs.View{}, vfs.Node{}, vfs.ErrJukebox
	}
	return s.ns.View(t.fs, &t.caller, fh)
}

// again tells that a call has to be run again where it may sleep.
func again(c *rpc.Call, err error) bool { return err == vfs.ErrWouldBlock && !c.MayBlock }

// after fills in the attributes that belong to the failure of an operation on
// n when the operation itself did not return them: RFC 1813 wants them in every
// reply whose handle was good (2.6, post_op_attr).
func after(v *vfs.View, n vfs.Node, a *vfs.Attr) {
	if !a.Valid() {
		*a, _ = v.Getattr(n)
	}
}

func afterChange(v *vfs.View, n vfs.Node, c *vfs.Change) {
	if !c.AfterOK {
		a, err := v.Getattr(n)
		c.After, c.AfterOK = a, err == nil
	}
}

// putStatus begins a reply.
func putStatus(c *rpc.Call, s wire3.Nfsstat3) { c.Reply.Uint32(uint32(s)) }

func null(*rpc.Call) rpc.Verdict { return rpc.Done }
