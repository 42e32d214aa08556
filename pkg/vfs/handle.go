// File handles: what a client keeps of a file, good until the file is gone.
//
//	0      version (1)
//	1      type of the kernel's file handle, its low byte
//	2      length of the kernel's file handle, at most 40
//	3      flags of the kernel's handle type: 1 connectable (names the parent too; exports with subtree_check), 2 directory
//	4-7    export, see exportID
//	8-15   file system, see fsid.go
//	16-23  SipHash-2-4 of all other bytes under the server's key
//	24-    the kernel's file handle (name_to_handle_at)
//
// Nothing in it depends on a path, a device number or the time of the server's start, so that handles survive renames,
// restarts, and file systems that come back as another device. The MAC keeps clients from making handles of their own:
// without it anyone could name any inode of an exported file system, also those outside of the exported directory.

package vfs

import (
	"encoding/binary"

	"github.com/dchest/siphash"

	"sluice/pkg/filecache"
)

const (
	handleVersion  = 1
	handleHeader   = 24
	maxHandle      = 64 // NFS3_FHSIZE
	maxKernelBytes = maxHandle - handleHeader

	// The kernel's handle_type has its own flags (Linux 6.13) above the file system's type.
	typeFlags = 0x30000 // FILEID_IS_CONNECTABLE, FILEID_IS_DIR
	flagShift = 16
)

// Handle is a file handle as it goes over the wire.
type Handle struct {
	Len uint8 // 0: no handle
	b   [maxHandle]byte
}

// Bytes returns the handle's bytes; they alias h.
func (h *Handle) Bytes() []byte { return h.b[:h.Len] }

// HandleKey is the secret that makes handles this server's own.
type HandleKey [16]byte

func (k *HandleKey) mac(b []byte) uint64 {
	return siphash.Hash(binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:]), b)
}

// encode makes the handle of a file: key's Type, Len and Bytes are the kernel's handle.
func (k *HandleKey) encode(h *Handle, export uint32, fs uint64, key *filecache.Key) {
	h.b[0] = handleVersion
	h.b[1] = byte(key.Type)
	h.b[2] = key.Len
	h.b[3] = byte(key.Type & typeFlags >> flagShift)
	binary.BigEndian.PutUint32(h.b[4:], export)
	binary.BigEndian.PutUint64(h.b[8:], fs)
	clear(h.b[16:24])
	h.Len = uint8(handleHeader + copy(h.b[handleHeader:], key.Bytes[:key.Len]))
	binary.BigEndian.PutUint64(h.b[16:], k.mac(h.b[:h.Len]))
}

// decode checks a handle from the wire and takes it apart; key.FS is left alone. tmp is scratch. The error is ErrBadHandle.
func (k *HandleKey) decode(tmp *Handle, fh []byte, key *filecache.Key) (export uint32, fs uint64, err error) {
	if len(fh) < handleHeader || len(fh) > maxHandle || fh[0] != handleVersion || int(fh[2]) != len(fh)-handleHeader || fh[3]&^(typeFlags>>flagShift) != 0 {
		return 0, 0, ErrBadHandle
	}
	tmp.Len = uint8(copy(tmp.b[:], fh))
	clear(tmp.b[16:24])
	if binary.BigEndian.Uint64(fh[16:]) != k.mac(tmp.b[:tmp.Len]) {
		return 0, 0, ErrBadHandle
	}
	key.Type = int32(fh[1]) | int32(fh[3])<<flagShift
	key.Len = fh[2]
	n := copy(key.Bytes[:], fh[handleHeader:])
	clear(key.Bytes[n:])
	return binary.BigEndian.Uint32(fh[4:]), binary.BigEndian.Uint64(fh[8:]), nil
}

// fileKey makes the Node.Key of a handle that this server made, of a file on device dev.
func (h *Handle) fileKey(dev uint64, key *filecache.Key) {
	key.FS, key.Type, key.Len = dev, int32(h.b[1]), h.b[2]
	n := copy(key.Bytes[:], h.b[handleHeader:h.Len])
	clear(key.Bytes[n:])
}

// keyOf makes a cache key of the kernel handle in fh; false if it does not fit a Handle.
func keyOf(fh *kernelHandle, fs uint64, key *filecache.Key) bool {
	if fh.n > maxKernelBytes || fh.typ&^(0xff|typeFlags) != 0 {
		return false
	}
	key.FS, key.Type, key.Len = fs, fh.typ, uint8(fh.n)
	n := copy(key.Bytes[:], fh.b[:fh.n])
	clear(key.Bytes[n:])
	return true
}

// handleOf is the reverse of keyOf.
func handleOf(key *filecache.Key, fh *kernelHandle) {
	fh.n, fh.typ = uint32(key.Len), key.Type
	copy(fh.b[:], key.Bytes[:key.Len])
}

// sameFile tells whether two keys of one mount are the same file's, whatever they say of its parent.
func sameFile(a, b *filecache.Key) bool {
	return a.Len == b.Len && (a.Type^b.Type)&^typeFlags == 0 && a.Bytes == b.Bytes
}
