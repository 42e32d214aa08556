// Mounts: the descriptors that handles are opened through. Each export has a tree of them: its own file system, and those
// mounted below it that clients may cross into.
//
// An export that does not cross mount points is served through a detached copy of its directory's mount alone
// (open_tree(2) with OPEN_TREE_CLONE). What is mounted below is not part of the copy, so that a walk finds the directories
// underneath, as Linux clients see them; and the administrator can unmount the original at any time. (The file system
// stays in use until the next look at the path, some two seconds later: then its files are closed.)
//
// An export with crossmnt, or above another export (version 4 crosses into all, version 3 into those with nohide), is
// served through the mounts themselves, and the kernel's own walk crosses into whatever is mounted at that moment.
// name_to_handle_at tells on which mount a name ended. Such mounts are busy until exports are reloaded, as they are with the
// kernel's server until `exportfs -f`.
//
// Tables are replaced as a whole and read without locks; a mount taken out of them is closed when every thread has
// finished the call that it may be used in (see Namespace.quiesce).

package vfs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/exports"
	"sluice/pkg/filecache"
)

// maxMounts bounds the mounts of one export.
const maxMounts = 4096

// fsMount is one mount of one tree.
type fsMount struct {
	tree    *tree
	fd      int    // on the mount, not O_PATH: for open_by_handle_at, ioctl and syncfs
	treeFD  int    // keeps a detached copy attached; -1 if the mount is not one
	id      uint64 // file system in handles
	cacheFS uint64 // FS of keys in the file cache; never used again
	mntID   int32
	root    filecache.Key
	dev     uint64
	magic   int64

	rootIno   uint64
	mountedOn uint64 // file id of the directory that root hides; 0 if it hides none that clients see

	connect bool // handles name the parent, and are only good below fd's directory (subtree_check)
	local   bool // statx of an open file cannot sleep
	dirSync bool // fsync of a directory covers files just made in it
	gate    gate

	hasXattr, hasACL answer

	mu    sync.Mutex
	under int // a detached copy, to see below what is mounted here; 0 until needed
	tree2 int
}

// attrFSID is the fsid attribute of a file.
func (m *fsMount) attrFSID(key *filecache.Key) uint64 {
	if m.magic == unix.BTRFS_SUPER_MAGIC && key.Len >= 16 {
		// The kernel handle of btrfs: inode, subvolume, generation, ...
		return m.id ^ (word(key.Bytes[8:])^word(m.root.Bytes[8:]))*0x9E3779B97F4A7C15
	}
	return m.id
}

func (m *fsMount) close() {
	unix.Close(m.fd)
	if m.treeFD >= 0 {
		unix.Close(m.treeFD)
	}
	if m.under > 0 {
		unix.Close(m.under)
		unix.Close(m.tree2)
	}
}

// crossing is what is known of a mount that a walk ended on.
type crossing struct {
	m    *fsMount // nil: its file system cannot be exported
	path string   // where it is mounted
}

type mountTable struct {
	root  *fsMount
	all   []*fsMount
	byID  map[uint64]*fsMount
	byMnt map[int32]crossing
}

// tree is the mounts of one export. It outlives reloads that leave the export's path and kind as they are.
type tree struct {
	ns       *Namespace
	export   *exports.Export
	id       uint32
	live     bool   // served through the mounts themselves
	above    above  // what version 4 has above the root
	mustBe   string // path that must be a mount point; "" for none
	connect  bool   // handles name the parent (subtree_check)
	tbl      atomic.Pointer[mountTable]
	mu       sync.Mutex // held while tbl is replaced
	source   source     // of tbl.root
	err      error      // why there is no root
	lastScan time.Time
}

// source tells whether a path still leads to the same directory of the same mount.
type source struct {
	mnt      uint64
	dev, ino uint64
}

// above is what a client of version 4 finds one up from an export's directory.
type above uint8

const (
	aboveNothing above = iota
	abovePseudo
	aboveExport
)

// hiddenIno is the file id of the directory that what is mounted at path hides; 0 if it cannot be told.
func hiddenIno(path string) uint64 {
	if path == "/" {
		return 0
	}
	up, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(up)
	fd, err := unix.OpenTree(up, "", unix.AT_EMPTY_PATH|treeClone|unix.O_CLOEXEC)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	var stx unix.Statx_t
	if unix.Statx(fd, filepath.Base(path), unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_INO, &stx) != nil {
		return 0
	}
	return stx.Ino
}

