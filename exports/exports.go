// Package exports reads exports(5) tables and says who may mount what, and how.
//
// The plan of the package: lex.go cuts a file into words that know their position; parse.go turns the words of a line into
// entries (path, client, options), with client.go for the client and option.go for the options; build.go joins the entries
// of all lines and files into one immutable Set; match.go answers, for an export and a client's address, which options are
// in force; table.go holds the Set in force and replaces it as a whole on reload; resolve.go is the cached, time-limited
// view of DNS and netgroups; format.go prints.
//
// The authority is exports(5). Where it is silent, the package does what Linux's exportfs and mountd (nfs-utils 2.6.2) do,
// except where Linux turns a slip of the pen into an open door; docs/exports.md lists those differences.
//
// The package imports nothing of Sluice, and touches no file system beyond reading the tables it is told to read.
package exports

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
)

// Limits of one Set. A table past them is refused with an error that names the limit; nothing is cut off silently.
const (
	MaxFileSize   = 4 << 20   // bytes of one file
	MaxLine       = 256 << 10 // bytes of one entry line, its continuations included
	MaxExports    = 10000     // different paths
	MaxClients    = 4096      // clients of one path
	MaxAllClients = 65536     // clients of all paths together
	MaxDropIns    = 1000      // files in the drop-in directory
	MaxPath       = 1024      // bytes of a path: MNTPATHLEN, RFC 1813 section 5.1.1
	MaxClientName = 255       // bytes of a client: MNTNAMLEN, RFC 1813 section 5.1.1
	MaxErrors     = 100       // errors reported for one load; the rest are counted
	MaxWarnings   = 1000      // warnings reported for one load; the rest are counted
)

// AnonID is the default user and group id of squashed callers.
const AnonID = 65534

// InvalidID is the id that no caller may have: the kernel reads it as "leave unchanged" in setfsuid(2) and chown(2).
const InvalidID = 1<<32 - 1

// A Set is the result of one load: every export with its clients. It is immutable, so that any number of goroutines may
// read it while another Set takes its place.
type Set struct {
	exports    []*Export
	byPath     map[string]*Export
	generation uint64
}

// An Export is one directory and all clients that any line of any file allows to mount it.
type Export struct {
	Path    string       `json:"path"`
	Clients []ClientSpec `json:"clients"` // in the order of lines and files
	FSID    FSID         `json:"fsid"`    // the one fsid of this path; every client's Options carry the same
	File    string       `json:"file"`    // where the path is first mentioned
	Line    int          `json:"line"`    // counted from 1

	aliases []string // other spellings of Path under which Get finds it
	index   matchIndex
}

// Class is the kind of a client specification. The order of the constants is the order of precedence.
type Class uint8

// The classes of exports(5), "Machine Name Formats".
const (
	ClassHost Class = iota // a host name or one address
	ClassNetwork
	ClassWildcard
	ClassNetgroup
	ClassAny // "*", or no client at all
)

var classNames = [...]string{"host", "network", "wildcard", "netgroup", "any"}

func (c Class) String() string {
	if int(c) < len(classNames) {
		return classNames[c]
	}
	return "class " + strconv.Itoa(int(c))
}

// MarshalText gives the class its name in JSON.
func (c Class) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// A ClientSpec is one client of an export, as written, with the options it gets.
type ClientSpec struct {
	Spec    string  `json:"client"` // in one spelling: "10.0.0.0/8", "*.example.org", "@trusted", "*"
	Class   Class   `json:"class"`
	Options Options `json:"options"`
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Column  int     `json:"column"`

	addr netip.Addr // ClassHost given as an address
	net  network    // ClassNetwork
}

// Squash says which callers act as the anonymous user.
type Squash uint8

// The three policies; SquashRoot is the default.
const (
	SquashNone Squash = iota // nobody (no_root_squash)
	SquashRoot               // uid 0 and gid 0 (root_squash)
	SquashAll                // everybody (all_squash)
)

var squashNames = [...]string{"no_root_squash", "root_squash", "all_squash"}

func (s Squash) String() string {
	if int(s) < len(squashNames) {
		return squashNames[s]
	}
	return "squash " + strconv.Itoa(int(s))
}

// MarshalText gives the policy its option's name in JSON.
func (s Squash) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// AuthFlavor is an RPC authentication flavour, by its number in RFC 5531 section 8.2.
type AuthFlavor uint32

// The flavours an export can allow.
const (
	AuthNone AuthFlavor = 0
	AuthSys  AuthFlavor = 1
)

