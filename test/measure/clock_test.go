package measure

import (
	"math"
	"os"
	"testing"
)

// TestProcessTime: it agrees with what the kernel tells this process of itself.
func TestProcessTime(t *testing.T) {
	var sum float64
	for start := OwnCPU(); OwnCPU().Sub(start).Total() < .05; {
		for i := range 1 << 16 {
			sum += float64(i)
		}
	}
	before := OwnCPU().Total()
	at, err := ProcessTime(os.Getpid())
	after := OwnCPU().Total()
	if err != nil || at < before-.005 || at > after+.005 {
		t.Errorf("%g s between %g and %g; %v (%g)", at, before, after, err, math.Abs(sum))
	}
	if _, err := ProcessTime(1 << 27); err == nil {
		t.Error("a process that isn't there has used time")
	}
}
