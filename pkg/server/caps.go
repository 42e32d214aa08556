// What the process may do, checked once at the start: a missing capability is
// named before a client meets it as an I/O error.

package server

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// capability is one that the server uses, and what for.
type capability struct {
	bit      uint
	name     string
	purpose  string
	required bool
}

var capabilities = []capability{
	{unix.CAP_DAC_READ_SEARCH, "CAP_DAC_READ_SEARCH", "open files by their handles", true},
	{unix.CAP_SETUID, "CAP_SETUID", "act under the callers' user ids", true},
	{unix.CAP_SETGID, "CAP_SETGID", "act under the callers' group ids", true},
	{unix.CAP_CHOWN, "CAP_CHOWN", "serve chown by root (no_root_squash)", false},
	{unix.CAP_DAC_OVERRIDE, "CAP_DAC_OVERRIDE", "serve root (no_root_squash) past permission bits", false},
	{unix.CAP_FOWNER, "CAP_FOWNER", "serve chmod and utimes by root (no_root_squash)", false},
	{unix.CAP_FSETID, "CAP_FSETID", "keep set-group-ID bits that root sets", false},
	{unix.CAP_LEASE, "CAP_LEASE", "give NFSv4 delegations of files that aren't root's", false},
	{unix.CAP_MKNOD, "CAP_MKNOD", "make device nodes", false},
	{unix.CAP_SYS_ADMIN, "CAP_SYS_ADMIN", "show what lies under a mount point in exports without crossmnt, and use large pipes for many connections at once", false},
}

// checkCapabilities returns an error that names the required capabilities
// which are missing, and a warning for each other one. The server must be uid
// 0, too: only then does the kernel take the capabilities that override
// permissions away from a thread that acts under a caller's id, and give them
// back (capabilities(7), "Effect of user ID changes").
func checkCapabilities() (warnings []string, err error) {
	if uid := os.Geteuid(); uid != 0 {
		return nil, fmt.Errorf("the server runs as uid %d, but only root can act under its callers' ids: run it as root", uid)
	}
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return nil, fmt.Errorf("capget: %w", err)
	}
	effective := uint64(data[1].Effective)<<32 | uint64(data[0].Effective)
	return missingCapabilities(effective)
}

func missingCapabilities(effective uint64) (warnings []string, err error) {
	var names, purposes []string
	for _, c := range capabilities {
		switch {
		case effective&(1<<c.bit) != 0:
		case c.required:
			names = append(names, c.name)
			purposes = append(purposes, c.purpose)
		default:
			warnings = append(warnings, fmt.Sprintf("without %s the server can't %s", c.name, c.purpose))
		}
	}
	if len(names) == 0 {
		return warnings, nil
	}
	return warnings, fmt.Errorf("missing %s, needed to %s: grant it (containers: --cap-add; systemd: CapabilityBoundingSet=)",
		strings.Join(names, ", "), strings.Join(purposes, ", "))
}