func (t *tree) root() *fsMount {
	if tbl := t.tbl.Load(); tbl != nil {
		return tbl.root
	}
	return nil
}

// look opens the export's directory as it is now and says where it is.
func (t *tree) look() (fd int, s source, err error) {
	path := t.export.Path
	// The path was resolved when the exports were read. A link in it now may be someone's who owns a directory above,
	// and lead anywhere.
	fd, err = unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS,
	})
	if err != nil {
		switch err {
		case unix.ELOOP:
			err = errLink
		case unix.ENOENT:
			err = errNoDirectory
		case unix.ENOTDIR:
			err = errors.New("it is not a directory: export the directory that holds it")
		}
		return -1, s, err
	}
	var stx unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_MNT_ID_UNIQUE|unix.STATX_MNT_ID, &stx); err != nil {
		unix.Close(fd)
		return -1, s, err
	}
	s = source{mnt: stx.Mnt_id, dev: unix.Mkdev(stx.Dev_major, stx.Dev_minor), ino: stx.Ino}
	if t.mustBe == "" {
		return fd, s, nil
	}
	if at := t.mustBe; at != path {
		if err := unix.Statx(unix.AT_FDCWD, at, 0, unix.STATX_INO, &stx); err != nil {
			unix.Close(fd)
			return -1, s, fmt.Errorf("nothing is mounted at %s", at)
		}
	}
	if stx.Attributes&unix.STATX_ATTR_MOUNT_ROOT == 0 {
		unix.Close(fd)
		return -1, s, fmt.Errorf("nothing is mounted at %s (option mp)", t.mustBe)
	}
	return fd, s, nil
}

// transient tells that an error says nothing of the directory, only of the moment.
func transient(err error) bool {
	var e unix.Errno
	if !errors.As(err, &e) {
		return false
	}
	switch e {
	case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EINTR, unix.EAGAIN, unix.EIO:
		return true
	}
	return false
}

var errLink = errors.New("a symbolic link has come into its path: if that is meant, reload the exports")

var errNoDirectory = errors.New("the directory does not exist: make it, and the export is served from then on")

// check looks at the export's path and takes up what is there now. It must run under the server's credentials.
func (t *tree) check() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	fd, s, err := t.look()
	if err != nil {
		if root := t.root(); root != nil {
			// A directory that was only renamed is still where its handles say, and a shortage tells nothing.
			if (err == errNoDirectory || err == errLink) && mountExists(root) || transient(err) {
				return nil
			}
		}
		t.setRoot(nil, source{}, err)
		return err
	}
	defer unix.Close(fd)
	if s == t.source && t.root() != nil {
		return nil
	}
	m, err := t.open(fd, t.export.Path, true)
	if err != nil {
		if t.root() == nil || !transient(err) {
			t.setRoot(nil, source{}, err)
		}
		return err
	}
	t.setRoot(m, s, nil)
	return nil
}

// setRoot replaces the whole table; t.mu is held.
func (t *tree) setRoot(m *fsMount, s source, err error) {
	old := t.tbl.Load()
	log := &t.ns.cfg.Log
	switch {
	case m != nil && t.err != nil:
		log.Info().Str("export", t.export.Path).Msg("export is served again")
	case err != nil && (t.err == nil || t.err.Error() != err.Error()):
		log.Warn().Str("export", t.export.Path).Msgf("export is not served: %v", err)
	}
	t.source, t.err = s, err
	tbl := &mountTable{byID: map[uint64]*fsMount{}, byMnt: map[int32]crossing{}}
	if m != nil {
		tbl.root, tbl.all = m, []*fsMount{m}
		tbl.byID[m.id] = m
		tbl.byMnt[m.mntID] = crossing{m, t.export.Path}
	}
	t.tbl.Store(tbl)
	if old != nil {
		t.ns.retire(old.all)
	}
	t.ns.rebuildAliases()
}

