// Plan of this file: docs/admin-api.md lists the calls, the fields of every
// JSON object and the events. Each list must be exactly what the code has:
// fields are found by reflection, and written as the document writes them
// (a.b, a[].b).

package docs

import (
	"encoding/json"
	"maps"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/pkg/admin"
	"sluice/pkg/dataio"
	"sluice/pkg/server"
	"sluice/pkg/stats"
	"sluice/pkg/trace"
	"sluice/rpc"
)

const apiDoc = "docs/admin-api.md"

// same reports the difference of two lists without regard to their order.
func same(t *testing.T, what string, documented, code []string) {
	t.Helper()
	for _, name := range code {
		if !slices.Contains(documented, name) {
			t.Errorf("%s: the document lacks %q", what, name)
		}
	}
	for _, name := range documented {
		if !slices.Contains(code, name) {
			t.Errorf("%s: the code has no %q", what, name)
		}
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(documented)))); n != len(documented) {
		t.Errorf("%s: something is listed twice: %q", what, documented)
	}
	if len(code) == 0 {
		t.Errorf("%s: the code has none", what)
	}
}

// firstCells returns the code spans in the first column of a table.
func firstCells(rows [][]string) (list []string) {
	for _, r := range rows {
		list = append(list, spans(r[0])...)
	}
	return list
}

// fields lists the JSON names below a type. A type in stop has a table of its
// own, or another call's, and is not entered.
func fields(typ reflect.Type, prefix string, stop []reflect.Type) (list []string) {
	switch {
	case typ.Kind() == reflect.Slice:
		return fields(typ.Elem(), prefix+"[]", stop)
	case typ.Kind() != reflect.Struct || typ == reflect.TypeFor[time.Time]() || slices.Contains(stop, typ):
		return []string{prefix}
	}
	for f := range typ.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		list = append(list, fields(f.Type, strings.TrimPrefix(prefix+"."+name, "."), stop)...)
	}
	return list
}

func TestAPIFields(t *testing.T) {
	text, _ := parse(t, apiDoc)
	nfs4Status, nfs4Stats, file, channel := reflect.TypeFor[admin.NFS4Status](), reflect.TypeFor[admin.NFS4Stats](), reflect.TypeFor[admin.StateFile](), reflect.TypeFor[admin.Channel]()
	connection, nfs4Client := reflect.TypeFor[admin.Connection](), reflect.TypeFor[admin.NFS4Client]()
	latency, mode, ioMode := reflect.TypeFor[stats.Latency](), reflect.TypeFor[admin.ModeStats](), reflect.TypeFor[admin.IOMode]()
	for _, c := range []struct {
		heading string
		typ     reflect.Type
		stop    []reflect.Type
	}{
		{"## /v1/status", reflect.TypeFor[admin.Status](), []reflect.Type{ioMode, nfs4Status}},
		{"### NFSv4 in /v1/status", nfs4Status, nil},
		{"## /v1/io-mode", ioMode, nil},
		{"### The body of PUT", reflect.TypeFor[admin.ModeChange](), nil},
		{"## /v1/limits", reflect.TypeFor[admin.Limit](), nil},
		{"### The body of PUT /v1/limits", reflect.TypeFor[admin.LimitChange](), nil},
		{"## /v1/choices", reflect.TypeFor[admin.Choices](), nil},
		{"## /v1/stats", reflect.TypeFor[admin.Stats](), []reflect.Type{mode, latency, nfs4Stats}},
		{"### NFSv4 in /v1/stats", nfs4Stats, nil},
		{"### A mode of `read[]` and `write[]`", mode, []reflect.Type{latency}},
		{"### `latency`", latency, nil},
		{"## /v1/exports", reflect.TypeFor[admin.Export](), nil},
		{"## /v1/exports/reload", reflect.TypeFor[admin.ReloadResult](), nil},
		{"## /v1/clients", reflect.TypeFor[admin.Clients](), []reflect.Type{connection, nfs4Client}},
		{"### A connection", connection, nil},
		{"### An NFSv4 client", nfs4Client, nil},
		{"## /v1/clients/{id}", reflect.TypeFor[admin.Expired](), nil},
		{"## /v1/sessions", reflect.TypeFor[admin.Session](), []reflect.Type{channel}},
		{"### `fore` and `back`", channel, nil},
		{"## /v1/opens", reflect.TypeFor[admin.Open](), []reflect.Type{file}},
		{"### `file`", file, nil},
		{"## /v1/locks", reflect.TypeFor[admin.Lock](), []reflect.Type{file}},
		{"## /v1/delegations", reflect.TypeFor[admin.Delegation](), []reflect.Type{file}},
		{"## /v1/copies", reflect.TypeFor[admin.Copy](), []reflect.Type{file}},
	} {
		same(t, c.heading, firstCells(table(t, section(t, text, c.heading), "field")), fields(c.typ, "", c.stop))
	}
	same(t, "reasons of fallbacks", firstCells(table(t, text, "reason")), dataio.FallbackReasons())
	same(t, "decisions of auto", firstCells(table(t, text, "decision")), dataio.AutoReasons())
	var refusals []string
	for r := range rpc.NumReasons {
		refusals = append(refusals, r.String())
	}
	same(t, "refusals", firstCells(table(t, text, "refusal")), refusals)
	tail := section(t, text, "## JSON of commands that ask no server")
	same(t, "exports check", firstCells(table(t, tail, "field")), fields(reflect.TypeFor[server.CheckResult](), "", nil))
	second := slices.Index(tail, "`sluice version --json`:")
	if second < 0 {
		t.Fatal("no table for `sluice version --json`:")
	}
	same(t, "version", firstCells(table(t, tail[second:], "field")), fields(reflect.TypeFor[server.Build](), "", nil))
	if errorFields := fields(reflect.TypeFor[admin.Error](), "", nil); len(errorFields) != 1 || !strings.Contains(strings.Join(text, "\n"), `{"`+errorFields[0]+`": `) {
		t.Errorf("the body of an error has %q, and the document says something else", errorFields)
	}
}

