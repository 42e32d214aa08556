// Plan of this file: what NFSv4.2 carries and local file systems have: space
// allocated and given back, holes that can be found, ranges copied and cloned
// where the data lie, extended attributes, and a umask that a directory's
// default ACL overrides. As no NFS client can set such an ACL, the check has a
// phase before the others, prepare, for the server's side.

package fscheck

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Sizes and places in the files of v42. The hole begins and ends in the middle
// of blocks, of which those parts stay data; a copy of more than two of a mount's
// largest READs is one that a Linux client lets the server do in the background.
const (
	wholeSize             = 3<<20 + 1237
	wholeSeed, punchSeed  = 42, 43
	holeStart, holeLength = 65536 + 100, 512 << 10
	blockSize             = 4096 // of the file systems that are tested
	allocStart, allocEnd  = 1 << 20, 2 << 20
	cloneStart, cloneLen  = 1 << 20, 64 << 10
	cloneAt, cloneWriteAt = 3 * 64 << 10, 70000
)

// copies are the ranges that are copied: from, to, length.
var copies = [][3]int64{{4097, 11, 100_000}, {500_001, 200_003, 5 << 19}}

func v42(r *run) error {
	if r.text("phase", "") == "prepare" {
		return r.prepare42()
	}
	if r.phase("write") {
		for _, fn := range []func() error{r.punch, r.allocate, r.copyRanges, r.clone, r.setAttributes, r.underUmask} {
			if err := fn(); err != nil {
				return err
			}
		}
	}
	if !r.phase("verify") {
		return nil
	}
	for _, fn := range []func() error{r.verifyPunched, r.verifyAllocated, r.verifyCopies, r.verifyAttributes, r.verifyModes} {
		if err := fn(); err != nil {
			return err
		}
	}
	r.logf("v42")
	return nil
}

func (r *run) path42(name string) string { return r.path("v42", name) }

// prepare42 makes the directories, one with a default ACL of rwx for owner and
// group and r-x for others.
func (r *run) prepare42() error {
	if _, err := r.emptyDir("v42"); err != nil {
		return err
	}
	acl := binary.LittleEndian.AppendUint32(nil, 2) // the version of the format, linux/posix_acl_xattr.h
	for _, e := range [][2]uint16{{0x01, 7}, {0x04, 7}, {0x20, 5}} {
		acl = binary.LittleEndian.AppendUint16(acl, e[0])
		acl = binary.LittleEndian.AppendUint16(acl, e[1])
		acl = binary.LittleEndian.AppendUint32(acl, 1<<32-1)
	}
	return errors.Join(
		os.Mkdir(r.path42("plain"), 0o755),
		os.Mkdir(r.path42("inherit"), 0o755),
		unix.Setxattr(r.path42("inherit"), "system.posix_acl_default", acl, 0),
	)
}

