package kernel

import (
	"strings"
	"testing"

	"sluice/test/kernel/guestapi"
)

// TestGuest shows what a test sees of commands that fail and of a guest that
// dies under one.
func TestGuest(t *testing.T) {
	t.Parallel()
	g := Boot(t)
	for _, c := range []struct {
		name, command, out, err string
	}{
		{"success", "echo fine", "fine\n", ""},
		{"status", "echo so far; exit 3", "so far\n", "exit status 3: so far"},
		{"signal", "kill -9 $$", "", "exit status 137"},
		{"unknown command", "exec no-such-command", "", "exit status 127"},
		{"panic", "echo c > /proc/sysrq-trigger; sleep 60", "", "the guest kernel ended"},
		{"dead", "echo fine", "", "the guest kernel ended"},
	} {
		out, err := g.Exec(t, guestapi.Command{Argv: []string{"sh", "-c", c.command}})
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.err)
		}
		if c.out != "" && out != c.out {
			t.Errorf("%s: output %q, want %q", c.name, out, c.out)
		}
		if c.name == "panic" && (err == nil || !strings.Contains(err.Error(), "sysrq triggered crash")) {
			t.Errorf("the error does not show the console: %v", err)
		}
	}
}
