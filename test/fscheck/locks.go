// Plan of this file: advisory locks. One process takes a lock and keeps it,
// others find out whether they can have theirs, on the same mount, on another
// or on the exported directory itself.

package fscheck

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// lock asks for a lock on a file and compares the answer with want. Granted, it
// is kept until a file named by until exists, and is worth something to the
// end: what is written under it must reach the file. A file named by ready is
// made once the lock is there.
func lock(r *run) error {
	f, err := os.OpenFile(r.path(r.text("file", "locked")), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	err = r.askLock(int(f.Fd()))
	switch want := r.text("want", "granted"); {
	case err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES):
		return fmt.Errorf("a lock is answered with neither yes nor no: %w", err)
	case err != nil && want == "granted":
		return fmt.Errorf("refused: %w", err)
	case err == nil && want == "refused":
		return errors.New("granted a lock that another's is in the way of")
	}
	r.logf("lock %s", r.text("want", "granted"))
	until := r.text("until", "")
	if until == "" {
		return nil
	}
	if err := os.WriteFile(r.text("ready", until+".ready"), nil, 0o600); err != nil {
		return err
	}
	for {
		if _, err := os.Stat(until); err == nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return underLock(f)
}

// askLock asks once; with wait=1 the answer is that the lock is there.
func (r *run) askLock(fd int) error {
	for {
		if err := r.oneLock(fd); err != unix.EINTR {
			return err
		}
	}
}

func (r *run) oneLock(fd int) error {
	write, wait := r.text("type", "write") == "write", r.flag("wait")
	kind := r.text("kind", "fcntl")
	if kind == "flock" {
		how := unix.LOCK_SH
		if write {
			how = unix.LOCK_EX
		}
		if !wait {
			how |= unix.LOCK_NB
		}
		return unix.Flock(fd, how)
	}
	l := unix.Flock_t{Type: unix.F_RDLCK, Whence: io.SeekStart, Start: r.int("start", 0), Len: r.int("len", 0)}
	if write {
		l.Type = unix.F_WRLCK
	}
	commands := map[string][2]int{
		"fcntl": {unix.F_SETLK, unix.F_SETLKW},
		"ofd":   {unix.F_OFD_SETLK, unix.F_OFD_SETLKW},
	}
	command := commands[kind][0]
	if wait {
		command = commands[kind][1]
	}
	return unix.FcntlFlock(uintptr(fd), command, &l)
}

// underLock writes a line and reads it back: a client that has lost the lock
// answers with an I/O error.
func underLock(f *os.File) error {
	const text = "written under the lock\n"
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), Forget(f)); err != nil {
		return err
	}
	got := make([]byte, len(text))
	if _, err := f.ReadAt(got, 0); err != nil {
		return err
	}
	return differ(f.Name(), got, []byte(text), 0)
}
