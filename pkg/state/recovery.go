// DirRecovery: client records as files of one directory, one a client, so that a record comes and goes with one rename or
// unlink, each made durable before the client hears of it.
//
// A file holds magic, version, epoch, minor version, time, owner and a checksum; a torn or foreign one is set aside, not
// trusted: its client can't reclaim, which is safe. An epoch is one life of the server. Records of earlier epochs stay
// until grace is done, also through a crash within grace. The lock file keeps a second server out.

package state

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// DirRecovery implements Recovery on a directory of its own.
type DirRecovery struct {
	dir   string
	lock  *os.File
	fd    *os.File // the directory
	epoch uint32
	log   func(format string, args ...any)
}

const (
	recordMagic   = "sluiceCR"
	epochMagic    = "sluiceEP"
	recordVersion = 1
	recordSuffix  = ".client"
	keptBoots     = 16
	maxRecordFile = 64 + MaxOwner
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var (
	errTorn  = errors.New("torn or foreign")
	errNewer = errors.New("written by a newer version")
)

// OpenDir opens a directory of client records, making it if need be, and locks it. log is told of files that are set
// aside; nil is allowed.
func OpenDir(dir string, log func(format string, args ...any)) (*DirRecovery, error) {
	if log == nil {
		log = func(string, ...any) {}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		lock.Close()
		if err == unix.EWOULDBLOCK {
			return nil, fmt.Errorf("%s is in use by another server; stop it, or give this one another state directory (--state)", dir)
		}
		return nil, fmt.Errorf("%s: %w", lock.Name(), err)
	}
	fd, err := os.Open(dir)
	if err != nil {
		lock.Close()
		return nil, err
	}
	return &DirRecovery{dir: dir, lock: lock, fd: fd, log: log}, nil
}

// Close lets the directory go.
func (d *DirRecovery) Close() error { return errors.Join(d.fd.Close(), d.lock.Close()) }

// Load implements Recovery.
func (d *DirRecovery) Load() (recs []RecoveryRecord, boot uint32, err error) {
	epoch, boots, err := d.readEpoch()
	if err != nil {
		return nil, 0, err
	}
	names, err := d.list()
	if err != nil {
		return nil, 0, err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "tmp-") { // of a write that a crash cut short
			os.Remove(filepath.Join(d.dir, name))
		}
		if !strings.HasSuffix(name, recordSuffix) {
			continue
		}
		r, e, err := d.read(name)
		switch {
		case err == errTorn || err == nil && fileName(r.Owner) != name:
			d.log("%s is damaged and set aside: its client can't reclaim", filepath.Join(d.dir, name))
			if err := os.Rename(filepath.Join(d.dir, name), filepath.Join(d.dir, name+".damaged")); err != nil {
				return nil, 0, err
			}
			continue
		case err != nil:
			return nil, 0, fmt.Errorf("%s: %w", filepath.Join(d.dir, name), err)
		}
		epoch = max(epoch, e)
		recs = append(recs, r)
	}
	d.epoch = epoch + 1
	for boot == 0 {
		boot = randomBoot()
		for _, b := range boots {
			if b == boot {
				boot = 0
			}
		}
	}
	boots = append(boots, boot)
	if err := d.writeEpoch(boots[max(0, len(boots)-keptBoots):]); err != nil {
		return nil, 0, err
	}
	return recs, boot, nil
}

func (d *DirRecovery) list() ([]string, error) {
	if _, err := d.fd.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return d.fd.Readdirnames(-1)
}

func fileName(owner []byte) string {
	h := sha256.Sum256(owner)
	return hex.EncodeToString(h[:16]) + recordSuffix
}

// asServer runs f on a thread that has the server's own credentials: one that serves calls has those of a caller, who may
// not write here.
func asServer(f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	return <-done
}

// Record implements Recovery.
func (d *DirRecovery) Record(r RecoveryRecord) error {
	b := []byte(recordMagic)
	b = binary.BigEndian.AppendUint32(b, recordVersion)
	b = binary.BigEndian.AppendUint32(b, d.epoch)
	b = binary.BigEndian.AppendUint64(b, uint64(time.Now().Unix())) // for who looks at the file
	b = append(b, r.Minor)
	b = binary.BigEndian.AppendUint32(b, uint32(len(r.Owner)))
	b = append(b, r.Owner...)
	return asServer(func() error { return d.write(fileName(r.Owner), b) })
}