// write42 makes a file full of its seed's pattern.
func (r *run) write42(name string, seed uint64) (*os.File, error) {
	f, err := os.Create(r.path42(name))
	if err != nil {
		return nil, err
	}
	if _, err := f.Write(whole(seed)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// read42 compares a whole file with what it should be.
func (r *run) read42(name string, want []byte) error {
	got, err := os.ReadFile(r.path42(name))
	if err != nil {
		return err
	}
	return differ(name, got, want, 0)
}

// whole is the content of a file that write42 made.
func whole(seed uint64) []byte {
	b := make([]byte, wholeSize)
	pattern(b, seed, 0)
	return b
}

// punch cuts a hole, and asks at once where it is.
func (r *run) punch() error {
	f, err := r.write42("punched", punchSeed)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, holeStart, holeLength); err != nil {
		return fmt.Errorf("punch a hole: %w", err)
	}
	return errors.Join(f.Sync(), verifyHole(f))
}

// verifyHole looks for the file's data and holes, and past its end.
func verifyHole(f *os.File) error {
	const first = (holeStart + blockSize - 1) / blockSize * blockSize
	const last = (holeStart + holeLength) / blockSize * blockSize
	for _, c := range []struct {
		name   string
		whence int
		at     int64
		want   int64
		err    error
	}{
		{"data at the start", unix.SEEK_DATA, 0, 0, nil},
		{"the hole", unix.SEEK_HOLE, 0, first, nil},
		{"the hole from within", unix.SEEK_HOLE, first + 5, first + 5, nil},
		{"data behind the hole", unix.SEEK_DATA, first + 1, last, nil},
		{"the hole at the end", unix.SEEK_HOLE, last, wholeSize, nil},
		{"data past the end", unix.SEEK_DATA, wholeSize, 0, unix.ENXIO},
		{"a hole past the end", unix.SEEK_HOLE, wholeSize + 1, 0, unix.ENXIO},
	} {
		got, err := unix.Seek(int(f.Fd()), c.at, c.whence)
		if err != c.err || err == nil && got != c.want {
			return fmt.Errorf("%s: looked for %s from %d: %d, %v; want %d, %v", f.Name(), c.name, c.at, got, err, c.want, c.err)
		}
	}
	return nil
}

func (r *run) verifyPunched() error {
	f, err := os.Open(r.path42("punched"))
	if err != nil {
		return err
	}
	defer f.Close()
	want := whole(punchSeed)
	clear(want[holeStart : holeStart+holeLength])
	if err := r.read42("punched", want); err != nil {
		return err
	}
	return verifyHole(f)
}

// allocate has space behind a file's end set aside, which makes it longer.
func (r *run) allocate() error {
	return r.create(r.path42("allocated"), func(f *os.File) error {
		if _, err := f.WriteString("head"); err != nil {
			return err
		}
		if err := unix.Fallocate(int(f.Fd()), 0, allocStart, allocEnd-allocStart); err != nil {
			return fmt.Errorf("allocate: %w", err)
		}
		return nil
	})
}

func (r *run) verifyAllocated() error {
	var st unix.Stat_t
	if err := unix.Stat(r.path42("allocated"), &st); err != nil {
		return err
	}
	if st.Size != allocEnd || st.Blocks*512 < allocEnd-allocStart {
		return fmt.Errorf("allocated: size %d, space %d; want %d and at least %d", st.Size, st.Blocks*512, allocEnd, allocEnd-allocStart)
	}
	want := make([]byte, allocEnd)
	copy(want, "head")
	return r.read42("allocated", want)
}

// copyRanges copies from one file to another without reading.
func (r *run) copyRanges() error {
	src, err := r.write42("whole", wholeSeed)
	if err != nil {
		return err
	}
	defer src.Close()
	return r.create(r.path42("copied"), func(dst *os.File) error {
		for _, c := range copies {
			from, to, left := c[0], c[1], c[2]
			for left > 0 {
				n, err := unix.CopyFileRange(int(src.Fd()), &from, int(dst.Fd()), &to, int(left), 0)
				if err != nil || n == 0 {
					return fmt.Errorf("copy %d from %d to %d: %d, %v", left, from, to, n, err)
				}
				left -= int64(n)
			}
		}
		return nil
	})
}

// clone makes a file, and a range of another, that share what the first has
// until one is written to; where there is no such thing (clone=0), that is said.
func (r *run) clone() error {
	src, err := os.Open(r.path42("whole"))
	if err != nil {
		return err
	}
	defer src.Close()
	return errors.Join(
		r.create(r.path42("cloned"), func(f *os.File) error {
			if err := r.cloned(unix.IoctlFileClone(int(f.Fd()), int(src.Fd()))); err != nil || !r.flag("clone") {
				return err
			}
			_, err := f.WriteAt([]byte("clone"), cloneWriteAt)
			return err
		}),
		r.create(r.path42("range"), func(f *os.File) error {
			return r.cloned(unix.IoctlFileCloneRange(int(f.Fd()), &unix.FileCloneRange{
				Src_fd: int64(src.Fd()), Src_offset: cloneStart, Src_length: cloneLen, Dest_offset: cloneAt}))
		}),
	)
}

func (r *run) cloned(err error) error {
	switch {
	case r.flag("clone"):
		return err
	case errors.Is(err, unix.EOPNOTSUPP):
		return nil
	}
	return fmt.Errorf("clone: %v, want EOPNOTSUPP", err)
}

func (r *run) verifyCopies() error {
	src := whole(wholeSeed)
	var copied []byte
	for _, c := range copies {
		if end := c[1] + c[2]; end > int64(len(copied)) {
			copied = append(copied, make([]byte, end-int64(len(copied)))...)
		}
		copy(copied[c[1]:], src[c[0]:c[0]+c[2]])
	}
	if err := errors.Join(r.read42("whole", src), r.read42("copied", copied)); err != nil || !r.flag("clone") {
		return err
	}
	part := append(make([]byte, cloneAt), src[cloneStart:cloneStart+cloneLen]...)
	copy(src[cloneWriteAt:], "clone")
	return errors.Join(r.read42("cloned", src), r.read42("range", part))
}

// attributes42 are the extended attributes that stay.
func attributes42() map[string]string {
	var all []byte
	for i := range 256 {
		all = append(all, byte(i))
	}
	return map[string]string{"user.empty": "", "user.text": "second", "user.binary": strings.Repeat(string(all), 7)}
}

var withAttributes = []string{"attributes", "plain"} // a file and a directory

// setAttributes sets, replaces and removes attributes, and asks for more than is
// there.
func (r *run) setAttributes() error {
	if err := os.WriteFile(r.path42(withAttributes[0]), nil, 0o644); err != nil {
		return err
	}
	for _, name := range withAttributes {
		path := r.path42(name)
		for _, c := range []struct {
			about     string
			got, want error
		}{
			{"replace what is not there", unix.Setxattr(path, "user.text", []byte("x"), unix.XATTR_REPLACE), unix.ENODATA},
			{"create", unix.Setxattr(path, "user.text", []byte("the first"), unix.XATTR_CREATE), nil},
			{"create twice", unix.Setxattr(path, "user.text", []byte("x"), unix.XATTR_CREATE), unix.EEXIST},
			{"replace", unix.Setxattr(path, "user.text", []byte("second"), unix.XATTR_REPLACE), nil},
			{"no value", unix.Setxattr(path, "user.empty", nil, 0), nil},
			{"binary", unix.Setxattr(path, "user.binary", []byte(attributes42()["user.binary"]), 0), nil},
			{"one that goes", unix.Setxattr(path, "user.gone", []byte("x"), 0), nil},
			{"remove", unix.Removexattr(path, "user.gone"), nil},
			{"remove twice", unix.Removexattr(path, "user.gone"), unix.ENODATA},
			{"get what is not there", getAttribute(path, "user.gone", 10), unix.ENODATA},
			{"get into too little", getAttribute(path, "user.binary", 10), unix.ERANGE},
		} {
			if c.got != c.want {
				return fmt.Errorf("extended attributes of %s: %s: %v, want %v", path, c.about, c.got, c.want)
			}
		}
	}
	return nil
}

func getAttribute(path, name string, size int) error {
	_, err := unix.Getxattr(path, name, make([]byte, size))
	return err
}

func (r *run) verifyAttributes() error {
	want := attributes42()
	for _, name := range withAttributes {
		path, list := r.path42(name), make([]byte, 64<<10)
		n, err := unix.Listxattr(path, list)
		if err != nil {
			return fmt.Errorf("list the extended attributes of %s: %w", path, err)
		}
		var names []string
		for _, b := range bytes.Split(list[:n], []byte{0}) {
			if bytes.HasPrefix(b, []byte("user.")) {
				names = append(names, string(b))
			}
		}
		slices.Sort(names)
		if got := strings.Join(names, " "); got != "user.binary user.empty user.text" {
			return fmt.Errorf("extended attributes of %s: %q", path, got)
		}
		for _, attr := range names {
			value := make([]byte, 64<<10)
			n, err := unix.Getxattr(path, attr, value)
			if err != nil {
				return fmt.Errorf("%s of %s: %w", attr, path, err)
			}
			if err := differ(attr+" of "+path, value[:n], []byte(want[attr]), 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// modes42 is what a umask of 077 makes of 0666 and 0777, and what a default ACL
// makes of them in its place.
var modes42 = map[string]os.FileMode{
	"plain/file": 0o600, "plain/dir": os.ModeDir | 0o700, "inherit/file": 0o664, "inherit/dir": os.ModeDir | 0o775,
}

// underUmask makes a file and a directory in either directory.
func (r *run) underUmask() error {
	defer unix.Umask(unix.Umask(0o077))
	for _, dir := range []string{"plain", "inherit"} {
		f, err := os.OpenFile(filepath.Join(r.path42(dir), "file"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
		if err == nil {
			err = f.Close()
		}
		if err := errors.Join(err, os.Mkdir(filepath.Join(r.path42(dir), "dir"), 0o777)); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) verifyModes() error {
	for name, want := range modes42 {
		st, err := os.Lstat(r.path42(name))
		if err != nil {
			return err
		}
		if st.Mode() != want {
			return fmt.Errorf("%s has mode %v, want %v", name, st.Mode(), want)
		}
	}
	return nil
}
