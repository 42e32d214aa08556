package measure

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSystem(t *testing.T) {
	s, err := parseSystem("cpu  100 10 50 1000 200 4 6 30 0 0")
	if err != nil || s != (System{Busy: 1.7, Idle: 12, Steal: .3}) {
		t.Errorf("%+v, %v", s, err)
	}
	for _, bad := range []string{"", "cpu 1 2 3", "cpu0 1 2 3 4 5 6 7 8", "cpu a 2 3 4 5 6 7 8"} {
		if _, err := parseSystem(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

func TestDisk(t *testing.T) {
	r, w, err := parseDisk("d", "   5 0 16 9   7 1 24 8   0 1 2\n")
	if r != 16*512 || w != 24*512 || err != nil {
		t.Errorf("%d, %d, %v", r, w, err)
	}
	for _, bad := range []string{"", "1 2 3", "5 0 x 9 7 1 24 8"} {
		if _, _, err := parseDisk("d", bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// What this process computes shows in each of the three readings.
func TestOwnTimeShows(t *testing.T) {
	before, err := SystemCPU()
	if err != nil {
		t.Fatal(err)
	}
	var sum float64
	for own := OwnCPU(); OwnCPU().Sub(own).Total() < .05; {
		for i := range 1 << 16 {
			sum += float64(i)
		}
	}
	after, err := SystemCPU()
	if err != nil || after.Busy <= before.Busy {
		t.Errorf("all processors were busy for %g s, then for %g s; %v (%g)", before.Busy, after.Busy, err, sum)
	}
	if c, err := ProcessCPU(os.Getpid()); err != nil || c.Total() < .03 {
		t.Errorf("this process: %+v, %v", c, err)
	}
	if _, err := ProcessCPU(1 << 30); err == nil {
		t.Error("a process that isn't there has used time")
	}
}

func TestMissingPackages(t *testing.T) {
	here := filepath.Join(t.TempDir(), "proof")
	if err := os.WriteFile(here, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	list := "# comment\nshell sh for scripts\nfile " + here + " x\nnone /nonexistent x\nnocmd no-such-command-here x\n\n"
	if got := MissingPackages(list); !slices.Equal(got, []string{"none", "nocmd"}) {
		t.Errorf("missing: %v", got)
	}
}

func TestCgroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("making cgroups takes root")
	}
	name := "sluice-measure-test"
	if err := RemoveCgroup(name); err != nil {
		t.Fatal(err)
	}
	c, err := NewCgroup(name, 32<<20)
	if err != nil {
		t.Skip(err)
	}
	defer c.Remove()
	if n, err := c.PageCache(); n != 0 || err != nil {
		t.Errorf("page cache of an empty group: %d, %v", n, err)
	}
	if got := Cgroups("sluice-measure-"); !slices.Contains(got, name) {
		t.Errorf("%s is not listed: %v", name, got)
	}
	argv := c.Command([]string{"cat", "/proc/self/cgroup"})
	if in := Output(argv[0], argv[1:]...); in == "unknown" {
		t.Error("no command runs in it")
	}
	if err := c.Remove(); err != nil {
		t.Error(err)
	}
	if got := Cgroups(name); len(got) != 0 {
		t.Errorf("left: %s", strings.Join(got, " "))
	}
}
