package load

import (
	"testing"

	"sluice/test/measure"
)

// What the client itself computes shows in the whole machine's time, and not in
// the time of no process.
func TestServerCPU(t *testing.T) {
	before, err := serverCPU(WholeMachine)
	if err != nil {
		t.Fatal(err)
	}
	for own := measure.OwnCPU(); measure.OwnCPU().Sub(own).Total() < .1; {
	}
	if after, err := serverCPU(WholeMachine); err != nil || after-before < .05 {
		t.Errorf("the machine was busy for %.2f s, %v", after-before, err)
	}
	if none, err := serverCPU(0); none != 0 || err != nil {
		t.Errorf("no process: %g, %v", none, err)
	}
}
