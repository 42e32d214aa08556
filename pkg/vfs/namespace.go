// The namespace: exports as trees of mounts, and the way from a call to a View.
//
// A View is what one call may see and do: its export, the options its client gets there, the ids it acts under. View
// authenticates the handle, finds the export, matches the client (remembered per connection in a ClientMemo), checks port
// and flavour, squashes, and opens the file. Exports are replaced as a whole by Reload; calls in flight finish with what
// they began with.

package vfs

import (
	"errors"
	"fmt"
	"iter"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/pkg/dataio"
	"sluice/pkg/filecache"
	"sluice/pkg/trace"
)

// Config makes a Namespace.
type Config struct {
	Exports   *exports.Set // nil for none yet
	Resolver  exports.Resolver
	HandleKey HandleKey
	Cache     *filecache.Cache
	Engine    *dataio.Engine
	Modes     *dataio.Modes
	Trace     *trace.Bus // may be nil
	Log       zerolog.Logger

	MaxRead    uint32        // largest READ, in bytes (rtmax); the engine's
	MaxWrite   uint32        // largest WRITE, in bytes (wtmax); 1 MiB
	DirPref    uint32        // preferred READDIR size, in bytes (dtpref); 1 MiB, as Linux
	CheckEvery time.Duration // how often export directories are looked at; 2 s
	Guard      Guard         // asked before files are touched; may be nil
	MatchFor   time.Duration // how long a connection's match to an export is remembered; 2 min
}

// Namespace is the tree of exports. All methods may be called from any goroutine.
type Namespace struct {
	cfg      Config
	procFD   int // /proc/self/fd
	table    atomic.Pointer[table]
	memoGen  atomic.Uint64 // remembered matches of an older generation are void
	nextFS   atomic.Uint64
	stale    atomic.Uint32 // handles met that were stale; see names.go
	births   births
	guard    Guard
	hashKey  HandleKey // of group lists in grants
	locks    locks
	spans    spans
	durable  durable
	openPins atomic.Int64                        // files pinned for opens; see OpenPin
	aliases  atomic.Pointer[map[uint64][]uint64] // device -> FS ids in the cache, where there is more than one

	reload  sync.Mutex // held while table is replaced
	mu      sync.Mutex
	threads map[*Thread]struct{}

	stop    chan struct{}
	stopped chan struct{}
	closing sync.RWMutex   // held while mounts are closed, and read-held while one is used outside of a call
	retired sync.WaitGroup // mounts being closed
	onDie   func()         // tests only
}

// table is the exports in force.
type table struct {
	set    *exports.Set
	all    []*export // longest path first
	byID   map[uint32]*export
	byPath map[string]*export

	top    *pseudo            // the pseudo root
	pseudo map[uint64]*pseudo // by id
	root   *export            // the export that is the root instead; nil for none
	at     Time               // when it was put into force
}

// export is one export as of one Reload.
type export struct {
	cfg  *exports.Export
	set  *exports.Set
	id   uint32
	tree *tree
	mode *dataio.Override
}

// ClientMemo remembers, for one connection, how its client matched the exports it used. The zero value is ready.
type ClientMemo struct{ slots [4]atomic.Pointer[memo] }

type memo struct {
	exp  *export
	gen  uint64
	ok   bool
	opts exports.Options
}

// New makes a namespace. Exports whose directory cannot be served now are logged, and served when that changes.
func New(cfg Config) (*Namespace, error) {
	if cfg.MaxRead == 0 {
		cfg.MaxRead = uint32(cfg.Engine.MaxIO())
	}
	if cfg.MaxWrite == 0 {
		cfg.MaxWrite = 1 << 20
	}
	if cfg.DirPref == 0 {
		cfg.DirPref = 1 << 20
	}
	if cfg.CheckEvery == 0 {
		cfg.CheckEvery = 2 * time.Second
	}
	if cfg.MatchFor == 0 {
		cfg.MatchFor = 2 * time.Minute
	}
	if cfg.Modes == nil {
		cfg.Modes = new(dataio.Modes)
	}
	n := &Namespace{cfg: cfg, guard: cfg.Guard, threads: make(map[*Thread]struct{}), stop: make(chan struct{}), stopped: make(chan struct{})}
	n.durable.init()
	var err error
	if n.hashKey, err = randomKey(); err != nil {
		return nil, err
	}
	if n.procFD, err = unix.Open("/proc/self/fd", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0); err != nil {
		return nil, fmt.Errorf("/proc/self/fd: %w; mount proc at /proc", err)
	}
	n.table.Store(&table{set: new(exports.Set)})
	set := cfg.Exports
	if set == nil {
		set = new(exports.Set)
	}
	if err := n.Reload(set); err != nil {
		unix.Close(n.procFD)
		return nil, err
	}
	go n.mind()
	return n, nil
}

