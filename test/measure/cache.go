package measure

import (
	"os"

	"golang.org/x/sys/unix"
)

// Evict drops a file's clean pages from the page cache. Pages that were spliced
// to a socket stay for as long as the kernel keeps the packets.
func Evict(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// Cached returns how many bytes of a file are in the page cache.
func Cached(path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	var cs unix.Cachestat_t
	if err := unix.Cachestat(uint(f.Fd()), new(unix.CachestatRange), &cs, 0); err != nil {
		return 0, err
	}
	return int64(cs.Cache) * int64(os.Getpagesize()), nil
}