// open makes an fsMount of an O_PATH descriptor's mount at path. isRoot: it is the export's directory itself.
func (t *tree) open(pathFD int, path string, isRoot bool) (_ *fsMount, err error) {
	m := &fsMount{tree: t, fd: -1, treeFD: -1, cacheFS: t.ns.nextFS.Add(1)}
	defer func() {
		if err != nil && m.fd >= 0 {
			m.close()
		}
	}()
	from := pathFD
	if isRoot && !t.live {
		if m.treeFD, err = unix.OpenTree(pathFD, "", unix.AT_EMPTY_PATH|treeClone|unix.O_CLOEXEC); err == nil {
			from = m.treeFD
		} else {
			m.treeFD = -1
			t.ns.cfg.Log.Warn().Str("export", t.export.Path).Msgf("file systems mounted below the export cannot be told from it (open_tree: %v): run with CAP_SYS_ADMIN; names that are mount points are refused until then", err)
		}
	}
	if m.fd, err = unix.Open(fmt.Sprintf("/proc/self/fd/%d", from), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); err != nil {
		if m.treeFD >= 0 {
			unix.Close(m.treeFD)
		}
		return nil, err
	}
	var sf unix.Statfs_t
	var st unix.Stat_t
	if err := unix.Fstatfs(m.fd, &sf); err != nil {
		return nil, err
	}
	if err := unix.Fstat(m.fd, &st); err != nil {
		return nil, err
	}
	m.magic, m.dev, m.rootIno = int64(sf.Type), st.Dev, st.Ino
	m.local = isLocal(m.magic)
	m.dirSync = dirSyncCovers(m.magic, m.dev)

	// A scratch of its own: check runs on any goroutine.
	var th Thread
	if e := th.fdToHandle(m.fd, 0); e == unix.EOPNOTSUPP {
		return nil, noHandles(m.magic)
	} else if e != 0 {
		return nil, e
	}
	if !keyOf(&th.fh, m.cacheFS, &m.root) {
		return nil, fmt.Errorf("file handles of its file system (%s) have %d bytes, and %d fit", fsTypeName(m.magic), th.fh.n, maxKernelBytes)
	}
	m.mntID = th.mntID
	if t.connect {
		e := th.nameToHandle(m.fd, []byte("."), atHandleConnect)
		if m.connect = e == 0; e != 0 {
			t.ns.cfg.Log.Warn().Str("export", t.export.Path).Msgf("subtree_check has no effect on the file system of %s: it takes Linux 6.13 and one whose handles can name the parent, and this is %s", path, fsTypeName(m.magic))
		}
		handleOf(&m.root, &th.fh)
	}
	fd, e := th.openByHandle(m.fd, unix.O_PATH)
	switch e {
	case 0:
		unix.Close(fd)
	case unix.EPERM:
		return nil, errors.New("files cannot be opened by handle: run the server as root with CAP_DAC_READ_SEARCH")
	case unix.EOPNOTSUPP, unix.ESTALE:
		return nil, noHandles(m.magic)
	default:
		return nil, fmt.Errorf("open_by_handle_at: %w", e)
	}
	if isRoot {
		m.id, err = rootID(m.fd, t.export)
		switch t.above {
		case abovePseudo:
			m.mountedOn = pseudoID(path)
		case aboveExport:
			m.mountedOn = hiddenIno(path)
		}
	} else {
		m.mountedOn = hiddenIno(path)
		m.id, err = childID(m.fd, &m.root)
	}
	return m, err
}

// noHandles explains a file system without file handles.
func noHandles(magic int64) error {
	switch magic {
	case unix.OVERLAYFS_SUPER_MAGIC:
		return errors.New("overlayfs has no file handles as it is mounted: mount it with nfs_export=on,index=on, or export a directory of its upper file system")
	case unix.FUSE_SUPER_MAGIC:
		return errors.New("this FUSE file system has no file handles: export the directory that it is made from")
	}
	return fmt.Errorf("its file system (%s) has no file handles, which NFS needs: export a directory of another one", fsTypeName(magic))
}

