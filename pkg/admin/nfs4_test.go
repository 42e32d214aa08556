package admin

import (
	"encoding/json"
	"net/http"
	"testing"
)

// What clients hold is asked for by path, one client's by a query; an id goes
// out and comes back as it is.
func TestHeld(t *testing.T) {
	f, c, _ := start(t)
	const id = ClientID(0x6a1f00c300000001)
	get := func(path string, v any) {
		t.Helper()
		if err := c.Do(t.Context(), http.MethodGet, path, nil, v); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	var clients Clients
	if get(PathClients, &clients); len(clients.Connections) != 1 || clients.Connections[0].ID != 7 || len(clients.NFS4) != 1 || clients.NFS4[0].ID != id {
		t.Errorf("clients: %+v", clients)
	}
	for _, want := range []ClientID{0, id, 1} {
		query := ""
		if want != 0 {
			query = "?client=" + want.String()
		}
		var s []Session
		var o []Open
		var l []Lock
		var d []Delegation
		var k []Copy
		get(PathSessions+query, &s)
		get(PathOpens+query, &o)
		get(PathLocks+query, &l)
		get(PathDelegations+query, &d)
		get(PathCopies+query, &k)
		if len(s) != 1 || len(o) != 1 || len(l) != 1 || len(d) != 1 || len(k) != 1 || s[0].Client != want || o[0].Client != want || l[0].Client != want || d[0].Client != want || k[0].Client != want {
			t.Errorf("client %v: %v %v %v %v %v", want, s, o, l, d, k)
		}
	}
	var done Expired
	if err := c.Do(t.Context(), http.MethodDelete, PathClients+"/"+id.String(), nil, &done); err != nil || done.ID != id || f.expired != id {
		t.Errorf("expire: %v, %+v; the backend got %v", err, done, f.expired)
	}
}

func TestClientID(t *testing.T) {
	b, err := json.Marshal(ClientID(0x1f00c300000001))
	if err != nil || string(b) != `"001f00c300000001"` {
		t.Errorf("%s, %v", b, err)
	}
	if got, err := ParseClientID("1F00c300000001"); err != nil || got != 0x1f00c300000001 {
		t.Errorf("%v, %v", got, err)
	}
	for _, s := range []string{"", "0", "-1", "0x1", "client", "11112222333344445"} {
		if _, err := ParseClientID(s); err == nil {
			t.Errorf("%q is taken for an id", s)
		}
	}
	var id ClientID
	if err := json.Unmarshal([]byte(`"x"`), &id); err == nil {
		t.Error("x is taken for an id")
	}
}