// Close ends the background work and closes the mounts. All threads must have been closed.
func (n *Namespace) Close() {
	close(n.stop)
	<-n.stopped
	n.Reload(new(exports.Set)) //nolint:errcheck // an empty set has no collisions
	n.retired.Wait()
	unix.Close(n.procFD)
}

// Reload puts a set of exports into force. Exports that stay keep their open files; handles of those that go are stale.
// Mounts that clients crossed into (crossmnt) are let go, so that they can be unmounted, and found again when used.
func (n *Namespace) Reload(set *exports.Set) error {
	n.reload.Lock()
	defer n.reload.Unlock()
	old := n.table.Load()
	t := &table{set: set, byID: map[uint32]*export{}, byPath: map[string]*export{}}
	for _, e := range set.Exports() {
		x := &export{cfg: e, set: set, id: exportID(e), mode: n.cfg.Modes.Export(e.Path)}
		if other := t.byID[x.id]; other != nil {
			return fmt.Errorf("exports %s and %s cannot be told apart in file handles: give one of them fsid=NUMBER", other.cfg.Path, e.Path)
		}
		t.all = append(t.all, x)
		t.byID[x.id] = x
		t.byPath[e.Path] = x
	}
	sort.SliceStable(t.all, func(i, j int) bool { return len(t.all[i].cfg.Path) > len(t.all[j].cfg.Path) })
	if err := t.pseudoTree(); err != nil {
		return err
	}
	now := time.Now()
	t.at = Time{now.Unix(), uint32(now.Nanosecond())}
	for _, x := range t.all {
		tr := n.newTree(x, t)
		if was := old.byPath[x.cfg.Path]; was != nil && !tr.live && was.tree.same(tr) {
			tr = was.tree
		}
		x.tree = tr
	}
	for _, x := range t.all {
		x.tree.check() //nolint:errcheck // logged, and tried again
	}
	n.table.Store(t)
	n.memoGen.Add(1)
	n.rebuildAliases()
	for _, x := range old.all {
		if now := t.byPath[x.cfg.Path]; now == nil || now.tree != x.tree {
			x.tree.drop()
		}
	}
	if n.cfg.Trace.Enabled() {
		n.cfg.Trace.Emit(trace.Event{Name: trace.ExportsReload, Count: uint64(len(t.all))})
	}
	return nil
}

// newTree says what an export asks of its tree.
func (n *Namespace) newTree(x *export, t *table) *tree {
	tr := &tree{ns: n, export: x.cfg, id: x.id}
	for i := range x.cfg.Clients {
		o := &x.cfg.Clients[i].Options
		tr.live = tr.live || o.Crossmnt
		tr.connect = tr.connect || o.SubtreeCheck
		switch {
		case o.MountPoint == "" || tr.mustBe != "":
		case o.MountPoint == ".":
			tr.mustBe = x.cfg.Path
		default:
			tr.mustBe = o.MountPoint
		}
	}
	switch at := x.cfg.Path; {
	case at == "/" || t.root != nil && (t.root == x || !below(at, t.root.cfg.Path)):
	default:
		tr.above = abovePseudo
		if y, _ := t.lookup(path.Dir(at)); y != nil {
			tr.above = aboveExport
		}
	}
	for _, c := range t.all {
		if !below(c.cfg.Path, x.cfg.Path) {
			continue
		}
		// Version 3 crosses into exports with nohide, version 4 into all.
		tr.live = true
	}
	return tr
}

func (t *tree) same(o *tree) bool {
	return t.id == o.id && t.above == o.above && t.live == o.live && t.mustBe == o.mustBe && t.connect == o.connect && t.export.FSID == o.export.FSID
}

// drop closes a tree that is no longer in a table.
func (t *tree) drop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.tbl.Swap(nil)
	t.err = errors.New("not exported")
	if old != nil {
		t.ns.retire(old.all)
	}
	t.ns.rebuildAliases()
}

// below tells whether p is a directory under dir.
func below(p, dir string) bool {
	return p != dir && (dir == "/" || strings.HasPrefix(p, dir) && p[len(dir)] == '/')
}

// mind looks at the export directories from time to time, and lets remembered matches expire.
func (n *Namespace) mind() {
	defer close(n.stopped)
	tick := time.NewTicker(n.cfg.CheckEvery)
	defer tick.Stop()
	next := time.Now().Add(n.cfg.MatchFor)
	for {
		select {
		case <-n.stop:
			return
		case <-tick.C:
		}
		for _, x := range n.table.Load().all {
			x.tree.check() //nolint:errcheck // logged
		}
		if now := time.Now(); now.After(next) {
			n.memoGen.Add(1)
			next = now.Add(n.cfg.MatchFor)
		}
	}
}

