// The file of choices that outlive the server: those made with --persist
// (docs/decisions/0040-kept-choices.md).
//
// Plan: one JSON file in the state directory, always replaced as a whole: made
// under another name, synced, renamed, and the directory synced, so that a crash
// leaves the old one or the new one. A file that is not understood to its last
// word is not used at all and never overwritten in silence: what somebody wrote
// by hand, or a newer version did, is theirs.

package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"sluice/pkg/admin"
	"sluice/pkg/dataio"
)

const (
	keptFile       = "choices.json"
	keptVersion    = 1
	maxKeptFile    = 1 << 20 // bytes
	maxKeptExports = 4096
)

// kept is the file's content. Modes are names; "" is none.
type kept struct {
	Version int `json:"version"`
	Modes   struct {
		Server  admin.ModeChoice            `json:"server,omitzero"`
		Exports map[string]admin.ModeChoice `json:"exports,omitempty"` // by path
		Clients map[string]admin.ModeChoice `json:"clients,omitempty"` // by dataio.ClientName
	} `json:"modes,omitzero"`
	Limits map[string]int `json:"limits,omitempty"` // by the key of the configuration, in its unit
}

func (k *kept) empty() bool {
	return k.Modes.Server == (admin.ModeChoice{}) && len(k.Modes.Exports)+len(k.Modes.Clients)+len(k.Limits) == 0
}

// clone copies k, so that the copy can be changed.
func (k *kept) clone() kept {
	c := *k
	c.Modes.Exports, c.Modes.Clients, c.Limits = maps.Clone(k.Modes.Exports), maps.Clone(k.Modes.Clients), maps.Clone(k.Limits)
	return c
}

func (k *kept) mode(t target) admin.ModeChoice {
	switch {
	case t.export != "":
		return k.Modes.Exports[t.export]
	case t.client != "":
		return k.Modes.Clients[t.client]
	}
	return k.Modes.Server
}

func (k *kept) setMode(t target, m admin.ModeChoice) {
	set := func(all *map[string]admin.ModeChoice, name string) {
		if *all == nil {
			*all = map[string]admin.ModeChoice{}
		}
		if (*all)[name] = m; m == (admin.ModeChoice{}) {
			delete(*all, name)
		}
	}
	switch {
	case t.export != "":
		set(&k.Modes.Exports, t.export)
	case t.client != "":
		set(&k.Modes.Clients, t.client)
	default:
		k.Modes.Server = m
	}
}

// check finds what the server could not act on.
func (k *kept) check() error {
	modes := func(where string, m admin.ModeChoice) error {
		for _, s := range []string{m.Read, m.Write} {
			if s == "" {
				continue
			}
			if mode, err := dataio.ParseMode(s); err != nil || mode == dataio.Default {
				return fmt.Errorf("%s: %q is no mode: the modes are %s", where, s, modeList)
			}
		}
		return nil
	}
	errs := []error{modes("modes.server", k.Modes.Server)}
	for name, m := range k.Modes.Exports {
		if name == "" || name[0] != '/' || path.Clean(name) != name {
			errs = append(errs, fmt.Errorf("modes.exports: %q is no path of an export", name))
		}
		errs = append(errs, modes("modes.exports: "+name, m))
	}
	for name, m := range k.Modes.Clients {
		if p, err := dataio.ParseClient(name); err != nil {
			errs = append(errs, fmt.Errorf("modes.clients: %w", err))
		} else if want := dataio.ClientName(p); want != name {
			errs = append(errs, fmt.Errorf("modes.clients: %q must be written as %s", name, want))
		}
		errs = append(errs, modes("modes.clients: "+name, m))
	}
	for name, v := range k.Limits {
		l := findLimit(name)
		if l == nil {
			errs = append(errs, fmt.Errorf("limits: unknown limit %q: the limits are %s", name, limitNames()))
			continue
		}
		errs = append(errs, l.check(v))
	}
	if len(k.Modes.Exports) > maxKeptExports || len(k.Modes.Clients) > dataio.MaxClientModes {
		errs = append(errs, fmt.Errorf("modes of %d exports and %d clients: the most are %d and %d",
			len(k.Modes.Exports), len(k.Modes.Clients), maxKeptExports, dataio.MaxClientModes))
	}
	return errors.Join(errs...)
}

// readKept reads the file; one that isn't there is empty. Errors name the file,
// and what to do.
func readKept(file string) (kept, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0) // never wait for the other end of a FIFO
	if errors.Is(err, fs.ErrNotExist) {
		return kept{}, nil
	}
	wrong := func(format string, args ...any) (kept, error) {
		return kept{}, fmt.Errorf("%s "+format+": mend it, or forget what it holds with `sluice choices forget`", append([]any{file}, args...)...)
	}
	if err != nil {
		return wrong("can't be read (%w)", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return wrong("is no regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKeptFile+1))
	if err != nil {
		return wrong("can't be read (%w)", err)
	}
	if len(b) > maxKeptFile {
		return wrong("is larger than %d bytes", maxKeptFile)
	}
	// The version first: of a newer one, the rest may be anything.
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return wrong("is damaged (%s)", jsonProblem(b, err))
	}
	switch {
	case head.Version == nil || *head.Version < 1:
		return wrong("is damaged (it has no version)")
	case *head.Version > keptVersion:
		return kept{}, fmt.Errorf("%s has version %d, and this server knows %d: a newer server wrote it; run that one, or forget what it holds with `sluice choices forget`", file, *head.Version, keptVersion)
	}
	var k kept
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&k); err != nil {
		return wrong("is not understood (%s)", jsonProblem(b, err))
	}
	if err := k.check(); err != nil {
		return wrong("is not understood (%s)", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return k, nil
}

// jsonProblem says what is wrong in JSON, and in which line if it is known.
func jsonProblem(b []byte, err error) string {
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	at := int64(0)
	switch {
	case errors.As(err, &syntax):
		at = syntax.Offset
	case errors.As(err, &wrongType):
		at = wrongType.Offset
		err = fmt.Errorf("%s: a %s can't stand there", wrongType.Field, wrongType.Value)
	default:
		return strings.TrimPrefix(err.Error(), "json: ")
	}
	line := 1 + bytes.Count(b[:min(max(at, 0), int64(len(b)))], []byte("\n"))
	return fmt.Sprintf("line %d: %s", line, strings.TrimPrefix(err.Error(), "json: "))
}

// write replaces the file, or removes it when there is nothing to keep.
func (k *kept) write(file string) error {
	if k.empty() {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return syncDir(filepath.Dir(file))
	}
	k.Version = keptVersion
	b, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	tmp := file + ".new" // always this name, so that crashes leave no more than one behind
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(tmp, file)
	}
	if err != nil {
		os.Remove(tmp)
		return err
	}
	return syncDir(filepath.Dir(file))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
