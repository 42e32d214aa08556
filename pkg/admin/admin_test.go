package admin

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/trace"
)

// fake is a backend that remembers what it was told.
type fake struct {
	bus     trace.Bus
	change  ModeChange
	expired ClientID
}

func (f *fake) Status() Status { return Status{Version: "v", PID: 7} }
func (f *fake) IOMode() IOMode {
	return IOMode{Read: "buffered", Write: "buffered", Exports: []ExportIOMode{}}
}
func (f *fake) SetIOMode(c ModeChange) (IOMode, error) {
	switch {
	case c.Export == "/gone":
		return IOMode{}, &NotFoundError{"no export at /gone"}
	case c.Persist:
		return IOMode{}, &StorageError{"the disk is full"}
	}
	if c.Mode == "sideways" {
		return IOMode{}, errors.New("no such mode")
	}
	f.change = c
	return IOMode{Read: c.Mode}, nil
}
func (f *fake) Limits() []Limit { return []Limit{{Name: "splice-min"}} }
func (f *fake) SetLimit(c LimitChange) ([]Limit, error) {
	if c.Value == nil {
		return nil, errors.New("no value")
	}
	return []Limit{{Name: c.Name, Value: *c.Value}}, nil
}
func (f *fake) Choices() Choices { return Choices{File: "f"} }
func (f *fake) ForgetChoices() (Choices, error) {
	return Choices{}, &StorageError{"the disk is read-only"}
}
func (f *fake) Stats() Stats                  { return Stats{UptimeSeconds: 1} }
func (f *fake) Exports() []Export             { return []Export{} }
func (f *fake) Reload() (ReloadResult, error) { return ReloadResult{}, errors.New("exports:3: broken") }
func (f *fake) Clients() Clients {
	return Clients{Connections: []Connection{{ID: 7}}, NFS4: []NFS4Client{{ID: 0x6a1f00c300000001}}}
}
func (f *fake) ExpireClient(id ClientID) error {
	switch id {
	case 1:
		return &NotFoundError{"no client 1"}
	case 2:
		return &BusyError{"client 2 is busy"}
	}
	f.expired = id
	return nil
}
func (f *fake) Sessions(id ClientID) []Session       { return []Session{{Client: id}} }
func (f *fake) Opens(id ClientID) []Open             { return []Open{{Client: id}} }
func (f *fake) Locks(id ClientID) []Lock             { return []Lock{{Client: id}} }
func (f *fake) Delegations(id ClientID) []Delegation { return []Delegation{{Client: id}} }
func (f *fake) Copies(id ClientID) []Copy            { return []Copy{{Client: id}} }
func (f *fake) Trace() *trace.Bus                    { return &f.bus }

func start(t *testing.T) (*fake, *Client, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.sock")
	f := new(fake)
	s, err := Listen(path, f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return f, NewClient(path), path
}

func TestSocketIsPrivate(t *testing.T) {
	_, _, path := start(t)
	fi, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if fi.Mode().Perm() != 0o600 {
		t.Errorf("mode of the socket is %o, want 600", fi.Mode().Perm())
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".admin*")); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}

func TestASecondServerIsRefusedAndADeadSocketReplaced(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.sock")
	s, err := Listen(path, new(fake))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, new(fake)); err == nil || !strings.Contains(err.Error(), "belongs to a server that runs") {
		t.Errorf("second server: %v", err)
	}
	s.ln.Close() // as a killed server leaves it: the name is there, nobody listens
	s2, err := Listen(path, new(fake))
	if err != nil {
		t.Fatalf("over a dead socket: %v", err)
	}
	s2.Close()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(path, new(fake)); err == nil || !strings.Contains(err.Error(), "isn't a socket") {
		t.Errorf("over a file: %v", err)
	}
}