// retire closes mounts that are no longer in any table, once no call can be using them.
func (n *Namespace) retire(ms []*fsMount) {
	if len(ms) == 0 {
		return
	}
	n.retired.Add(1)
	go func() {
		defer n.retired.Done()
		n.quiesce()
		for _, m := range ms {
			n.cfg.Cache.Purge(m.cacheFS)
			n.closing.Lock()
			m.close()
			n.closing.Unlock()
		}
	}()
}

// quiesce waits until every call that is running now has ended.
func (n *Namespace) quiesce() {
	n.mu.Lock()
	running := make(map[*Thread]uint64, len(n.threads))
	for th := range n.threads {
		if s := th.seq.Load(); s&1 != 0 {
			running[th] = s
		}
	}
	n.mu.Unlock()
	for th, s := range running {
		for wait := time.Microsecond; th.seq.Load() == s; wait = min(2*wait, 10*time.Millisecond) {
			time.Sleep(wait)
		}
	}
}

// mountsOn yields the mounts that show a file system, by its device as in a Node.Key, each with its export's table.
func (n *Namespace) mountsOn(dev uint64) iter.Seq2[*mountTable, *fsMount] {
	return func(yield func(*mountTable, *fsMount) bool) {
		for _, x := range n.table.Load().all {
			tbl := x.tree.tbl.Load()
			if tbl == nil {
				continue
			}
			for _, m := range tbl.all {
				if m.dev == dev && !yield(tbl, m) {
					return
				}
			}
		}
	}
}

// rebuildAliases finds the file systems that are open under more than one id, since two exports are on them.
func (n *Namespace) rebuildAliases() {
	byDev := map[uint64][]uint64{}
	add := func(t *table) {
		for _, x := range t.all {
			if tbl := x.tree.tbl.Load(); tbl != nil {
				for _, m := range tbl.all {
					byDev[m.dev] = append(byDev[m.dev], m.cacheFS)
				}
			}
		}
	}
	add(n.table.Load())
	for d, ids := range byDev {
		if len(ids) < 2 {
			delete(byDev, d)
		}
	}
	n.aliases.Store(&byDev)
}

// Problems says, by path, why exports are not served at the moment.
func (n *Namespace) Problems() map[string]string {
	m := map[string]string{}
	for _, x := range n.table.Load().all {
		x.tree.mu.Lock()
		if x.tree.err != nil {
			m[x.cfg.Path] = x.tree.err.Error()
		}
		x.tree.mu.Unlock()
	}
	return m
}

// Set returns the exports in force.
func (n *Namespace) Set() *exports.Set { return n.table.Load().set }

// match finds the options of a caller on an export. It asks the resolver, and so may sleep, unless the connection knows
// the answer.
func (n *Namespace) match(x *export, c *Caller) (*exports.Options, error) {
	gen := n.memoGen.Load()
	var slot *atomic.Pointer[memo]
	if c.Memo != nil {
		slot = &c.Memo.slots[x.id%uint32(len(c.Memo.slots))]
		if m := slot.Load(); m != nil && m.exp == x && m.gen == gen {
			if !m.ok {
				return nil, ErrStale
			}
			return &m.opts, nil
		}
	}
	if !c.MayBlock {
		return nil, ErrWouldBlock
	}
	m := &memo{exp: x, gen: gen}
	m.opts, m.ok = x.set.Match(x.cfg, c.Addr, n.cfg.Resolver)
	if slot != nil {
		slot.Store(m)
	}
	if !m.ok {
		return nil, ErrStale
	}
	return &m.opts, nil
}

// View opens the file of handle fh on behalf of a caller. On success Close must be called when the reply is encoded; until
// then the Node and further ones of the same View are good. A thread has one View at a time.
//
// A handle of an export that this client may not use (any more) is stale, as with the kernel's server. A client's port
// above 1023 is EPERM on a secure export, a flavour that the export does not allow EACCES.
func (n *Namespace) View(th *Thread, c *Caller, fh []byte) (View, Node, error) {
	th.begin()
	v := View{ns: n, th: th, c: c}
	node, err := v.open(fh)
	if err != nil {
		v.Close()
		return View{}, Node{}, err
	}
	v.held = th.npin
	return v, node, nil
}

// open is View's work.
func (v *View) open(fh []byte) (Node, error) {
	exp, fs, err := v.ns.cfg.HandleKey.decode(&v.th.handle, fh, &v.th.key)
	if err != nil {
		if isPseudo(fh) {
			return v.openPseudo(fh)
		}
		return Node{}, err
	}
	x := v.ns.table.Load().byID[exp]
	if x == nil {
		return Node{}, ErrStale
	}
	if err := v.admit(x); err != nil {
		return Node{}, err
	}
	return v.node(fs)
}

