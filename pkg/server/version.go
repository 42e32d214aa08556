// Version and commit: from -ldflags where a build sets them, else from what
// the Go tool records in the binary.

package server

import "runtime/debug"

// version and commit may be set with -ldflags "-X sluice/pkg/server.version=1.2.3".
var version, commit string

// Build says which build this is.
type Build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

// BuildInfo returns the version of the running binary.
func BuildInfo() Build {
	b := Build{Version: version, Commit: commit}
	info, ok := debug.ReadBuildInfo()
	if ok {
		b.Go = info.GoVersion
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision" && b.Commit == "":
				b.Commit = s.Value
			case s.Key == "vcs.modified":
				b.Modified = s.Value == "true"
			}
		}
	}
	if b.Version == "" {
		b.Version = "devel"
	}
	return b
}

// String is the version as people write it: 1.2.3 (0123456789ab).
func (b Build) String() string {
	s := b.Version
	if len(b.Commit) >= 12 {
		s += " (" + b.Commit[:12]
		if b.Modified {
			s += ", modified"
		}
		s += ")"
	}
	return s
}

// Version is BuildInfo as one string.
func Version() string { return BuildInfo().String() }