func (d *DirRecovery) read(name string) (r RecoveryRecord, epoch uint32, err error) {
	b, err := d.readChecked(name, recordMagic)
	if err != nil {
		return r, 0, err
	}
	if len(b) < 17 {
		return r, 0, errTorn
	}
	epoch = binary.BigEndian.Uint32(b)
	r.Minor = b[12]
	if n := binary.BigEndian.Uint32(b[13:]); n > MaxOwner || int(n) != len(b)-17 {
		return r, 0, errTorn
	}
	r.Owner = b[17:]
	return r, epoch, nil
}

// Remove implements Recovery.
func (d *DirRecovery) Remove(owners [][]byte) error {
	return asServer(func() error { return d.remove(owners) })
}

func (d *DirRecovery) remove(owners [][]byte) error {
	for _, o := range owners {
		if err := os.Remove(filepath.Join(d.dir, fileName(o))); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return d.fd.Sync()
}

// GraceDone implements Recovery.
func (d *DirRecovery) GraceDone() error { return asServer(d.graceDone) }

func (d *DirRecovery) graceDone() error {
	names, err := d.list()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasSuffix(name, recordSuffix) {
			continue
		}
		if _, e, err := d.read(name); err == nil && e >= d.epoch {
			continue
		}
		if err := os.Remove(filepath.Join(d.dir, name)); err != nil {
			return err
		}
	}
	return d.fd.Sync()
}

// readEpoch gives the last epoch and the boot ids of the last few starts. Without the file, or with a damaged one, the
// records' own epochs count, and chance keeps boot ids apart.
func (d *DirRecovery) readEpoch() (epoch uint32, boots []uint32, err error) {
	b, err := d.readChecked("epoch", epochMagic)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return 0, nil, nil
	case err == errTorn || err == nil && len(b)%4 != 0 || err == nil && len(b) < 4:
		d.log("%s is damaged; starting from the client records", filepath.Join(d.dir, "epoch"))
		return 0, nil, nil
	case err != nil:
		return 0, nil, fmt.Errorf("%s: %w", filepath.Join(d.dir, "epoch"), err)
	}
	epoch = binary.BigEndian.Uint32(b)
	for b = b[4:]; len(b) > 0; b = b[4:] {
		boots = append(boots, binary.BigEndian.Uint32(b))
	}
	return epoch, boots, nil
}

func (d *DirRecovery) writeEpoch(boots []uint32) error {
	b := []byte(epochMagic)
	b = binary.BigEndian.AppendUint32(b, recordVersion)
	b = binary.BigEndian.AppendUint32(b, d.epoch)
	for _, n := range boots {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return d.write("epoch", b)
}

// readChecked gives what follows magic and version, without the checksum.
func (d *DirRecovery) readChecked(name, magic string) ([]byte, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENXIO) { // a symbolic link, a socket
		return nil, errTorn
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return nil, errTorn // what writes records makes files
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRecordFile+1))
	if err != nil {
		return nil, err
	}
	n := len(b) - 4
	if len(b) > maxRecordFile || n < len(magic)+4 || !bytes.HasPrefix(b, []byte(magic)) ||
		binary.BigEndian.Uint32(b[n:]) != crc32.Checksum(b[:n], castagnoli) {
		return nil, errTorn
	}
	if v := binary.BigEndian.Uint32(b[len(magic):]); v > recordVersion {
		return nil, fmt.Errorf("%w (format %d, this one knows %d); use that version, or another state directory", errNewer, v, recordVersion)
	}
	return b[len(magic)+4 : n], nil
}

// write puts a file with its checksum in place, durably.
func (d *DirRecovery) write(name string, b []byte) (err error) {
	b = binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
	f, err := os.CreateTemp(d.dir, "tmp-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = os.Rename(f.Name(), filepath.Join(d.dir, name))
	}
	if err != nil {
		return err
	}
	return d.fd.Sync()
}
