// Plan of this file: comparing two trees, everything that a copy preserves.

package fscheck

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// compare walks the check's directory and the tree in src= and reports the
// first difference in names, kinds, modes, times, link targets or bytes.
// Directories' own times differ where a copy was made below them, and are not
// compared.
func compare(r *run) error {
	src := r.text("src", "")
	if src == "" {
		return errors.New("src= is missing")
	}
	files, total := 0, int64(0)
	err := filepath.WalkDir(src, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		n, err := compareOne(path, r.path(rel))
		files, total = files+1, total+n
		return err
	})
	if err != nil {
		return err
	}
	// What the source lacks must be missing here too.
	err = filepath.WalkDir(r.dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(r.dir, path)
		if err != nil {
			return err
		}
		if _, err := os.Lstat(filepath.Join(src, rel)); err != nil {
			return fmt.Errorf("extra name %s: %w", rel, err)
		}
		return nil
	})
	r.logf("compare %d names, %d bytes", files, total)
	return err
}

// compareOne compares one object and returns the number of bytes read.
func compareOne(want, got string) (int64, error) {
	w, err := os.Lstat(want)
	if err != nil {
		return 0, err
	}
	g, err := os.Lstat(got)
	if err != nil {
		return 0, err
	}
	if w.Mode() != g.Mode() {
		return 0, fmt.Errorf("%s: mode %v, want %v", got, g.Mode(), w.Mode())
	}
	ws, gs := w.Sys().(*syscall.Stat_t), g.Sys().(*syscall.Stat_t)
	if ws.Uid != gs.Uid || ws.Gid != gs.Gid {
		return 0, fmt.Errorf("%s: owner %d:%d, want %d:%d", got, gs.Uid, gs.Gid, ws.Uid, ws.Gid)
	}
	if w.IsDir() {
		return 0, nil
	}
	if !w.ModTime().Equal(g.ModTime()) {
		return 0, fmt.Errorf("%s: modified %v, want %v", got, g.ModTime(), w.ModTime())
	}
	switch {
	case w.Mode()&fs.ModeSymlink != 0:
		wt, err1 := os.Readlink(want)
		gt, err2 := os.Readlink(got)
		if wt != gt || err1 != nil || err2 != nil {
			return 0, fmt.Errorf("%s: links to %q, %v; want %q, %v", got, gt, err2, wt, err1)
		}
	case w.Mode().IsRegular():
		wb, err := os.ReadFile(want)
		if err != nil {
			return 0, err
		}
		gb, err := os.ReadFile(got)
		if err != nil {
			return 0, err
		}
		if !bytes.Equal(wb, gb) {
			return 0, differ(got, gb, wb, 0)
		}
		return int64(len(gb)), nil
	}
	return 0, nil
}
