// Package admin is the administrator's door: HTTP and JSON over a Unix socket.
//
// api.go and nfs4.go hold what goes over the wire, and nothing else; server.go
// answers, client.go asks (the subcommands of `sluice` are thin clients). Paths
// under /v1/ and the JSON names are stable: docs/admin-api.md describes them and
// a test compares the two.
package admin

import (
	"time"

	"sluice/pkg/stats"
)

// Paths of the API.
const (
	PathStatus  = "/v1/status"
	PathIOMode  = "/v1/io-mode"
	PathStats   = "/v1/stats"
	PathExports = "/v1/exports"
	PathReload  = "/v1/exports/reload"
	PathClients = "/v1/clients"
	PathEvents  = "/v1/events"
	PathLimits  = "/v1/limits"
	PathChoices = "/v1/choices"

	PathSessions    = "/v1/sessions"
	PathOpens       = "/v1/opens"
	PathLocks       = "/v1/locks"
	PathDelegations = "/v1/delegations"
	PathCopies      = "/v1/copies"
)

// Status says what is running.
type Status struct {
	Version       string     `json:"version"`
	Commit        string     `json:"commit,omitempty"`
	PID           int        `json:"pid"`
	Started       time.Time  `json:"started"`
	UptimeSeconds float64    `json:"uptime_seconds"`
	Listen        []string   `json:"listen"`
	Rpcbind       string     `json:"rpcbind"`
	State         string     `json:"state"`
	Exports       int        `json:"exports"`
	Connections   int        `json:"connections"`
	Mode          IOMode     `json:"mode"`
	NFS4          NFS4Status `json:"nfs4"`
	Process       Process    `json:"process"`
}

// Process is what the server's process uses, and what memory it can have. What
// could not be found out is 0.
type Process struct {
	UserSeconds   float64 `json:"user_seconds"`
	SystemSeconds float64 `json:"system_seconds"`
	ResidentBytes int64   `json:"resident_bytes"`
	// Memory is "machine", or the memory cgroup that the server is in. MemoryBytes
	// is its size, and CacheBytes the page cache in it, of whatever files.
	Memory      string `json:"memory"`
	MemoryBytes int64  `json:"memory_bytes"`
	CacheBytes  int64  `json:"cache_bytes"`
}

// ModeChoice is a read and a write mode; an empty one is none.
type ModeChoice struct {
	Read  string `json:"read,omitempty" yaml:"read"`
	Write string `json:"write,omitempty" yaml:"write"`
}

// IOMode is the I/O cache mode of the server, and the exports and clients that
// have modes of their own.
type IOMode struct {
	Read  string `json:"read"`
	Write string `json:"write"`
	// Persisted is what the next start has for the server.
	Persisted ModeChoice     `json:"persisted,omitzero"`
	Exports   []ExportIOMode `json:"exports"`
	Clients   []ClientIOMode `json:"clients"`
}

// ExportIOMode is one export's modes; an empty field follows the server.
type ExportIOMode struct {
	Path      string     `json:"path"`
	Read      string     `json:"read,omitempty"`
	Write     string     `json:"write,omitempty"`
	Persisted ModeChoice `json:"persisted,omitzero"`
	// Missing: it isn't exported at present.
	Missing bool `json:"missing,omitempty"`
}

// ClientIOMode is the modes of an address or network; an empty field follows
// the shorter prefixes, the export and the server.
type ClientIOMode struct {
	Client    string     `json:"client"`
	Read      string     `json:"read,omitempty"`
	Write     string     `json:"write,omitempty"`
	Persisted ModeChoice `json:"persisted,omitzero"`
}

// ModeChange is the body of PUT /v1/io-mode.
type ModeChange struct {
	// Op is "read" or "write".
	Op string `json:"op"`
	// Mode is buffered, dontcache, direct, auto, the kernel's numbers 0 to 2, or
	// "default": as configured, and where nothing is, as the next level has it.
	Mode string `json:"mode"`
	// Export is a path of the exports file, Client an address or network; at
	// most one of them, and none means the whole server.
	Export string `json:"export,omitempty"`
	Client string `json:"client,omitempty"`
	// Persist makes it outlive the server.
	Persist bool `json:"persist,omitempty"`
}

// Limit is one that can be changed while the server runs.
type Limit struct {
	Name       string `json:"name"`
	Value      int    `json:"value"`      // in force
	Configured int    `json:"configured"` // without a choice made at run time
	Default    int    `json:"default"`
	Min        int    `json:"min"`
	Max        int    `json:"max"`
	Unit       string `json:"unit"`
	Persisted  *int   `json:"persisted,omitempty"`
	At         string `json:"at_limit"` // what happens at it
}

// LimitChange is the body of PUT /v1/limits.
type LimitChange struct {
	Name string `json:"name"`
	// Value is in the limit's unit; without one it is as configured again.
	Value   *int `json:"value,omitempty"`
	Persist bool `json:"persist,omitempty"`
}

// Choices is what --persist has kept for the next start.
type Choices struct {
	File string `json:"file"`
	// Problem says why the file isn't used; "" when it is.
	Problem string      `json:"problem,omitempty"`
	Modes   []KeptMode  `json:"modes"`
	Limits  []KeptLimit `json:"limits"`
}

// KeptMode is the modes of an export, of a client or, without either, of the server.
type KeptMode struct {
	Export  string `json:"export,omitempty"`
	Client  string `json:"client,omitempty"`
	Read    string `json:"read,omitempty"`
	Write   string `json:"write,omitempty"`
	Missing bool   `json:"missing,omitempty"` // the export isn't there at present
}

