package report

import (
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"sluice/pkg/bench"
)

func TestNumbersAsPeopleReadThem(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct{ got, want string }{
		{nanoseconds(0), "0"},
		{nanoseconds(999), "999 ns"},
		{nanoseconds(1000), "1.00 µs"},
		{nanoseconds(37_400_000), "37.4 ms"},
		{nanoseconds(3_114e6), "3.11 s"},
		{nanoseconds(nan), none},
		{nanoseconds(-inf), none},
		{rate(97.9e9), "97.9 GB/s"},
		{rate(9e6), "9.00 MB/s"},
		{rate(12), "12.0 B/s"},
		{rate(1e300), "1e+288 TB/s"},
		{size(1 << 30), "1 GiB"},
		{size(3 << 29), "1.50 GiB"},
		{size(1002 << 20), "1,002 MiB"},
		{size(0), "0"},
		{size(1), "1 B"},
		{growth(5 << 20), "+5 MiB"},
		{growth(-5<<20 - 1<<19), "-5.50 MiB"},
		{growth(nan), none},
		{cpuSeconds(0.149), "0.15 s/GB"},
		{cpuSeconds(0.0049), "0.0049 s/GB"},
		{count(0), "0"},
		{count(999), "999"},
		{count(1000), "1,000"},
		{count(math.MaxUint64), "18,446,744,073,709,551,615"},
		{grouped("-1234567"), "-1,234,567"},
		{blockSize(1 << 20), "1 MiB"},
		{blockSize(47008), "47,008 B"},
		{blockSize(5 << 10), "5 KiB"},
		{blockSize(-1), "0 B"},
		{blockSize(math.MinInt), "0 B"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

func TestIntervalsAreInTheMediansUnit(t *testing.T) {
	for _, c := range []struct {
		in           bench.Interval
		median, ends string
	}{
		{bench.Interval{Median: 2e9, Low: 0.9e9, High: 2.1e9}, "2.00 GB/s", "[0.90, 2.10]"},
		{bench.Interval{Median: math.NaN(), Low: 1, High: 2}, none, ""},
		{bench.Interval{Median: 5, Low: math.Inf(-1), High: 2}, "5.00 B/s", ""},
	} {
		if m, e := interval(rates, c.in); m != c.median || e != c.ends {
			t.Errorf("%v: %q %q, want %q %q", c.in, m, e, c.median, c.ends)
		}
	}
}

func TestRatiosSayWhetherTheyShowAnything(t *testing.T) {
	for _, c := range []struct {
		in   bench.Interval
		want string
	}{
		{bench.Interval{Median: 1.4, Low: 1.2, High: 1.6}, "×1.40 [1.20, 1.60]"},
		{bench.Interval{Median: 0.5, Low: 0.4, High: 0.6}, "×0.50 [0.40, 0.60]"},
		{bench.Interval{Median: 1.05, Low: 0.98, High: 1.2}, "≈ ×1.05 [0.98, 1.20]"},
		{bench.Interval{Median: 1, Low: 1, High: 1}, "≈ ×1.00 [1.00, 1.00]"},
		{bench.Interval{Median: math.NaN(), Low: 1, High: 1}, ""},
	} {
		if got := ratioTo(&c.in, true); got != c.want {
			t.Errorf("%v: %q, want %q", c.in, got, c.want)
		}
	}
	if got := ratioTo(nil, true); got != "" {
		t.Errorf("no ratio: %q", got)
	}
	if got := ratioTo(&bench.Interval{Median: 1.4, Low: 1.4, High: 1.4}, false); got != "×1.40" {
		t.Errorf("one run: %q", got)
	}
}

func TestNamesAreMadeFit(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"buffered", 8, "buffered"},
		{"buffered", 7, "buffere…"},
		{"a\x00b\nc\x1bd", 20, "a\uFFFDb\uFFFDc\uFFFDd"},
		{"x\u202ey\u2066z", 20, "x\uFFFDy\uFFFDz"},
		{"\xff", 20, "\uFFFD"},
		{"größe ☃", 20, "größe ☃"},
		{"", 20, ""},
	} {
		if got := shown(c.in, c.n); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
	if got := shown(strings.Repeat("é", 5000), nameMax); utf8.RuneCountInString(got) != nameMax+1 {
		t.Errorf("%d runes", utf8.RuneCountInString(got))
	}
}
