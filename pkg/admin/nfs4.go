// What NFSv4 clients hold, as it goes over the wire.

package admin

import (
	"fmt"
	"strconv"
)

// ClientID names an NFSv4 client: 16 hexadecimal digits, in JSON a string, as
// not every reader of JSON has whole numbers of 64 bits.
type ClientID uint64

// String gives the 16 digits.
func (id ClientID) String() string { return fmt.Sprintf("%016x", uint64(id)) }

// MarshalText gives the 16 digits; the id 0 stands for none and is empty.
func (id ClientID) MarshalText() ([]byte, error) {
	if id == 0 {
		return nil, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText is the opposite of MarshalText.
func (id *ClientID) UnmarshalText(b []byte) (err error) {
	if *id = 0; len(b) > 0 {
		*id, err = ParseClientID(string(b))
	}
	return err
}

// ParseClientID reads what String gives; leading zeros may be missing.
func ParseClientID(s string) (ClientID, error) {
	n, err := strconv.ParseUint(s, 16, 64)
	if err != nil || n == 0 {
		return 0, fmt.Errorf("%q is not the id of an NFSv4 client: that is up to 16 hexadecimal digits, as `sluice clients` shows them", s)
	}
	return ClientID(n), nil
}

// Clients is the answer of GET /v1/clients.
type Clients struct {
	Connections []Connection `json:"connections"`
	NFS4        []NFS4Client `json:"nfs4"`
}

// NFS4Client is one client record of NFSv4.
type NFS4Client struct {
	ID ClientID `json:"id"`
	// Owner is the name that the client gave itself, with bytes that can't be
	// printed written as in Go.
	Owner          string `json:"owner"`
	Address        string `json:"address"`
	MinorVersion   int    `json:"minor_version"`
	Implementation string `json:"implementation,omitempty"`
	// State is unconfirmed, active or courtesy.
	State string `json:"state"`
	// LeaseAgeSeconds is how long ago the lease was last renewed.
	LeaseAgeSeconds float64 `json:"lease_age_seconds"`
	// Callback is unknown, up, down or fault.
	Callback string `json:"callback"`
	// Reclaimed: it has said that it reclaims nothing more. Recorded: it may
	// reclaim after a restart of the server.
	Reclaimed   bool `json:"reclaimed"`
	Recorded    bool `json:"recorded"`
	Sessions    int  `json:"sessions"`
	Opens       int  `json:"opens"`
	Locks       int  `json:"locks"`
	Delegations int  `json:"delegations"`
	// Revoked counts what was taken from it and it has not let go of yet.
	Revoked int `json:"revoked"`
}

// The states of a client.
const (
	StateUnconfirmed = "unconfirmed"
	StateActive      = "active"
	StateCourtesy    = "courtesy"
)

// Expired is the answer of DELETE /v1/clients/{id}.
type Expired struct {
	ID ClientID `json:"id"`
}

// Session is one session of NFSv4.1 or later.
type Session struct {
	ID              string   `json:"id"`
	Client          ClientID `json:"client"`
	Slots           int      `json:"slots"`
	TargetSlots     int      `json:"target_slots"`
	BusySlots       int      `json:"busy_slots"`
	Connections     int      `json:"connections"`
	BackConnections int      `json:"back_connections"`
	// ReplyCacheBytes are promised to replies that are kept for a repeat.
	ReplyCacheBytes int64   `json:"reply_cache_bytes"`
	Fore            Channel `json:"fore"`
	Back            Channel `json:"back"`
}

// Channel is what was agreed for one direction of a session; sizes in bytes.
type Channel struct {
	MaxRequest        uint32 `json:"max_request"`
	MaxResponse       uint32 `json:"max_response"`
	MaxResponseCached uint32 `json:"max_response_cached"`
	MaxOperations     uint32 `json:"max_operations"`
	MaxRequests       uint32 `json:"max_requests"`
}

// StateFile names a file. Handle is always there; Device ("major:minor") and
// Inode while the file is there, Path when one is known that leads to it.
type StateFile struct {
	Handle string `json:"handle"`
	Device string `json:"device,omitempty"`
	Inode  uint64 `json:"inode,omitempty"`
	Path   string `json:"path,omitempty"`
}

// Open is one open file of a client.
type Open struct {
	Client  ClientID  `json:"client"`
	Stateid string    `json:"stateid"`
	Owner   string    `json:"owner"`
	File    StateFile `json:"file"`
	// Access is read, write or both; Deny is that or none.
	Access string `json:"access"`
	Deny   string `json:"deny"`
	// LockOwners counts those with locks under this open.
	LockOwners int `json:"lock_owners"`
}

// Lock is one byte-range lock, or one that a client waits for.
type Lock struct {
	Client ClientID  `json:"client"`
	Host   string    `json:"host,omitempty"` // of a lock that came by NLM; Client is then 0
	Owner  string    `json:"owner"`
	File   StateFile `json:"file"`
	Type   string    `json:"type"` // read or write
	Start  uint64    `json:"start"`
	// Length is in bytes; 0 reaches to the end of the file, wherever that is.
	Length  uint64 `json:"length"`
	Waiting bool   `json:"waiting"`
}

// Delegation is one delegation.
type Delegation struct {
	Client  ClientID  `json:"client"`
	Stateid string    `json:"stateid"`
	File    StateFile `json:"file"`
	Type    string    `json:"type"` // read or write
	// RecalledSeconds is how long ago it was called back; 0 when it was not.
	RecalledSeconds float64 `json:"recalled_seconds"`
	// Leased: the kernel holds up local processes that want the file.
	Leased bool `json:"leased"`
}

// Copy is a COPY that goes on after its answer, and has not ended.
type Copy struct {
	Client  ClientID  `json:"client"`
	Stateid string    `json:"stateid"`
	Source  StateFile `json:"source"`
	Target  StateFile `json:"target"`
	Bytes   uint64    `json:"bytes"`
	Copied  uint64    `json:"copied_bytes"`
}

// NFS4Status says how much NFSv4 clients hold now.
type NFS4Status struct {
	// GraceSeconds is how long the grace period lasts at most; 0: there is none.
	GraceSeconds float64 `json:"grace_seconds"`
	LeaseSeconds float64 `json:"lease_seconds"`
	// Clients are the confirmed ones, CourtesyClients those of them whose lease
	// has run out.
	Clients            int64 `json:"clients"`
	CourtesyClients    int64 `json:"courtesy_clients"`
	UnconfirmedClients int64 `json:"unconfirmed_clients"`
	Sessions           int64 `json:"sessions"`
	Opens              int64 `json:"opens"`
	Locks              int64 `json:"locks"`
	Delegations        int64 `json:"delegations"`
	// Copies are those that go on after their answer.
	Copies int64 `json:"copies"`
	// ReplyCacheBytes are promised to the sessions' replies.
	ReplyCacheBytes int64 `json:"reply_cache_bytes"`
}

// NFS4Stats counts what became of NFSv4's operations and state.
type NFS4Stats struct {
	Operations []OperationStats `json:"operations"`

	// ClientsEnded counts all ends of clients, ClientsExpired those that the
	// client did not wish.
	ClientsEnded        uint64 `json:"clients_ended"`
	ClientsExpired      uint64 `json:"clients_expired"`
	SharesDenied        uint64 `json:"shares_denied"`
	LocksGranted        uint64 `json:"locks_granted"`
	LocksDenied         uint64 `json:"locks_denied"`
	DelegationsGranted  uint64 `json:"delegations_granted"`
	DelegationsRecalled uint64 `json:"delegations_recalled"`
	DelegationsReturned uint64 `json:"delegations_returned"`
	DelegationsRevoked  uint64 `json:"delegations_revoked"`
	CopiesBegun         uint64 `json:"copies_begun"` // that went on after their answer
	Replays             uint64 `json:"replays"`
	GraceRefused        uint64 `json:"grace_refused"`
	StorageErrors       uint64 `json:"storage_errors"`
}

// OperationStats counts one operation of COMPOUND. Errors are by their names in
// the RFCs.
type OperationStats struct {
	Name   string  `json:"name"`
	Calls  uint64  `json:"calls"`
	Errors []Count `json:"errors"`
}