func TestAPICalls(t *testing.T) {
	text, _ := parse(t, apiDoc)
	same(t, "calls", firstCells(table(t, text, "call")), admin.Calls())
	// Each path has a section.
	for _, c := range admin.Calls() {
		_, path, _ := strings.Cut(c, " ")
		section(t, text, "## "+path)
	}
}

func TestEvents(t *testing.T) {
	text, _ := parse(t, apiDoc)
	text = section(t, text, "## /v1/events")
	var names []string
	for _, n := range trace.Names() {
		names = append(names, string(n))
	}
	same(t, "events", firstCells(table(t, text, "event")), names)

	// An event with everything set has every field.
	full := trace.Event{
		Time: time.Now(), Name: trace.ReadDone, XID: 1, Client: netip.MustParseAddr("10.0.0.1"), Export: "/a", File: "f",
		Offset: 1, Count: 1, Len: 1, Mode: "direct", Reason: "r", Duration: 1, Align: trace.Align{Mem: 1, Offset: 1, ReadOffset: 1, DontCache: true}, NFS4Client: 1,
	}
	for v, i := reflect.ValueOf(full), 0; i < v.NumField(); i++ {
		if v.Field(i).IsZero() {
			t.Errorf("a new field of trace.Event: %s; set it here", v.Type().Field(i).Name)
		}
	}
	raw, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatal(err)
	}
	same(t, "fields of an event", firstCells(table(t, text, "field")), paths(m, ""))
}

// paths lists the names in a decoded object.
func paths(m map[string]any, prefix string) (list []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if sub, ok := m[k].(map[string]any); ok {
			list = append(list, paths(sub, prefix+k+".")...)
			continue
		}
		list = append(list, prefix+k)
	}
	return list
}

// The sample of /v1/io-mode is one.
func TestAPISample(t *testing.T) {
	_, blocks := parse(t, apiDoc)
	n := 0
	for _, b := range blocks {
		if b.lang != "json" {
			continue
		}
		n++
		var m admin.IOMode
		if err := strictly([]byte(strings.Join(b.lines, "\n")), &m); err != nil || m.Read == "" || len(m.Exports) != 1 || m.Exports[0].Path == "" || len(m.Clients) != 1 {
			t.Errorf("%s:%d: %+v, %v", b.file, b.line, m, err)
		}
	}
	if n != 1 {
		t.Errorf("%d samples in JSON, want 1", n)
	}
}

// The words of the document that look like fields are some call's, so that
// nothing renamed stays in the prose.
func TestAPIProse(t *testing.T) {
	text, _ := parse(t, apiDoc)
	known := map[string]bool{}
	for _, heading := range []string{"field", "event", "reason", "refusal", "decision"} {
		rest := text
		for {
			at := slices.IndexFunc(rest, func(l string) bool { return strings.HasPrefix(l, "| "+heading+" |") })
			if at < 0 {
				break
			}
			for _, name := range firstCells(table(t, rest[at:], heading)) {
				known[name] = true
			}
			rest = rest[at+1:]
		}
	}
	for _, word := range []string{"sluice", "curl", "buffered", "dontcache", "direct", "auto", "default"} {
		known[word] = true
	}
	word := regexp.MustCompile(`^[a-z_]+(\.[a-z_]+)*(\[\])?$`)
	for _, line := range text {
		for _, s := range spans(line) {
			if word.MatchString(s) && !known[s] && s != "a.b" && s != "a[]" {
				t.Errorf("%s: `%s` is no field, event or mode", apiDoc, s)
			}
		}
	}
}
