// The server side: routes, method checks, bounds and errors. What the answers
// hold comes from a Backend, which the server implements.

package admin

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"sluice/pkg/trace"
)

// Backend is the running server, as the admin plane sees it. Its methods may
// be called concurrently.
type Backend interface {
	Status() Status
	IOMode() IOMode
	// SetIOMode returns a *NotFoundError for an export that isn't there, a
	// *StorageError when the choice can't be kept; nothing is set then.
	SetIOMode(ModeChange) (IOMode, error)
	Limits() []Limit
	// SetLimit returns a *StorageError as SetIOMode does.
	SetLimit(LimitChange) ([]Limit, error)
	Choices() Choices
	ForgetChoices() (Choices, error)
	Stats() Stats
	Exports() []Export
	Reload() (ReloadResult, error)
	Clients() Clients
	// ExpireClient returns a *NotFoundError for a client that isn't there, a
	// *BusyError for one that can't go just now.
	ExpireClient(id ClientID) error
	// The lists of what NFSv4 clients hold; client 0 asks for all.
	Sessions(client ClientID) []Session
	Opens(client ClientID) []Open
	Locks(client ClientID) []Lock
	Delegations(client ClientID) []Delegation
	Copies(client ClientID) []Copy
	Trace() *trace.Bus
}

// NotFoundError is an error that is answered with 404.
type NotFoundError struct{ Msg string }

func (e *NotFoundError) Error() string { return e.Msg }

// BusyError is an error that is answered with 409: it may work later.
type BusyError struct{ Msg string }

func (e *BusyError) Error() string { return e.Msg }

// StorageError is an error that is answered with 500: the server can't keep
// something on its disk.
type StorageError struct{ Msg string }

func (e *StorageError) Error() string { return e.Msg }

// Limits of the admin plane. A request past them is refused; the data plane
// is not affected.
const (
	maxBody        = 64 << 10
	maxRequests    = 64 // at the same time, event streams included
	requestTimeout = 10 * time.Second
	eventBuffer    = 4096 // events per stream; older ones are dropped and counted
	maxSocketPath  = 107  // unix(7): sun_path
)

// Server serves the admin API on a Unix socket.
type Server struct {
	path    string
	backend Backend
	ln      net.Listener
	http    http.Server
	slots   chan struct{}
	done    sync.WaitGroup
	stop    context.CancelFunc
}

// Listen creates the socket at path with mode 0600, replacing one that no
// process listens on any more, and serves b until Close.
func Listen(path string, b Backend) (*Server, error) {
	if len(path) > maxSocketPath {
		return nil, fmt.Errorf("admin socket: the path %s has %d bytes, but the kernel takes %d at most; name another place with --admin", path, len(path), maxSocketPath)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("admin socket: %w; name another place with --admin", err)
	}
	if err := removeDeadSocket(path); err != nil {
		return nil, err
	}
	ln, err := listenPrivate(path)
	if err != nil {
		return nil, fmt.Errorf("admin socket %s: %w; name another place with --admin", path, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Server{
		path: path, backend: b, ln: ln, stop: stop,
		slots: make(chan struct{}, maxRequests),
	}
	s.http = http.Server{
		Handler:           s.bounded(s.routes()),
		ReadHeaderTimeout: requestTimeout,
		ReadTimeout:       requestTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		BaseContext:       func(net.Listener) context.Context { return ctx },
	}
	s.done.Go(func() { s.http.Serve(ln) })
	return s, nil
}

// listenPrivate binds a socket that nobody but its owner can ever connect to.
// bind(2) gives it the umask's mode, and the umask is shared by all threads; so
// it is made in a directory of mode 0700, given its mode, and moved out.
func listenPrivate(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".admin")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	tmp := filepath.Join(dir, "s")
	// The directory's path may be longer than the kernel takes (maxSocketPath):
	// its descriptor makes it short.
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	ln, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/s", d.Fd()))
	if err != nil {
		return nil, err
	}
	ln.(*net.UnixListener).SetUnlinkOnClose(false)
	if err = os.Chmod(tmp, 0o600); err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// removeDeadSocket clears the way for a new socket. A live server's socket is
// left alone.
func removeDeadSocket(path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("admin socket: %w", err)
	}
	if fi.Mode().Type() != fs.ModeSocket {
		return fmt.Errorf("admin socket: %s exists and isn't a socket; name another place with --admin", path)
	}
	conn, err := net.DialTimeout("unix", path, time.Second)
	if err == nil {
		conn.Close()
		return fmt.Errorf("admin socket %s belongs to a server that runs; stop it, or name another place with --admin", path)
	}
	if !errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("admin socket %s is in the way and can't be tried: %w", path, err)
	}
	return os.Remove(path)
}

