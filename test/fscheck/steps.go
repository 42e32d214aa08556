// Plan of this file: a list of system calls with the outcome each must have,
// run as whoever runs the process. A step is one line, "VERB ARG... [= WANT]";
// WANT is "ok" (the default) or errno names joined by "|". Paths are relative
// to the check's directory.

package fscheck

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A verb is one kind of step, with the number of its arguments.
type verb struct {
	args int
	fn   func(a []string) error
}

var verbs = map[string]verb{
	"read":     {1, func(a []string) error { _, err := os.ReadFile(a[0]); return err }},
	"holds":    {2, holds},
	"list":     {1, func(a []string) error { _, err := os.ReadDir(a[0]); return err }},
	"stat":     {1, func(a []string) error { _, err := os.Lstat(a[0]); return err }},
	"owner":    {2, owner},
	"mode":     {2, mode},
	"readlink": {1, func(a []string) error { _, err := os.Readlink(a[0]); return err }},
	"write":    {2, func(a []string) error { return writeTo(a[0], os.O_WRONLY, 0, a[1]) }},
	"create":   {2, func(a []string) error { return writeTo(a[1], os.O_CREATE|os.O_EXCL|os.O_WRONLY, octal(a[0]), "new") }},
	"mkdir":    {2, func(a []string) error { return unix.Mkdir(a[1], octal(a[0])) }},
	"rmdir":    {1, func(a []string) error { return unix.Rmdir(a[0]) }},
	"unlink":   {1, func(a []string) error { return unix.Unlink(a[0]) }},
	"rename":   {2, func(a []string) error { return unix.Rename(a[0], a[1]) }},
	"link":     {2, func(a []string) error { return unix.Link(a[0], a[1]) }},
	"symlink":  {2, func(a []string) error { return unix.Symlink(a[0], a[1]) }},
	"mkfifo":   {1, func(a []string) error { return unix.Mkfifo(a[0], 0o600) }},
	"mknod":    {1, func(a []string) error { return unix.Mknod(a[0], unix.S_IFCHR|0o600, int(unix.Mkdev(1, 3))) }},
	"chmod":    {2, func(a []string) error { return unix.Chmod(a[1], octal(a[0])) }},
	"chown":    {2, chown},
	"truncate": {2, func(a []string) error { return unix.Truncate(a[1], int64(number(a[0]))) }},
	"utimes":   {1, func(a []string) error { return os.Chtimes(a[0], time.Unix(5, 5), time.Unix(6, 6)) }},
	"touch": {1, func(a []string) error {
		return unix.UtimesNano(a[0], []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}})
	}},
	"exec": {1, func(a []string) error { return exec.Command("./" + a[0]).Run() }},
}

func steps(r *run) error {
	if err := os.Chdir(r.dir); err != nil {
		return err
	}
	defer unix.Umask(unix.Umask(0))
	count := 0
	for line := range strings.Lines(r.text("steps", "")) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if err := step(line); err != nil {
			return fmt.Errorf("as uid %d: %w", os.Geteuid(), err)
		}
		count++
	}
	if count == 0 {
		return errors.New("steps= is empty")
	}
	r.logf("steps %d as uid %d", count, os.Geteuid())
	return nil
}

func step(line string) error {
	call, want, _ := strings.Cut(line, " = ")
	words := strings.Fields(call)
	v, ok := verbs[words[0]]
	if !ok || len(words)-1 != v.args {
		return fmt.Errorf("%q is not a step", line)
	}
	got := outcome(v.fn(words[1:]))
	if want = strings.TrimSpace(want); want == "" {
		want = "ok"
	}
	if !slices.Contains(strings.Split(want, "|"), got) {
		return fmt.Errorf("%s: %s, want %s", call, got, want)
	}
	return nil
}

// outcome is "ok", an errno's name, or the text of any other error.
func outcome(err error) string {
	var errno unix.Errno
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

func writeTo(name string, flags int, perm uint32, text string) error {
	f, err := os.OpenFile(name, flags, os.FileMode(perm))
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func holds(a []string) error {
	b, err := os.ReadFile(a[0])
	if err == nil && !bytes.Equal(b, []byte(a[1])) {
		err = fmt.Errorf("holds %q", b)
	}
	return err
}

func owner(a []string) error {
	var st unix.Stat_t
	err := unix.Lstat(a[0], &st)
	if got := fmt.Sprintf("%d:%d", st.Uid, st.Gid); err == nil && got != a[1] {
		err = fmt.Errorf("owner is %s", got)
	}
	return err
}

func mode(a []string) error {
	var st unix.Stat_t
	err := unix.Lstat(a[0], &st)
	if got := st.Mode & 0o7777; err == nil && got != octal(a[1]) {
		err = fmt.Errorf("mode is %o", got)
	}
	return err
}

func chown(a []string) error {
	uid, gid, _ := strings.Cut(a[0], ":")
	return unix.Lchown(a[1], number(uid), number(gid))
}

// octal and number parse constants of the harness; a wrong one is its bug.
func octal(s string) uint32 {
	n, err := strconv.ParseUint(s, 8, 32)
	if err != nil {
		panic(err)
	}
	return uint32(n)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}
