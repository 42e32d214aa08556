// What a WRITE costs in each mode.

package dataio

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"sluice/pkg/filecache"
)

// BenchmarkWrite overwrites a file of 64 MiB from end to end, in WRITEs whose
// payload landed or has to be copied, with a COMMIT after each pass.
func BenchmarkWrite(b *testing.B) {
	const size = 64 << 20
	path := filepath.Join(b.TempDir(), "f")
	if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
		b.Fatal(err)
	}
	for _, n := range []int{1 << 20, 47_008, 4096} {
		for _, way := range []string{"buffered", "dontcache", "landed", "copied"} {
			b.Run(fmt.Sprintf("%d/%s", n, way), func(b *testing.B) {
				cache := filecache.New(filecache.Config{Budget: 100})
				e, err := New(Config{Cache: cache})
				if err != nil {
					b.Fatal(err)
				}
				defer e.Close()
				defer cache.Close()
				fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
				if err != nil {
					b.Fatal(err)
				}
				f := cache.Insert(&filecache.Key{FS: 1}, fd, unix.S_IFREG)
				defer f.Release()
				th := e.NewThread()
				mode := map[string]Mode{"buffered": Buffered, "dontcache": DontCache}[way]
				mode = max(mode, Direct*Mode(b2i(way == "landed" || way == "copied")))
				mem := landed(0, noise(1, n+2*pageSize))
				q := WriteReq{File: f, Mode: mode}
				b.SetBytes(int64(n))
				cpu := cpuTime()
				b.ReportAllocs()
				for b.Loop() {
					if q.Offset+uint64(n) > size {
						if _, err := e.Commit(th, f, 0, 0); err != nil {
							b.Fatal(err)
						}
						q.Offset = 0
					}
					skew := int(q.Offset) & (pageSize - 1)
					if way == "copied" {
						skew++
					}
					q.Data = mem[skew : skew+n]
					if m, _, _, err := e.Write(th, &q); m != n || err != nil {
						b.Fatal(m, err)
					}
					q.Offset += uint64(n)
				}
				b.ReportMetric(float64(cpuTime()-cpu)/float64(b.N), "cpu-us/op")
				if st := e.Stats(); mode == Direct && (st.Write["direct"].Calls == 0 || way == "landed" && st.WriteCopied > 0 || way == "copied" && st.WriteLanded > 0) {
					b.Errorf("%d landed, %d copied", st.WriteLanded, st.WriteCopied)
				}
			})
		}
	}
}
