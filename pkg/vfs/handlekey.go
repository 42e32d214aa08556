// The handle key's file in the state directory. Losing it makes every handle that clients hold stale, so it is written
// once, completely, and synced before it is used; a file that is not whole is reported and never replaced silently.

package vfs

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const keyFile = "handle.key"

// LoadHandleKey reads the handle key from the state directory dir, making it on first use. The directory is made if it is
// missing.
func LoadHandleKey(dir string) (HandleKey, error) {
	path := filepath.Join(dir, keyFile)
	k, err := readHandleKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return k, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return k, fmt.Errorf("state directory: %w; choose another with --state", err)
	}
	if _, err := rand.Read(k[:]); err != nil {
		return k, err
	}
	if err := writeHandleKey(path, k); err != nil {
		if errors.Is(err, fs.ErrExist) { // another server was faster
			return readHandleKey(path)
		}
		return k, fmt.Errorf("handle key: %w; choose another directory with --state", err)
	}
	return k, nil
}

// keyLine is the file's only line: a sum behind the key tells a torn file.
func keyLine(k HandleKey) string {
	sum := sha256.Sum256(k[:])
	return fmt.Sprintf("sluice-handle-key 1 %x %x\n", k[:], sum[:8])
}

func readHandleKey(path string) (k HandleKey, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // never wait for the other end of a FIFO
	if err != nil {
		return k, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return k, err
	}
	if !st.Mode().IsRegular() {
		return k, fmt.Errorf("%s is no regular file: remove it for a new key, or name another directory with --state", path)
	}
	if uid := st.Sys().(*syscall.Stat_t).Uid; uid != 0 && int(uid) != os.Geteuid() {
		return k, fmt.Errorf("%s belongs to uid %d, who knows the key and could make file handles: chown it to the server's user if you trust it, or remove it for a new one (clients then have to mount again)", path, uid)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return k, fmt.Errorf("%s can be read by others (mode %04o), who could then make file handles: chmod 600 it, or remove it for a new one (clients then have to mount again)", path, st.Mode().Perm())
	}
	b := make([]byte, 256)
	n, _ := f.Read(b)
	text := string(b[:n])
	if w := strings.Fields(text); len(w) == 4 {
		if raw, err := hex.DecodeString(w[2]); err == nil && len(raw) == len(k) {
			copy(k[:], raw)
		}
	}
	if text != keyLine(k) {
		return HandleKey{}, fmt.Errorf("%s is damaged: restore it from a backup, or remove it for a new one (clients then have to mount again)", path)
	}
	return k, nil
}

// writeHandleKey makes the file under another name, syncs it and links it into place, so that whoever sees it sees all of
// it and two servers agree on one key.
func writeHandleKey(path string, k HandleKey) error {
	f, err := os.CreateTemp(filepath.Dir(path), keyFile+".new-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	if _, err = f.WriteString(keyLine(k)); err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
