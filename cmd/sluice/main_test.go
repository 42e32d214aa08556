package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"sluice/pkg/trace"
)

// command runs one command line and returns its exit status and what it printed.
func command(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	status = run(context.Background(), append([]string{"sluice"}, args...), &out, &err)
	return status, out.String(), err.String()
}

func TestUsageErrorsAreStatus2(t *testing.T) {
	for _, args := range [][]string{
		{"nonsense"},
		{"mode", "sideways", "direct"},
		{"mode", "read", "sideways"},
		{"mode", "read"},
		{"mode", "read", "direct", "--client", "host"},
		{"mode", "read", "direct", "--client", "192.0.2.0/33"},
		{"mode", "read", "direct", "--client", ""},
		{"mode", "read", "direct", "--export", ""},
		{"mode", "read", "direct", "--client", "192.0.2.1", "--export", "/srv"},
		{"mode", "--persist"},
		{"mode", "--client", "192.0.2.1"},
		{"limits", "splice-min"},
		{"limits", "splice-min", "many"},
		{"limits", "slow-threads", "never"},
		{"limits", "splice-min", "1", "2"},
		{"limits", "--persist"},
		{"choices", "nonsense"},
		{"mode", "read", "direct", "--no-such-flag"},
		{"mode", "--no-such-flag"},
		{"mode", "read", "direct", "--export"},
		{"status", "extra"},
		{"exports"},
		{"exports", "nonsense"},
		{"exports", "check"},
		{"serve", "--listen", "nonsense", "--export", "/tmp"},
		{"serve", "--read-mode", "sideways", "--export", "/tmp"},
		{"serve", "--write-mode", "sideways", "--export", "/tmp"},
		{"serve", "--rpcbind", "maybe", "--export", "/tmp"},
		{"serve", "--id-domain", " ", "--export", "/tmp"},
		{"serve", "--id-domain", "a@example.org", "--export", "/tmp"},
		{"serve", "extra"},
		{"stats", "--interval", "1ms"},
		{"stats", "--watch", "--interval", "1ms"},
		{"stats", "--interval", "2s"},
		{"trace", "--event", "never"},
		{"trace", "--event", "read_start,never"},
		{"trace", "--event", ""},
		{"trace", "--client", "host"},
		{"trace", "--count", "-1"},
	} {
		status, stdout, stderr := command(t, args...)
		if status != exitUsage {
			t.Errorf("%v: status %d, want %d (%s)", args, status, exitUsage, stderr)
		}
		if stdout != "" || !strings.HasPrefix(stderr[strings.LastIndex(strings.TrimSpace(stderr), "\n")+1:], "sluice: ") {
			t.Errorf("%v: stderr %q", args, stderr)
		}
	}
}

func TestUnknownEventNamesThoseThereAre(t *testing.T) {
	_, _, stderr := command(t, "trace", "--event", "read_start,never")
	for _, name := range trace.Names() {
		if !strings.Contains(stderr, string(name)) {
			t.Errorf("%s is not in %q", name, stderr)
		}
	}
	if !strings.Contains(stderr, `"never"`) {
		t.Errorf("the wrong one is not in %q", stderr)
	}
}

func TestExportsCheck(t *testing.T) {
	good := filepath.Join(t.TempDir(), "good")
	bad := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(good, []byte("/srv 10.0.0.0/8(rw)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(bad, []byte("/srv 10.0.0.0/8(rw)\n/opt *(rx)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if status, out, _ := command(t, "exports", "check", good); status != 0 || !strings.Contains(out, "1 export, no errors") {
		t.Errorf("good: status %d, %s", status, out)
	}
	status, out, _ := command(t, "exports", "check", bad, "--json")
	var res struct{ Errors []string }
	if err := json.Unmarshal([]byte(out), &res); err != nil {
		t.Fatal(err)
	}
	if status != exitFailed || len(res.Errors) != 1 || !strings.Contains(res.Errors[0], "bad:2:") {
		t.Errorf("bad: status %d, %q", status, res.Errors)
	}
}

func TestVersion(t *testing.T) {
	if status, out, _ := command(t, "version"); status != 0 || !strings.HasPrefix(out, "sluice ") {
		t.Errorf("status %d, %q", status, out)
	}
}

func TestExportKeepsItsCommas(t *testing.T) {
	app := newApp()
	var got []string
	for _, c := range app.Commands {
		if c.Name == "serve" {
			c.Action = func(c *cli.Context) error { got = c.StringSlice("export"); return nil }
		}
	}
	if err := app.Run([]string{"sluice", "serve", "--export", "/a *(ro,sync)", "--export", "/b"}); err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 || got[0] != "/a *(ro,sync)" {
		t.Errorf("--export gave %q", got)
	}
}
