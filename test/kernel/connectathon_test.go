//go:build connectathon

// Plan of this file: the Connectathon suite, built by whoever runs it, goes
// through its basic, general and special parts on a mount, and by NFSv4 its lock
// part, in every mode.
// `make connectathon CTHON=DIR` runs it; the suite is not part of this project.

package kernel

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/kernel/guestapi"
	"sluice/test/testenv"
)

func TestConnectathon(t *testing.T) {
	suite := os.Getenv("SLUICE_CTHON")
	for _, file := range []string{"runtests", "basic/test1", "general/stat", "special/op_unlk", "lock/tlock64"} {
		if _, err := os.Stat(filepath.Join(suite, file)); err != nil {
			t.Fatalf("SLUICE_CTHON=%q does not name a built suite: %v", suite, err)
		}
	}
	for _, version := range []string{"3", "4.0", "4.2"} {
		t.Run("v"+version, func(t *testing.T) {
			t.Parallel()
			connectathon(t, version, suite)
		})
	}
}

func connectathon(t *testing.T, version, suite string) {
	parts := []struct{ name, flag string }{{"basic", "-b"}, {"general", "-g"}, {"special", "-s"}}
	if version != "3" {
		parts = append(parts, struct{ name, flag string }{"lock", "-l"}) // of version 3 another protocol's
	}
	s := one(t, version, testenv.ServerConfig{Exports: []testenv.Export{{Dir: testenv.Disk(t)}}})
	for _, mode := range s.server.Modes() {
		if err := s.server.SetMode(mode); err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			t.Run(mode+"/"+part.name, func(t *testing.T) {
				dir := s.mnt + "/cthon"
				out, err := s.guest.Exec(t, guestapi.Command{
					Argv: []string{"sh", "./runtests", part.flag, "-f", dir}, Dir: suite,
					Env: []string{"NFSTESTDIR=" + dir},
				})
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(out, "All tests completed") {
					t.Fatalf("the suite did not say that it completed:\n%s", out)
				}
			})
		}
	}
}
