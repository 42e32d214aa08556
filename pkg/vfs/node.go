// Threads, Views and Nodes: the state of one call, from handle to open file.

package vfs

import (
	"crypto/rand"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/pkg/dataio"
	"sluice/pkg/filecache"
)

// maxNodes is how many files one operation can hold: RENAME and LINK have two, a lookup one more, with a child of each. A
// View that outlives its operation gives the others back in between; see Settle.
const maxNodes = 6

// Thread is the state of one OS thread that runs calls: kept credentials, memory that system calls use, the data path's
// pools. Only that thread uses it.
type Thread struct {
	ns   *Namespace
	data *dataio.Thread
	kept kept
	scratch

	seq      atomic.Uint64 // odd while a call runs; see Namespace.quiesce
	switches uint64        // changes of credentials so far
	inblock  int64         // blocks read by this thread so far; see gate

	pinned [maxNodes]*filecache.File
	npin   int

	handle   Handle
	key      filecache.Key
	guardKey filecache.Key
	groups   [MaxGroups]uint32
	recent   recentReads
	notes    *notes
	rq       dataio.ReadReq  // here, since what a pointer leads to would be allocated
	wq       dataio.WriteReq // per call
	dirbuf   []byte
	xattrs   []byte // names of extended attributes, values of access lists
	entry    DirEntry
}

// begin and end bracket a call.
func (th *Thread) begin() {
	if th.seq.Add(1)&1 == 0 {
		panic("vfs: a thread has one View at a time, and the last one was not closed")
	}
}

func (th *Thread) end() {
	for th.npin > 0 {
		th.npin--
		th.pinned[th.npin].Release()
		th.pinned[th.npin] = nil
	}
	th.seq.Add(1)
}

// hold keeps a pinned file until the call ends.
func (th *Thread) hold(f *filecache.File) {
	th.pinned[th.npin] = f
	th.npin++
}

// drop lets go of a file before the call ends.
func (th *Thread) drop(f *filecache.File) {
	for i := th.npin - 1; i >= 0; i-- {
		if th.pinned[i] == f {
			th.npin--
			th.pinned[i] = th.pinned[th.npin]
			th.pinned[th.npin] = nil
			f.Release()
			return
		}
	}
	panic("vfs: drop of a file that is not held")
}

// View is one call's window on one export: what the caller may see and do there.
type View struct {
	ns   *Namespace
	th   *Thread
	c    *Caller
	exp  *export
	opts *exports.Options

	pseudo   *pseudo // the directory of a View without an export
	ro       bool
	sync     bool // changes are on stable storage before the reply
	uid, gid uint32
	groups   []uint32 // in th.groups

	held int // files that are held from the View's beginning to its end
}

// Node is an open file of a View.
type Node struct {
	f   *filecache.File
	m   *fsMount
	exp *export
	p   *pseudo // a pseudo directory, and the others are nil
}

// Type returns the file's type. It needs no system call.
func (n Node) Type() Type {
	if n.p != nil {
		return TypeDir
	}
	return types[n.f.Mode>>12&15]
}

// Close ends the call.
func (v *View) Close() { v.th.end() }

// Settle lets go of all files but the View's own: their Nodes are good no more. A View on which many operations run needs it
// between them, since a thread holds only a few files.
func (v *View) Settle() {
	for th := v.th; th.npin > v.held; {
		th.npin--
		th.pinned[th.npin].Release()
		th.pinned[th.npin] = nil
	}
}

// NoReaddirplus tells whether the export asks not to offer READDIRPLUS.
func (v *View) NoReaddirplus() bool { return v.opts.NoReaddirplus }

// Export returns the path of the View's export, for logs and traces.
func (v *View) Export() string {
	if v.pseudo != nil {
		return v.pseudo.path
	}
	return v.exp.cfg.Path
}

// ReadOnly tells whether the caller can change nothing here, whatever the files' permissions say.
func (v *View) ReadOnly() bool { return v.ro }

// become gives the thread the caller's credentials.
func (v *View) become() { v.th.become(v.uid, v.gid, v.groups) }

// who is the caller as grants know it.
func (v *View) who() filecache.Caller {
	c := filecache.Caller{UID: v.uid, GID: v.gid}
	if len(v.groups) > 0 {
		var b [4 * MaxGroups]byte
		for i, g := range v.groups {
			b[4*i], b[4*i+1], b[4*i+2], b[4*i+3] = byte(g), byte(g>>8), byte(g>>16), byte(g>>24)
		}
		c.Groups = v.ns.hashKey.mac(b[:4*len(v.groups)])
	}
	return c
}

// Node resolves a second handle of the same call (RENAME, LINK). A handle of another export is EXDEV.
func (v *View) Node(fh []byte) (Node, error) {
	exp, fs, err := v.ns.cfg.HandleKey.decode(&v.th.handle, fh, &v.th.key)
	if err != nil {
		if isPseudo(fh) {
			return v.otherPseudo(fh)
		}
		return Node{}, err
	}
	if v.exp == nil || exp != v.exp.id {
		if v.ns.table.Load().byID[exp] == nil {
			return Node{}, ErrStale
		}
		return Node{}, unix.EXDEV
	}
	return v.node(fs)
}