// KeptLimit is a limit.
type KeptLimit struct {
	Name  string `json:"name"`
	Value int    `json:"value"`
	Unit  string `json:"unit"`
}

// Export is one exported directory.
type Export struct {
	Path      string         `json:"path"`
	Source    string         `json:"source"`
	Clients   []ExportClient `json:"clients"`
	ReadMode  string         `json:"read_mode"`
	WriteMode string         `json:"write_mode"`
	// Problem says why the export can't be served now; "" when it is.
	Problem string `json:"problem,omitempty"`
}

// ExportClient is one client of an export with its options written out.
type ExportClient struct {
	Client  string `json:"client"`
	Options string `json:"options"`
}

// ReloadResult is the answer of POST /v1/exports/reload.
type ReloadResult struct {
	Exports  int      `json:"exports"`
	Warnings []string `json:"warnings"`
}

// Connection is one client connection.
type Connection struct {
	ID          uint64    `json:"id"`
	Address     string    `json:"address"`
	Connected   time.Time `json:"connected"`
	IdleSeconds float64   `json:"idle_seconds"`
	Calls       uint64    `json:"calls"`
	BytesIn     uint64    `json:"bytes_in"`
	BytesOut    uint64    `json:"bytes_out"`
	InFlight    int       `json:"in_flight"`
	QueuedBytes int64     `json:"queued_bytes"`
}

// Stats is what `sluice stats` shows. Every number counts since the start.
type Stats struct {
	UptimeSeconds float64          `json:"uptime_seconds"`
	Read          []ModeStats      `json:"read"`
	Write         []ModeStats      `json:"write"`
	Spliced       uint64           `json:"read_spliced"` // READs answered without a copy
	Cold          uint64           `json:"read_cold"`    // READs that moved to a slow thread, to wait for a disk
	Auto          []Count          `json:"read_auto"`    // decisions of mode auto for READ, by reason
	Landed        uint64           `json:"write_landed"` // direct WRITEs whose data came aligned off the socket
	Copied        uint64           `json:"write_copied"` // direct WRITEs whose data was copied to be aligned
	Commits       CommitStats      `json:"commits"`
	FileCache     FileCacheStats   `json:"file_cache"`
	Procedures    []ProcedureStats `json:"procedures"`
	NFS4          NFS4Stats        `json:"nfs4"`
	RPC           RPCStats         `json:"rpc"`
	Pools         []PoolStats      `json:"pools"`
}

// Count is a counter with the name of what it counts.
type Count struct {
	Name  string `json:"name"`
	Count uint64 `json:"count"`
}

// ModeStats is the I/O done in one mode.
type ModeStats struct {
	Mode  string `json:"mode"`
	Calls uint64 `json:"calls"`
	Bytes uint64 `json:"bytes"`
	// Excess counts bytes read for alignment alone and thrown away.
	Excess uint64 `json:"excess_bytes"`
	// Fallbacks counts the calls in this mode that were served otherwise, by reason.
	Fallbacks []Count       `json:"fallbacks"`
	Latency   stats.Latency `json:"latency"`
}

// CommitStats counts COMMIT, and how often a failed write-back changed the
// write verifier, so that clients send their unstable data again.
type CommitStats struct {
	Calls          uint64        `json:"calls"`
	VerifierResets uint64        `json:"verifier_resets"`
	Latency        stats.Latency `json:"latency"`
}

// FileCacheStats describes the file cache.
type FileCacheStats struct {
	Files        int    `json:"files"`
	Open         int    `json:"open_descriptors"`
	Budget       int    `json:"descriptor_budget"`
	Hits         uint64 `json:"hits"`
	Misses       uint64 `json:"misses"`
	Acquisitions uint64 `json:"acquisitions"`
	Releases     uint64 `json:"releases"`
	Evictions    uint64 `json:"evictions"`
	// Exhausted counts opens put off because every file was in use.
	Exhausted      uint64  `json:"exhausted"`
	MeanAgeSeconds float64 `json:"mean_age_seconds"`
}

// ProcedureStats counts the calls of one procedure.
type ProcedureStats struct {
	Name    string        `json:"name"`
	Calls   uint64        `json:"calls"`
	Latency stats.Latency `json:"latency"`
}

// RPCStats describes the transport.
type RPCStats struct {
	Connections            int     `json:"connections"`
	Accepted               uint64  `json:"accepted"`
	Calls                  uint64  `json:"calls"`
	BytesIn                uint64  `json:"bytes_in"`
	BytesOut               uint64  `json:"bytes_out"`
	QueuedBytes            int64   `json:"queued_bytes"`
	ServiceThreads         int     `json:"service_threads"`
	ServiceThreadsReplaced uint64  `json:"service_threads_replaced"`
	SlowCalls              uint64  `json:"slow_calls"`
	SlowQueued             int     `json:"slow_queued"`
	SlowRunning            int     `json:"slow_running"`
	ReplyCacheHits         uint64  `json:"reply_cache_hits"`
	ReplyCacheMisses       uint64  `json:"reply_cache_misses"`
	Rejects                []Count `json:"rejects"`
}

// PoolStats describes a bounded pool. Waits counts requests that found it empty
// and waited, Denied those that got nothing.
type PoolStats struct {
	Name   string `json:"name"`
	Unit   string `json:"unit"`
	Held   int64  `json:"held"`
	Limit  int64  `json:"limit"`
	InUse  int64  `json:"in_use"`
	Waits  uint64 `json:"waits"`
	Denied uint64 `json:"denied"`
}

// Error is the body of every answer that isn't 2xx.
type Error struct {
	Error string `json:"error"`
}