// Close ends the event streams, finishes requests and removes the socket.
func (s *Server) Close() error {
	s.stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = s.http.Close()
	}
	s.done.Wait()
	os.Remove(s.path)
	return err
}

// call is one row of the API.
type call struct {
	method, path string
	handle       http.HandlerFunc
}

func (s *Server) calls() []call {
	get := func(f func() any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, f()) }
	}
	return []call{
		{http.MethodGet, PathStatus, get(func() any { return s.backend.Status() })},
		{http.MethodGet, PathIOMode, get(func() any { return s.backend.IOMode() })},
		{http.MethodPut, PathIOMode, change(s.backend, `{"op":"read","mode":"direct"}`, Backend.SetIOMode)},
		{http.MethodGet, PathLimits, get(func() any { return s.backend.Limits() })},
		{http.MethodPut, PathLimits, change(s.backend, `{"name":"splice-min","value":131072}`, Backend.SetLimit)},
		{http.MethodGet, PathChoices, get(func() any { return s.backend.Choices() })},
		{http.MethodDelete, PathChoices, s.forget},
		{http.MethodGet, PathStats, get(func() any { return s.backend.Stats() })},
		{http.MethodGet, PathExports, get(func() any { return s.backend.Exports() })},
		{http.MethodPost, PathReload, s.reload},
		{http.MethodGet, PathClients, get(func() any { return s.backend.Clients() })},
		{http.MethodDelete, PathClients + "/{id}", s.expireClient},
		{http.MethodGet, PathSessions, held(func(id ClientID) any { return s.backend.Sessions(id) })},
		{http.MethodGet, PathOpens, held(func(id ClientID) any { return s.backend.Opens(id) })},
		{http.MethodGet, PathLocks, held(func(id ClientID) any { return s.backend.Locks(id) })},
		{http.MethodGet, PathDelegations, held(func(id ClientID) any { return s.backend.Delegations(id) })},
		{http.MethodGet, PathCopies, held(func(id ClientID) any { return s.backend.Copies(id) })},
		{http.MethodGet, PathEvents, s.events},
	}
}

// Calls lists the API's calls, as in "GET /v1/status".
func Calls() []string {
	var list []string
	for _, c := range new(Server).calls() {
		list = append(list, c.method+" "+c.path)
	}
	return list
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{}
	for _, c := range s.calls() {
		mux.HandleFunc(c.method+" "+c.path, c.handle)
		methods[c.path] = append(methods[c.path], c.method)
		if c.method == http.MethodGet {
			methods[c.path] = append(methods[c.path], http.MethodHead) // which the mux takes with it
		}
	}
	for path, list := range methods {
		allow := strings.Join(list, ", ")
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", allow)
			fail(w, http.StatusMethodNotAllowed, fmt.Errorf("%s %s: no such method; this path takes %s", r.Method, r.URL.Path, allow))
		})
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, fmt.Errorf("%s %s: no such call; docs/admin-api.md lists them", r.Method, r.URL.Path))
	})
	return mux
}

// bounded refuses requests past maxRequests and cuts bodies past maxBody.
func (s *Server) bounded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case s.slots <- struct{}{}:
			defer func() { <-s.slots }()
		default:
			fail(w, http.StatusServiceUnavailable, fmt.Errorf("more than %d admin requests at once; try again", maxRequests))
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// change answers a PUT: it decodes the body, which must be like the sample, and
// hands it to the backend.
func change[In, Out any](b Backend, sample string, set func(Backend, In) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var in In
		dec := json.NewDecoder(r.Body)
		dec.DisallowUnknownFields()
		if err := dec.Decode(&in); err != nil {
			fail(w, http.StatusBadRequest, fmt.Errorf("the body must be like %s: %w", sample, err))
			return
		}
		out, err := set(b, in)
		if err != nil {
			fail(w, status(err), err)
			return
		}
		reply(w, http.StatusOK, out)
	}
}