// node opens the file of the kernel handle in th.key on file system fs of the View's export.
func (v *View) node(fs uint64) (Node, error) {
	th := v.th
	tbl := v.exp.tree.tbl.Load()
	if tbl == nil || tbl.root == nil {
		return Node{}, ErrStale
	}
	m := tbl.root
	if m.id != fs {
		if m = tbl.byID[fs]; m == nil {
			if !v.exp.tree.live {
				return Node{}, ErrStale
			}
			if !v.c.MayBlock {
				return Node{}, ErrWouldBlock
			}
			th.asServer()
			if m = v.exp.tree.find(fs); m == nil {
				return Node{}, ErrStale
			}
		}
	}
	if !m.local && !v.c.MayBlock {
		return Node{}, ErrWouldBlock // asking it anything may mean asking a network
	}
	th.key.FS = m.cacheFS
	if !m.connect {
		th.key.Type &^= typeFlags // from when the export had subtree_check
	}
	f, ok := v.ns.cfg.Cache.Get(&th.key)
	if !ok {
		var err error
		if f, err = v.miss(m); err != nil {
			return Node{}, err
		}
	}
	th.hold(f)
	if ok && m.connect && th.key != m.root {
		// The kernel looks where the file is now; that it was below when it was cached says nothing (exports(5),
		// subtree_check).
		fd, err := v.openKey(m)
		if err != nil {
			return Node{}, err
		}
		unix.Close(fd) //nolint:errcheck // an O_PATH descriptor
	}
	return Node{f: f, m: m, exp: v.exp}, nil
}

// miss opens the file of th.key by its handle, as the server, and caches it.
func (v *View) miss(m *fsMount) (*filecache.File, error) {
	fd, err := v.openKey(m)
	if err != nil {
		return nil, err
	}
	return v.adopt(fd, m)
}

// openKey opens the file of th.key by its handle, as the server.
func (v *View) openKey(m *fsMount) (int, error) {
	if !v.c.MayBlock && m.gate.closed() {
		return -1, ErrWouldBlock
	}
	th := v.th
	if m.connect && th.key.Type&typeFlags == 0 && th.key != m.root {
		return -1, ErrStale // from before the export had subtree_check: nothing says that it is below
	}
	th.asServer()
	start := nanotime()
	fd, err := v.ns.cfg.Cache.Room(v.c.MayBlock, func() (int, error) {
		handleOf(&th.key, &th.fh)
		fd, e := th.openByHandle(m.fd, unix.O_PATH|unix.O_NOFOLLOW)
		if e != 0 {
			return -1, e
		}
		return fd, nil
	})
	m.gate.done(th, start)
	switch errnoOf(err) {
	case 0:
	case unix.EAGAIN:
		return -1, ErrWouldBlock
	case unix.ESTALE, unix.EINVAL, unix.EOPNOTSUPP, unix.EPERM, unix.ENOENT, unix.EOVERFLOW:
		v.ns.stale.Add(1)
		return -1, ErrStale // a handle that this file system does not know, any more or at all
	default:
		return -1, fail(errnoOf(err))
	}
	return fd, nil
}

// adopt caches a just opened descriptor of the file of th.key.
func (v *View) adopt(fd int, m *fsMount) (*filecache.File, error) {
	if e := v.th.statx(fd, m.local); e != 0 {
		unix.Close(fd)
		return nil, fail(e)
	}
	if v.gone(m) {
		unix.Close(fd)
		return nil, ErrStale
	}
	return v.ns.cfg.Cache.Insert(&v.th.key, fd, uint32(v.th.stx.Mode)), nil
}

// handle makes the handle of a node.
func (v *View) handle(h *Handle, n Node) {
	v.ns.cfg.HandleKey.encode(h, n.exp.id, n.m.id, &n.f.Key)
}

// mayBlock reports whether an operation that may sleep can go on: on the slow pool, or while m's gate is open.
func (v *View) mayBlock(m *fsMount) bool { return v.c.MayBlock || !m.gate.closed() }

// begin starts an operation that changes something: refused on read-only exports, and put off where a service thread
// would have to wait for stable storage.
func (v *View) begin(m *fsMount) error {
	if v.ro {
		return unix.EROFS
	}
	if !v.c.MayBlock && (v.sync || m.gate.closed()) {
		return ErrWouldBlock
	}
	return nil
}

// root opens the View's export's own directory.
func (v *View) root() (Node, error) {
	m := v.exp.tree.root()
	if m == nil {
		return Node{}, unix.ENOENT
	}
	v.th.key = m.root
	return v.node(m.id)
}

// walk resolves a path below the export as the server, for MOUNT. A symbolic link on the way is ELOOP.
func (v *View) walk(p string) (Node, error) {
	v.uid, v.gid, v.groups = 0, 0, nil
	v.th.asServer()
	v.exp.tree.check() //nolint:errcheck // what matters is the root
	n, err := v.root()
	for _, name := range strings.Split(p, "/") {
		if err != nil {
			return n, err
		}
		if name == "" {
			continue
		}
		switch n.Type() {
		case TypeDir:
		case TypeLnk:
			return n, unix.ELOOP
		default:
			return n, unix.ENOTDIR
		}
		if len(name) > MaxName {
			return n, unix.ENAMETOOLONG
		}
		dir := n
		n, err = v.find(dir, []byte(name))
		v.th.drop(dir.f)
		if err == nil && n.exp != v.exp {
			v.exp = n.exp // crossed into an export of its own (nohide)
			if v.opts, err = v.ns.match(n.exp, v.c); err != nil {
				return n, unix.EACCES
			}
		}
	}
	if err == nil && n.Type() == TypeLnk {
		err = unix.ELOOP
	}
	return n, err
}

func randomKey() (k HandleKey, err error) {
	_, err = rand.Read(k[:])
	return k, err
}
