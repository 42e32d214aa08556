// Plan of this file: reports whose figures are changed at random to what no run
// should have. A page comes out of each of them: after hours of measuring, a
// figure that makes no sense is to be seen, not to end the program.

package report

import (
	"encoding/json"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"sluice/pkg/bench"
	"sluice/test/report/sample"
)

var (
	oddFloats = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 1, 1e-320, 1e308, -1e308, 1e99, -1e99, 1e-99, 3e9}
	oddInts   = []int64{0, 1, -1, math.MaxInt64, math.MinInt64, 1000, 1 << 20}
)

// disturb changes each value below v with probability p.
func disturb(r *rand.Rand, v reflect.Value, p float64) {
	now := func(p float64) bool { return r.Float64() < p }
	switch v.Kind() {
	case reflect.Float64:
		if now(p) {
			v.SetFloat(oddFloats[r.IntN(len(oddFloats))])
		}
	case reflect.Int, reflect.Int64:
		if now(p) {
			v.SetInt(oddInts[r.IntN(len(oddInts))])
		}
	case reflect.Uint64:
		if now(p) {
			v.SetUint(uint64(oddInts[r.IntN(len(oddInts))]))
		}
	case reflect.String:
		if now(p / 4) {
			v.SetString("")
		}
	case reflect.Pointer:
		if v.IsNil() {
			return
		}
		if now(p / 4) {
			v.SetZero()
			return
		}
		disturb(r, v.Elem(), p)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				disturb(r, v.Field(i), p)
			}
		}
	case reflect.Slice:
		if v.Len() > 0 && now(p/8) {
			v.Set(v.Slice(0, r.IntN(v.Len())))
		}
		for i := range v.Len() {
			disturb(r, v.Index(i), p)
		}
	}
}

func TestOddFigures(t *testing.T) {
	var kinds [][]byte
	for _, r := range []*bench.Report{sample.Comparison(2, "buffered", "direct", "x"), sample.Mixed(), sample.Bare()} {
		for i := range r.Runs {
			s := &r.Runs[i].Reads
			s.Histogram = s.Histogram[:min(len(s.Histogram), 20)]
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, b)
	}
	for seed := range uint64(180) {
		r := rand.New(rand.NewPCG(seed, 9))
		report := new(bench.Report)
		if err := json.Unmarshal(kinds[seed%3], report); err != nil {
			t.Fatal(err)
		}
		disturb(r, reflect.ValueOf(report).Elem(), []float64{0.02, 0.2, 0.7}[seed/3%3])
		func() {
			defer func() {
				if why := recover(); why != nil {
					t.Errorf("seed %d: %v", seed, why)
				}
			}()
			if err := Write(io.Discard, report); err != nil {
				t.Errorf("seed %d: %v", seed, err)
			}
		}()
	}
}
