// Modes of I/O and where they are set: for the whole server, over that for
// one export, and over both for clients (clientmode.go). Each call loads the mode once, when it starts, so a change
// holds from the next call on and never touches one in flight.

package dataio

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
)

// Mode is how a READ or WRITE uses the page cache.
type Mode uint8

// The modes. Default means: what is set one level up. Auto takes one of the
// three others for each call (auto.go), so no call is ever counted under it.
const (
	Default Mode = iota
	Buffered
	DontCache
	Direct
	Auto
	modes
)

var modeNames = [modes]string{"default", "buffered", "dontcache", "direct", "auto"}

// String returns the mode's name.
func (m Mode) String() string {
	if m < modes {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// ParseMode accepts the names and, for the three fixed modes, the numbers that the Linux kernel's nfsd uses:
// 0 buffered, 1 dontcache, 2 direct.
func ParseMode(s string) (Mode, error) {
	switch s {
	case "default":
		return Default, nil
	case "buffered", "0":
		return Buffered, nil
	case "dontcache", "1":
		return DontCache, nil
	case "direct", "2":
		return Direct, nil
	case "auto":
		return Auto, nil
	}
	return Default, fmt.Errorf("unknown I/O mode %q: use buffered (0), dontcache (1), direct (2) or auto", s)
}

// Override is one export's setting. An export holds on to its Override; the modes in it are Default while nothing is set.
type Override struct{ read, write atomic.Uint32 }

// Modes is the server's setting, the exports' and the clients'. The zero value is buffered throughout.
type Modes struct {
	server  Override
	clients atomic.Pointer[[]clientMode] // nil for none; see clientmode.go
	mu      sync.Mutex
	exports map[string]*Override // by export path; entries stay, so that an export's pointer stays good across reloads
}

// Export returns the setting of the export at path, making an empty one if needed. Call it when exports are loaded, not per call.
func (m *Modes) Export(path string) *Override {
	m.mu.Lock()
	defer m.mu.Unlock()
	o := m.exports[path]
	if o == nil {
		if m.exports == nil {
			m.exports = make(map[string]*Override)
		}
		o = new(Override)
		m.exports[path] = o
	}
	return o
}

// Read returns the read mode in force for a client, which may be the zero Addr, under o, which may be nil: the client's
// own, else the export's, else the server's.
func (m *Modes) Read(o *Override, client netip.Addr) Mode {
	if v := m.clientRead(client); v != Default {
		return v
	}
	if o != nil {
		if v := Mode(o.read.Load()); v != Default {
			return v
		}
	}
	return max(Mode(m.server.read.Load()), Buffered)
}

// Write returns the write mode in force, as Read does the read mode.
func (m *Modes) Write(o *Override, client netip.Addr) Mode {
	if v := m.clientWrite(client); v != Default {
		return v
	}
	if o != nil {
		if v := Mode(o.write.Load()); v != Default {
			return v
		}
	}
	return max(Mode(m.server.write.Load()), Buffered)
}

// SetRead sets the server's read mode; Default means buffered.
func (m *Modes) SetRead(v Mode) { m.server.read.Store(uint32(v)) }

// SetWrite sets the server's write mode; Default means buffered.
func (m *Modes) SetWrite(v Mode) { m.server.write.Store(uint32(v)) }

// SetExportRead sets the read mode of one export; Default removes the setting.
func (m *Modes) SetExportRead(path string, v Mode) { m.Export(path).read.Store(uint32(v)) }

// SetExportWrite sets the write mode of one export; Default removes the setting.
func (m *Modes) SetExportWrite(path string, v Mode) { m.Export(path).write.Store(uint32(v)) }

// ModePair is a read and a write mode by name, as the admin socket shows them.
type ModePair struct {
	Read  string `json:"read"`
	Write string `json:"write"`
}

// ModesSnapshot is the whole setting; exports without any are left out.
type ModesSnapshot struct {
	Server  ModePair            `json:"server"`
	Exports map[string]ModePair `json:"exports"`
	Clients map[string]ModePair `json:"clients"` // by ClientName
}

// Snapshot returns what is set.
func (m *Modes) Snapshot() ModesSnapshot {
	s := ModesSnapshot{
		Server:  ModePair{m.Read(nil, netip.Addr{}).String(), m.Write(nil, netip.Addr{}).String()},
		Exports: make(map[string]ModePair),
		Clients: make(map[string]ModePair),
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for path, o := range m.exports {
		r, w := Mode(o.read.Load()), Mode(o.write.Load())
		if r != Default || w != Default {
			s.Exports[path] = ModePair{r.String(), w.String()}
		}
	}
	if list := m.clients.Load(); list != nil {
		for _, c := range *list {
			s.Clients[ClientName(c.net)] = ModePair{c.read.String(), c.write.String()}
		}
	}
	return s
}
