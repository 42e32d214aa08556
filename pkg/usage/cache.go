// Taking a file out of the page cache.

package usage

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// DropCache writes a file's pages back and drops them from the page cache, but
// for those that somebody has mapped. It takes the right to read the file.
func DropCache(name string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return err
	}
	if err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED); err != nil {
		return fmt.Errorf("fadvise %s: %w", name, err)
	}
	return nil
}