func (a AuthFlavor) String() string {
	switch a {
	case AuthNone:
		return "none"
	case AuthSys:
		return "sys"
	}
	return strconv.FormatUint(uint64(a), 10)
}

// MarshalText gives the flavour its name in JSON.
func (a AuthFlavor) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// A Flavor is one allowed authentication flavour with the options that may differ per flavour.
type Flavor struct {
	Auth     AuthFlavor `json:"auth"`
	ReadOnly bool       `json:"read_only"`
	Squash   Squash     `json:"squash"`
}

// FSIDKind tells how the fsid= option identifies the file system.
type FSIDKind uint8

// The forms of fsid=. "root" and "0" mean the same.
const (
	FSIDNone FSIDKind = iota
	FSIDRoot
	FSIDNum
	FSIDUUID
)

// An FSID is the value of fsid=; only the field that Kind names is set.
type FSID struct {
	Kind FSIDKind
	Num  uint32
	UUID [16]byte
}

// String gives the option's value: "", "root", a decimal number or a UUID.
func (f FSID) String() string {
	switch f.Kind {
	case FSIDRoot:
		return "root"
	case FSIDNum:
		return strconv.FormatUint(uint64(f.Num), 10)
	case FSIDUUID:
		h := hex.EncodeToString(f.UUID[:])
		return fmt.Sprintf("%s-%s-%s-%s-%s", h[:8], h[8:12], h[12:16], h[16:20], h[20:])
	}
	return ""
}

// MarshalText is String, for JSON.
func (f FSID) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// Options are the options in force for one client of one export.
type Options struct {
	// ReadOnly and Squash are those of the first flavour in Sec. A server that allows more than one flavour asks For.
	ReadOnly bool   `json:"read_only"`
	Squash   Squash `json:"squash"`

	Async         bool   `json:"async"`
	Secure        bool   `json:"secure"` // the client's port must be below 1024
	AnonUID       uint32 `json:"anon_uid"`
	AnonGID       uint32 `json:"anon_gid"`
	FSID          FSID   `json:"fsid"`
	SubtreeCheck  bool   `json:"subtree_check"`
	Nohide        bool   `json:"nohide"`
	Crossmnt      bool   `json:"crossmnt"`
	MountPoint    string `json:"mount_point,omitempty"` // "" unset; "." the export itself; else the absolute path that must be a mount point
	NoReaddirplus bool   `json:"no_readdirplus"`

	// Sec lists the allowed flavours, the preferred one first; never empty. It is shared: don't change it.
	Sec []Flavor `json:"sec"`
}

// For gives the options that differ per flavour for a call that uses auth, and false if the export does not allow auth.
// It allocates nothing.
func (o *Options) For(auth AuthFlavor) (Flavor, bool) {
	for _, f := range o.Sec {
		if f.Auth == auth {
			return f, true
		}
	}
	return Flavor{}, false
}

// Identity applies the export's squashing to the ids that came with a call and gives the ids to act under. groups is
// changed in place and the result shares its memory; nothing is allocated.
//
// It follows the kernel server's nfsd_setuser (fs/nfsd/auth.c): all_squash drops the groups; root_squash maps id 0 in each
// place; an id of 2^32-1, which setfsuid(2) would read as "no change", always becomes the anonymous one. Callers without
// credentials (AUTH_NONE) are anonymous whatever the squash option.
func (o *Options) Identity(f Flavor, uid, gid uint32, groups []uint32) (uint32, uint32, []uint32) {
	if f.Squash == SquashAll || f.Auth == AuthNone {
		return o.AnonUID, o.AnonGID, groups[:0]
	}
	root := f.Squash == SquashRoot
	if uid == InvalidID || root && uid == 0 {
		uid = o.AnonUID
	}
	if gid == InvalidID || root && gid == 0 {
		gid = o.AnonGID
	}
	for i, g := range groups {
		if g == InvalidID || root && g == 0 {
			groups[i] = o.AnonGID
		}
	}
	return uid, gid, groups
}

// Exports lists the exports in the order in which the files first mention them. Don't change what it returns.
func (s *Set) Exports() []*Export { return s.exports }

// Get finds the export of exactly this path, or nil. Doubled and trailing slashes don't matter.
func (s *Set) Get(path string) *Export {
	if e := s.byPath[path]; e != nil {
		return e
	}
	return s.byPath[cleanPath(path)]
}

// Generation numbers the loads of a Table, from 1; it is 0 for a Set that no Table holds.
func (s *Set) Generation() uint64 { return s.generation }