// status is how an error of a change is answered.
func status(err error) int {
	var missing *NotFoundError
	var storage *StorageError
	switch {
	case errors.As(err, &missing):
		return http.StatusNotFound
	case errors.As(err, &storage):
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

func (s *Server) forget(w http.ResponseWriter, _ *http.Request) {
	left, err := s.backend.ForgetChoices()
	if err != nil {
		fail(w, status(err), err)
		return
	}
	reply(w, http.StatusOK, left)
}

// held answers with a list of what NFSv4 clients hold; the query client=ID asks
// for one client's alone.
func held(list func(ClientID) any) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var id ClientID
		if v := r.URL.Query().Get("client"); v != "" {
			var err error
			if id, err = ParseClientID(v); err != nil {
				fail(w, http.StatusBadRequest, err)
				return
			}
		}
		reply(w, http.StatusOK, list(id))
	}
}

func (s *Server) expireClient(w http.ResponseWriter, r *http.Request) {
	id, err := ParseClientID(r.PathValue("id"))
	if err != nil {
		fail(w, http.StatusBadRequest, err)
		return
	}
	err = s.backend.ExpireClient(id)
	var missing *NotFoundError
	var busy *BusyError
	switch {
	case errors.As(err, &missing):
		fail(w, http.StatusNotFound, err)
	case errors.As(err, &busy):
		fail(w, http.StatusConflict, err)
	case err != nil:
		fail(w, http.StatusInternalServerError, err)
	default:
		reply(w, http.StatusOK, Expired{ID: id})
	}
}

func (s *Server) reload(w http.ResponseWriter, _ *http.Request) {
	res, err := s.backend.Reload()
	if err != nil {
		fail(w, http.StatusUnprocessableEntity, err)
		return
	}
	reply(w, http.StatusOK, res)
}

// events streams trace events, one per line, until the client goes. The query
// may hold event=NAME (repeatable, or a comma-separated list), client=ADDRESS,
// and format=text for lines meant for people instead of JSON.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	want := map[trace.Name]bool{trace.Dropped: true} // what was lost is always told
	for _, v := range q["event"] {
		for name := range strings.SplitSeq(v, ",") {
			if !trace.Known(trace.Name(name)) {
				fail(w, http.StatusBadRequest, fmt.Errorf("no such event: %q; docs/admin-api.md lists them", name))
				return
			}
			want[trace.Name(name)] = true
		}
	}
	var client netip.Addr
	if v := q.Get("client"); v != "" {
		var err error
		if client, err = netip.ParseAddr(v); err != nil {
			fail(w, http.StatusBadRequest, fmt.Errorf("client must be an IP address, not %q", v))
			return
		}
	}
	sub := s.backend.Trace().Subscribe(eventBuffer)
	if sub == nil {
		fail(w, http.StatusServiceUnavailable, errors.New("too many event streams at once; end one"))
		return
	}
	defer sub.Close()

	out := bufio.NewWriterSize(w, 32<<10)
	write := func(ev *trace.Event) { json.NewEncoder(out).Encode(ev) }
	w.Header().Set("Content-Type", "application/x-ndjson")
	if q.Get("format") == "text" {
		write = func(ev *trace.Event) { out.WriteString(ev.String() + "\n") }
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	}
	rc := http.NewResponseController(w)
	rc.SetReadDeadline(time.Time{})
	w.WriteHeader(http.StatusOK)
	rc.Flush()
	for {
		ev, ok := sub.Next(r.Context())
		if !ok {
			return
		}
		if (len(want) == 1 || want[ev.Name]) && (!client.IsValid() || !ev.Client.IsValid() || ev.Client == client) {
			write(&ev)
		}
		// More that is waiting is sent with it, unless it is not wanted either.
		if out.Buffered() == 0 || sub.Pending() > 0 && out.Available() > 1024 {
			continue
		}
		// A reader that stalls loses events first and its stream at last.
		rc.SetWriteDeadline(time.Now().Add(requestTimeout))
		if out.Flush() != nil || rc.Flush() != nil {
			return
		}
	}
}

func reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.Encode(v)
}

func fail(w http.ResponseWriter, code int, err error) {
	reply(w, code, Error{Error: err.Error()})
}
