// Sizes as people write them.

package bench

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// units are the suffixes of a size, longest first. A single letter is binary,
// as with dd and fio: 4k is 4096 bytes.
var units = []struct {
	suffix string
	bytes  float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40},
	{"kb", 1e3}, {"mb", 1e6}, {"gb", 1e9}, {"tb", 1e12},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40},
	{"b", 1},
}

// ParseSize reads a size in bytes: "4096", "4k", "1MiB", "1.5GB", where KB, MB,
// GB and TB are powers of 1000 and all else of 1024. It must be a whole number
// of bytes, and at least one.
func ParseSize(s string) (int64, error) {
	text := strings.ToLower(strings.TrimSpace(s))
	factor := 1.0
	for _, u := range units {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			text, factor = strings.TrimSpace(rest), u.bytes
			break
		}
	}
	v, err := parseNumber(text)
	if err != nil || v*factor < 1 || v*factor > math.MaxInt64/2 || v*factor != math.Trunc(v*factor) {
		return 0, fmt.Errorf("%q is not a size; write it as 4096, 4k, 1MiB or 1.5GB", s)
	}
	return int64(v * factor), nil
}

// ParseDataset reads a size, or a multiple of the server's memory: "3.125x". Of
// bytes and multiple one is 0.
func ParseDataset(s string) (bytes int64, multiple float64, err error) {
	if text, ok := strings.CutSuffix(strings.ToLower(strings.TrimSpace(s)), "x"); ok {
		multiple, err := parseNumber(text)
		if err != nil || multiple <= 0 || multiple > 1000 {
			return 0, 0, fmt.Errorf("%q is not a multiple of the server's memory; write it as 0.5x or 3.125x, 1000x at most", s)
		}
		return 0, multiple, nil
	}
	bytes, err = ParseSize(s)
	return bytes, 0, err
}

// parseNumber reads digits with at most one point: no sign, exponent or infinity.
func parseNumber(s string) (float64, error) {
	if s == "" || strings.Trim(s, "0123456789.") != "" {
		return 0, strconv.ErrSyntax
	}
	return strconv.ParseFloat(s, 64)
}

// SizeText writes a size with a binary unit; less than 10 MiB is not rounded:
// "1 MiB", "47008 B", "25.5 GiB".
func SizeText(n int64) string {
	names := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	v, i := float64(n), 0
	for i < len(names)-1 && (n >= 10<<20 && v >= 1024*10 || v >= 1024 && v/1024 == math.Trunc(v/1024)) {
		v, i = v/1024, i+1
	}
	text := strconv.FormatFloat(v, 'f', 1, 64)
	return strings.TrimSuffix(text, ".0") + " " + names[i]
}
