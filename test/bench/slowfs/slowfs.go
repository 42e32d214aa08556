// Package slowfs is a FUSE file system with one file that takes a fixed time to
// answer each read, for measuring and testing what a server does with other
// calls meanwhile.
//
// The file's attributes are cached by the kernel, so that only reads are slow,
// and any number of reads may be slow at once. Handles work after the kernel
// has forgotten the node (FUSE_EXPORT_SUPPORT), so that an NFS server can
// export it. The mount has no UUID and a changing device number: an export of
// it needs fsid=.
package slowfs

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// FileName is the file's name in the root directory, FileSize its size: large
// enough that a test never needs to read a page twice.
const (
	FileName = "slow"
	FileSize = 256 << 30
)

const (
	rootIno = 1
	fileIno = 2
)

// FS is a mounted slow file system.
type FS struct{ srv *fuse.Server }

// Mount mounts the file system on the directory dir; each read of the file
// takes delay. It needs root and /dev/fuse. Fill, if not nil, sets the bytes
// that a read at an offset returns; else they are zero.
func Mount(dir string, delay time.Duration, fill func(p []byte, off uint64)) (*FS, error) {
	long := time.Hour
	root := &node{ino: rootIno, delay: delay, fill: fill}
	srv, err := fs.Mount(dir, root, &fs.Options{
		EntryTimeout:   &long,
		AttrTimeout:    &long,
		ExternalNodeID: true,
		RootStableAttr: &fs.StableAttr{Ino: rootIno, Mode: unix.S_IFDIR},
		MountOptions: fuse.MountOptions{
			AllowOther:        true,
			DirectMountStrict: true,
			FsName:            "slowfs",
			Name:              "slowfs",
			ExtraCapabilities: fuse.CAP_EXPORT_SUPPORT,
			MaxBackground:     256,
		},
	})
	if err != nil {
		return nil, fmt.Errorf("mount a slow file system on %s (needs root and /dev/fuse): %w", dir, err)
	}
	return &FS{srv}, nil
}

// Unmount takes it off. It fails with EBUSY while files are open.
func (f *FS) Unmount() error { return f.srv.Unmount() }

// node is the root directory or the file.
type node struct {
	fs.Inode
	ino   uint64
	delay time.Duration
	fill  func([]byte, uint64)
}

var (
	_ fs.NodeLookuper       = (*node)(nil)
	_ fs.NodeLookupNoder    = (*node)(nil)
	_ fs.NodeLookupParenter = (*node)(nil)
	_ fs.NodeGetattrer      = (*node)(nil)
	_ fs.NodeReaddirer      = (*node)(nil)
	_ fs.NodeOpener         = (*node)(nil)
	_ fs.NodeReader         = (*node)(nil)
)

func mode(ino uint64) uint32 {
	if ino == rootIno {
		return unix.S_IFDIR | 0755
	}
	return unix.S_IFREG | 0644
}

func setAttr(ino uint64, a *fuse.Attr) {
	a.Ino, a.Mode, a.Nlink, a.Blksize = ino, mode(ino), 1, 4096
	if ino == fileIno {
		a.Size, a.Blocks = FileSize, FileSize/512
	}
}

func (n *node) inode(ctx context.Context, ino uint64, out *fuse.EntryOut) *fs.Inode {
	setAttr(ino, &out.Attr)
	return n.NewInode(ctx, &node{ino: ino, delay: n.delay, fill: n.fill}, fs.StableAttr{Ino: ino, Mode: mode(ino) & unix.S_IFMT})
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if n.ino != rootIno || name != FileName {
		return nil, syscall.ENOENT
	}
	return n.inode(ctx, fileIno, out), 0
}

// LookupNode finds a node by the number that a kernel file handle holds.
func (n *node) LookupNode(ctx context.Context, id uint64, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if id != rootIno && id != fileIno {
		return nil, syscall.ESTALE
	}
	return n.inode(ctx, id, out), 0
}

// LookupParent finds the directory of a node known only by its handle.
func (n *node) LookupParent(ctx context.Context, out *fuse.EntryOut) (*fs.Inode, string, syscall.Errno) {
	if n.ino != fileIno {
		return nil, "", syscall.ENOENT
	}
	return n.inode(ctx, rootIno, out), FileName, 0
}

func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	setAttr(n.ino, &out.Attr)
	return 0
}

func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	if n.ino != rootIno {
		return nil, syscall.ENOTDIR
	}
	return fs.NewListDirStream([]fuse.DirEntry{{Name: FileName, Ino: fileIno, Mode: unix.S_IFREG}}), 0
}

func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	if flags&unix.O_ACCMODE != unix.O_RDONLY {
		return nil, 0, syscall.EROFS
	}
	return nil, 0, 0
}

func (n *node) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	time.Sleep(n.delay)
	dest = dest[:max(0, min(int64(len(dest)), FileSize-off))]
	if n.fill != nil {
		n.fill(dest, uint64(off))
	} else {
		clear(dest)
	}
	return fuse.ReadResultData(dest), 0
}