func TestCalls(t *testing.T) {
	f, c, _ := start(t)
	ctx := context.Background()
	var st Status
	if err := c.Do(ctx, http.MethodGet, PathStatus, nil, &st); err != nil || st.PID != 7 {
		t.Errorf("status: %+v, %v", st, err)
	}
	var m IOMode
	if err := c.Do(ctx, http.MethodPut, PathIOMode, ModeChange{Op: "read", Mode: "direct"}, &m); err != nil || m.Read != "direct" {
		t.Errorf("set: %+v, %v", m, err)
	}
	if f.change != (ModeChange{Op: "read", Mode: "direct"}) {
		t.Errorf("the backend got %+v", f.change)
	}
	var limits []Limit
	if err := c.Do(ctx, http.MethodPut, PathLimits, map[string]any{"name": "splice-min", "value": 0}, &limits); err != nil || len(limits) != 1 || limits[0].Name != "splice-min" {
		t.Errorf("set: %+v, %v", limits, err)
	}
	for _, tc := range []struct {
		method, path string
		body         any
		want         string
	}{
		{http.MethodPut, PathIOMode, ModeChange{Op: "read", Mode: "direct", Persist: true}, "the disk is full"},
		{http.MethodPut, PathLimits, LimitChange{Name: "splice-min"}, "no value"},
		{http.MethodPut, PathLimits, map[string]any{"name": "splice-min", "value": "1M"}, "like {\"name\":\"splice-min\""},
		{http.MethodPut, PathLimits, map[string]any{"limit": "splice-min"}, `unknown field "limit"`},
		{http.MethodDelete, PathChoices, nil, "the disk is read-only"},
		{http.MethodPut, PathIOMode, ModeChange{Op: "read", Mode: "sideways"}, "no such mode"},
		{http.MethodPut, PathIOMode, ModeChange{Export: "/gone"}, "no export at /gone"},
		{http.MethodPut, PathIOMode, map[string]string{"op": "read", "mod": "direct"}, `unknown field "mod"`},
		{http.MethodPut, PathIOMode, strings.Repeat("x", maxBody), "too large"},
		{http.MethodPost, PathReload, nil, "exports:3: broken"},
		{http.MethodGet, "/v1/nothing", nil, "no such call"},
		{http.MethodPost, PathStatus, nil, "this path takes GET, HEAD"},
		{http.MethodDelete, PathClients + "/1", nil, "no client 1"},
		{http.MethodDelete, PathClients + "/2", nil, "client 2 is busy"},
		{http.MethodDelete, PathClients + "/0", nil, `"0" is not the id of an NFSv4 client`},
		{http.MethodDelete, PathClients + "/sideways", nil, `"sideways" is not the id of an NFSv4 client`},
		{http.MethodGet, PathOpens + "?client=11112222333344445", nil, `"11112222333344445" is not the id`},
		{http.MethodGet, PathEvents + "?event=never", nil, `no such event: "never"`},
		{http.MethodGet, PathEvents + "?client=host", nil, "must be an IP address"},
	} {
		err := c.Do(ctx, tc.method, tc.path, tc.body, nil)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s %s: %v, want %q", tc.method, tc.path, err, tc.want)
		}
	}
}

// A path that is there and a method that it doesn't take are 405 with the
// methods that it does; what isn't there is 404, whatever the method.
func TestWrongMethods(t *testing.T) {
	_, c, _ := start(t)
	known := map[string][]string{}
	for _, call := range Calls() {
		method, path, _ := strings.Cut(call, " ")
		path = strings.Replace(path, "{id}", "6a1f00c300000001", 1)
		known[path] = append(known[path], method)
		if method == http.MethodGet {
			known[path] = append(known[path], http.MethodHead)
		}
	}
	ask := func(method, path string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://sluice"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res
	}
	for _, method := range []string{"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE", "OPTIONS", "TRACE", "SIDEWAYS"} {
		for path, takes := range known {
			if slices.Contains(takes, method) {
				continue
			}
			if res := ask(method, path); res.StatusCode != http.StatusMethodNotAllowed || res.Header.Get("Allow") != strings.Join(takes, ", ") {
				t.Errorf("%s %s: %s, Allow: %s; want 405 and %v", method, path, res.Status, res.Header.Get("Allow"), takes)
			}
		}
		for _, path := range []string{"/", "/v1", "/v1/", "/v1/nothing", "/v1/status/", "/v1/clients/1/2", "/v1/exports/nothing", "/v2/status"} {
			if res := ask(method, path); res.StatusCode != http.StatusNotFound || res.Header.Get("Allow") != "" {
				t.Errorf("%s %s: %s, want 404", method, path, res.Status)
			}
		}
	}
}

func TestEvents(t *testing.T) {
	f, c, _ := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	go func() {
		for ctx.Err() == nil {
			f.bus.Emit(trace.Event{Name: trace.ReadStart, Count: 1})
			f.bus.Emit(trace.Event{Name: trace.ReadDirect, Count: 4096})
			time.Sleep(time.Millisecond)
		}
	}()
	stop := errors.New("enough")
	for _, tc := range []struct{ query, want string }{
		{"?event=read_direct", `"event":"read_direct"`},
		{"?event=read_direct&format=text", " read_direct "},
	} {
		n := 0
		err := c.Stream(ctx, PathEvents+tc.query, func(line []byte) error {
			if !strings.Contains(string(line), tc.want) {
				t.Errorf("%s gave %s", tc.query, line)
			}
			if n++; n == 3 {
				return stop
			}
			return nil
		})
		if err != stop {
			t.Errorf("%s: %v", tc.query, err)
		}
	}
}

// An event does not wait for the next that is wanted, however many others come behind it.
func TestEventBeforeUnwantedOnes(t *testing.T) {
	f, c, _ := start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	go func() {
		for ctx.Err() == nil && !f.bus.Enabled() {
			time.Sleep(time.Millisecond)
		}
		f.bus.Emit(trace.Event{Name: trace.ReadDirect})
		for range 100 {
			f.bus.Emit(trace.Event{Name: trace.ReadDone})
		}
	}()
	got := errors.New("it came")
	if err := c.Stream(ctx, PathEvents+"?event=read_direct", func([]byte) error { return got }); err != got {
		t.Error(err)
	}
}

func TestClientSaysWhatToDo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "none.sock")
	err := NewClient(path).Do(context.Background(), http.MethodGet, PathStatus, nil, nil)
	if err == nil || !strings.Contains(err.Error(), "start `sluice serve`") || !strings.Contains(err.Error(), path) {
		t.Errorf("no socket: %v", err)
	}
}
