package measure

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// MissingPackages returns the Debian packages in a list that are not installed.
// A line of the list is a package, a command or file that proves that it is
// there, and what it is for.
func MissingPackages(list string) []string {
	var missing []string
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] == "#" {
			continue
		}
		var err error
		if filepath.IsAbs(f[1]) {
			_, err = os.Stat(f[1])
		} else {
			_, err = exec.LookPath(f[1])
		}
		if err != nil {
			missing = append(missing, f[0])
		}
	}
	return missing
}