// admit checks the caller against an export and sets the View's options and ids.
func (v *View) admit(x *export) error {
	opts, err := v.ns.match(x, v.c)
	if err != nil {
		return err
	}
	if opts.Secure && v.c.Port >= 1024 {
		return unix.EPERM
	}
	flavor, ok := opts.For(exports.AuthFlavor(v.c.Cred.Flavor))
	if !ok {
		if v.c.V4 {
			return ErrWrongSec
		}
		return unix.EACCES
	}
	th := v.th
	g := th.groups[:copy(th.groups[:], v.c.Cred.Groups)]
	v.exp, v.opts, v.ro, v.sync = x, opts, flavor.ReadOnly, !opts.Async
	v.uid, v.gid, v.groups = opts.Identity(flavor, v.c.Cred.UID, v.c.Cred.GID, g)
	return nil
}

// Mount resolves a MOUNT path, which may lie below an export, to a handle and the flavours the export allows. It must be
// called where it may sleep. ENOENT: no such directory (or not there at the moment); EACCES: not exported to this client;
// ENOTDIR: neither a directory nor a regular file.
func (n *Namespace) Mount(th *Thread, c *Caller, p string) (h Handle, flavors []uint32, err error) {
	if len(p) == 0 || p[0] != '/' || strings.IndexByte(p, 0) >= 0 {
		return h, nil, unix.ENOENT
	}
	if len(p) > MaxPath {
		return h, nil, unix.ENAMETOOLONG
	}
	if !c.MayBlock {
		return h, nil, ErrWouldBlock
	}
	th.begin()
	v := View{ns: n, th: th, c: c}
	defer v.Close()
	t := n.table.Load()
	x, rest := t.lookup(path.Clean(p))
	if x == nil {
		if x, rest = t.lookupReal(p); x == nil {
			return h, nil, unix.EACCES
		}
	}
	if err := v.admitMount(x); err != nil {
		return h, nil, err
	}
	node, err := v.walk(rest)
	if err == unix.ELOOP {
		// A symbolic link on the way. Linux resolves MOUNT paths on the server; only where that leads into an export.
		if x, rest = t.lookupReal(p); x == nil {
			return h, nil, unix.EACCES
		}
		if err := v.admitMount(x); err != nil {
			return h, nil, err
		}
		node, err = v.walk(rest)
	}
	if err != nil {
		return h, nil, err
	}
	if t := node.Type(); t != TypeDir && t != TypeReg {
		return h, nil, unix.ENOTDIR
	}
	v.handle(&h, node)
	for _, f := range v.opts.Sec {
		flavors = append(flavors, uint32(f.Auth))
	}
	return h, flavors, nil
}

// admitMount is admit for MOUNT, which clients call with any flavour, and which answers EACCES.
func (v *View) admitMount(x *export) error {
	opts, err := v.ns.match(x, v.c)
	if err != nil || opts.Secure && v.c.Port >= 1024 {
		return unix.EACCES
	}
	v.exp, v.opts = x, opts
	return nil
}

// lookup finds the export that a clean path is on or below, and the rest of the path.
func (t *table) lookup(p string) (*export, string) {
	if e := t.set.Get(p); e != nil {
		return t.byPath[e.Path], ""
	}
	for _, x := range t.all {
		if below(p, x.cfg.Path) {
			return x, p[len(x.cfg.Path):]
		}
	}
	return nil, ""
}

// lookupReal is lookup of where a path leads on the server.
func (t *table) lookupReal(p string) (*export, string) {
	real, err := filepath.EvalSymlinks(p)
	if err != nil {
		return nil, ""
	}
	return t.lookup(real)
}

// NewThread makes the state of the calling OS thread. The goroutine must be locked to it for good and end with it.
func (n *Namespace) NewThread() (*Thread, error) {
	th := &Thread{ns: n}
	if err := th.initCreds(); err != nil {
		return nil, err
	}
	// Modes are the client's business: no umask. It belongs to what threads of a process share, so this one stops sharing.
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("cannot have a umask of the thread's own: %w", err)
	}
	unix.Umask(0)
	th.data = n.cfg.Engine.NewThread()
	th.data.AsServer = th.runAsServer
	n.mu.Lock()
	n.threads[th] = struct{}{}
	n.mu.Unlock()
	return th, nil
}

// Close gives a thread's resources back, on the thread itself.
func (th *Thread) Close() {
	if th.seq.Load()&1 != 0 {
		panic("vfs: thread closed inside of a call")
	}
	th.asServer()
	th.data.Close()
	th.ns.mu.Lock()
	delete(th.ns.threads, th)
	th.ns.mu.Unlock()
}