// add puts a mount into the table, unless one with its id is there already; t.mu is held. It returns the one to use.
func (t *tree) add(c crossing, mnt int32) crossing {
	old := t.tbl.Load()
	tbl := &mountTable{root: old.root, all: old.all, byID: make(map[uint64]*fsMount, len(old.byID)+1), byMnt: make(map[int32]crossing, len(old.byMnt)+1)}
	for k, v := range old.byID {
		tbl.byID[k] = v
	}
	for k, v := range old.byMnt {
		tbl.byMnt[k] = v
	}
	if c.m != nil {
		if have := tbl.byID[c.m.id]; have != nil {
			c.m.close()
			c.m = have // the same file system mounted twice: one id, one way in
		} else {
			tbl.byID[c.m.id] = c.m
			tbl.all = append(tbl.all[:len(tbl.all):len(tbl.all)], c.m)
		}
	}
	tbl.byMnt[mnt] = c
	t.tbl.Store(tbl)
	t.ns.rebuildAliases()
	return c
}

// enter makes the mount known that an O_PATH descriptor, opened by crossing into it, is on. It must run under the
// server's credentials.
func (t *tree) enter(pathFD int, mnt int32) (crossing, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	tbl := t.tbl.Load()
	if tbl == nil || tbl.root == nil {
		return crossing{}, ErrStale
	}
	if c, ok := tbl.byMnt[mnt]; ok {
		return c, nil
	}
	if len(tbl.all) >= maxMounts {
		return crossing{}, unix.ENFILE
	}
	path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", pathFD))
	if err != nil {
		return crossing{}, err
	}
	m, err := t.open(pathFD, path, false)
	if err != nil {
		t.ns.cfg.Log.Warn().Str("export", t.export.Path).Msgf("the file system mounted at %s is not shown: %v", path, err)
		return t.add(crossing{nil, path}, mnt), nil
	}
	if m.mntID != mnt { // unmounted, or mounted over, in between
		m.close()
		return crossing{}, ErrStale
	}
	return t.add(crossing{m, path}, mnt), nil
}

// find looks for the mount of a file-system id that is not in the table: the server was restarted since the handle was
// made. It looks at all mounts below the export, at most once a second.
func (t *tree) find(id uint64) *fsMount {
	t.mu.Lock()
	defer t.mu.Unlock()
	tbl := t.tbl.Load()
	if tbl == nil || tbl.root == nil {
		return nil
	}
	if m := tbl.byID[id]; m != nil || !t.live || time.Since(t.lastScan) < time.Second {
		return m
	}
	t.lastScan = time.Now()
	for _, path := range mountsBelow(t.export.Path) {
		if len(t.tbl.Load().all) >= maxMounts {
			break
		}
		fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		m, err := t.open(fd, path, false)
		unix.Close(fd)
		if err != nil {
			continue
		}
		if _, known := t.tbl.Load().byMnt[m.mntID]; known {
			m.close()
			continue
		}
		t.add(crossing{m, path}, m.mntID)
	}
	return t.tbl.Load().byID[id]
}

// below returns a descriptor on a detached copy of m, in which nothing is mounted. It must run under the server's
// credentials.
func (m *fsMount) below() (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.treeFD >= 0 {
		return m.fd, nil
	}
	if m.under > 0 {
		return m.under, nil
	}
	fd, err := unix.OpenTree(m.fd, "", unix.AT_EMPTY_PATH|treeClone|unix.O_CLOEXEC)
	if err != nil {
		return -1, err
	}
	under, err := unix.Open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	m.under, m.tree2 = under, fd
	return under, nil
}

// mountsBelow lists the mount points below a directory, outer ones first.
func mountsBelow(dir string) (paths []string) {
	for _, f := range mountInfo() {
		if p := unescape(f[4]); p != dir && (strings.HasPrefix(p, dir+"/") || dir == "/") {
			paths = append(paths, filepath.Clean(p))
		}
	}
	return paths
}

// mountExists tells whether m's file system is still mounted somewhere.
func mountExists(m *fsMount) bool {
	for _, f := range mountInfo() {
		var major, minor uint32
		if _, err := fmt.Sscanf(f[2], "%d:%d", &major, &minor); err == nil && unix.Mkdev(major, minor) == m.dev {
			return true
		}
	}
	// btrfs shows another device number there than stat does.
	return m.magic == unix.BTRFS_SUPER_MAGIC
}

// mountInfo reads the fields of /proc/self/mountinfo.
func mountInfo() (lines [][]string) {
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil
	}
	for _, l := range strings.Split(string(b), "\n") {
		if f := strings.Fields(l); len(f) > 5 {
			lines = append(lines, f)
		}
	}
	return lines
}

// unescape undoes the \ooo of mountinfo.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
