// The client that prepares: it finds the directory, makes the files, and takes
// them away again. One call at a time; the load itself goes by loop.go. What
// differs between the versions is in client3.go and client4.go.

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice/rpc"
	"sluice/xdr"
	wire4 "sluice/xdr/nfs4"
)

const (
	laterTimeout = 120 * time.Second // of calls that the server puts off: a grace period may be as long
	fileMode     = 0o600
)

// client prepares over one version of the protocol.
type client interface {
	// open finds the directory at a path of the server.
	open(path string) error
	// limits are the largest READ and WRITE; 0: not known.
	limits() (read, write int, err error)
	// create makes a file that must not be there; lookup finds one that must.
	create(name string) (file, error)
	lookup(name string, write bool) (file, error)
	remove(name string) error
	// release gives back what the server keeps for an open file.
	release(f *file) error
	// session makes what the calls of a connection with so many slots need; nil
	// for a version without.
	session(slots int) (*session, error)
	template(k kind, f *file, stable uint32) *template
	// outlive lets the calls that follow be bounded by another context: what is
	// to be taken away is, also when the run was ended.
	outlive(ctx context.Context)
	close() error
}

// link is the connection that a client makes its calls on.
type link struct {
	ctx  context.Context
	at   address
	cred *rpc.Cred
	rpc  *rpc.Client
	last time.Time
}

// restAfter is how long a connection may have been idle before it is taken for
// granted no more: servers close those that are.
const restAfter = 10 * time.Second

// Call makes a call, over a new connection if the old one was closed for idleness.
func (l *link) Call(prog, vers, proc uint32, args rpc.Encodable, res rpc.Decodable) error {
	err := l.rpc.Call(prog, vers, proc, l.cred, args, res)
	var re *rpc.Error
	if err != nil && !errors.As(err, &re) && time.Since(l.last) > restAfter {
		if nc, derr := dial(l.ctx, l.at); derr == nil {
			l.rpc.Close()
			l.rpc = newRPC(nc)
			err = l.rpc.Call(prog, vers, proc, l.cred, args, res)
		}
	}
	l.last = time.Now()
	return err
}

func (l *link) outlive(ctx context.Context) { l.ctx = ctx }
func (l *link) close() error                { return l.rpc.Close() }

// file is one of the dataset.
type file struct {
	name string
	fh   []byte
	open wire4.Stateid4
	size int64
}

// errno-like errors that callers tell apart.
var (
	errNoEntry = errors.New("no such file or directory")
	errExists  = errors.New("it exists already")
)

// statusError is a status of the server's other than success.
type statusError struct {
	what, status string
	later        bool
	hint         string
}

func (e *statusError) Error() string {
	s := e.what + ": the server says " + e.status
	if e.hint != "" {
		s += "; " + e.hint
	}
	return s
}

// untilServed makes a call until the server does not put it off any more.
func untilServed(ctx context.Context, call func() error) error {
	for end := time.Now().Add(laterTimeout); ; {
		err := call()
		var st *statusError
		if !errors.As(err, &st) || !st.later || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(laterWait):
		}
	}
}

// hints say what to do about a status, by its name without the prefix of its version.
func hint(status string, uid uint32) string {
	_, name, ok := strings.Cut(status, "ERR_")
	if !ok {
		return ""
	}
	switch name {
	case "ACCES", "ACCESS", "PERM":
		return fmt.Sprintf("user %d may not do that there: choose another with --uid and --gid, or another directory (root is often mapped to nobody: the export's option no_root_squash)", uid)
	case "ROFS":
		return "the export is read-only for this host: change its options, or use `sluice bench read` on files that are there"
	case "NOSPC", "DQUOT":
		return "ask for a smaller --dataset, or make room"
	case "STALE":
		return "the directory has gone meanwhile"
	case "WRONGSEC":
		return "the export wants another security flavour than sys"
	}
	return ""
}

// explainRPC adds a remedy to an error of the RPC layer.
func explainRPC(what string, at fmt.Stringer, err error) error {
	var re *rpc.Error
	if errors.As(err, &re) && re.Denied {
		return fmt.Errorf("%s at %v: %w; the export may want a source port below 1024 (option secure): run this as root, or add insecure to the export", what, at, err)
	}
	return fmt.Errorf("%s at %v: %w", what, at, err)
}

// split parts a path of the server into its names.
func split(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
}

func clone(b []byte) []byte { return bytes.Clone(b) }

// opaque is a string as arguments.
type opaque string

func (o opaque) Encode(e *xdr.Encoder) { e.Opaque([]byte(o)) }
