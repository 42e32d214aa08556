// Configuration: one struct, filled from defaults, then a YAML file, then flags.
//
// The keys of the file are the names of the flags of `sluice serve`, so that
// there is one vocabulary. An unknown key is an error that names its line: a
// misspelt limit must not be ignored in silence.

package server

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"gopkg.in/yaml.v3"

	"sluice/pkg/admin"
	"sluice/pkg/dataio"
)

// Config is everything that decides how a server behaves. The zero value is
// not usable: start from Defaults.
type Config struct {
	// Exports is the exports(5) file; "" serves only the inline exports.
	// Files in the directory named after it with ".d" appended are read too.
	Exports string `yaml:"exports"`
	// Export holds inline exports: "DIR" or "DIR CLIENT(OPTIONS)".
	Export []string `yaml:"export"`
	// Listen is the address and port of NFS and MOUNT; an empty host is all
	// addresses, IPv4 and, where the kernel has it, IPv6.
	Listen string `yaml:"listen"`
	// Admin is the path of the admin socket; "" turns it off.
	Admin string `yaml:"admin"`
	// State is the directory of the handle key; it is created with mode 0700.
	State string `yaml:"state"`
	// ReadMode and WriteMode are the server-wide I/O modes at start.
	ReadMode  string `yaml:"read-mode"`
	WriteMode string `yaml:"write-mode"`
	// Modes are those of exports and clients. It has no flag.
	Modes ModesConfig `yaml:"modes"`
	// Rpcbind is auto, off or embedded.
	Rpcbind string `yaml:"rpcbind"`
	// LeaseTime is how long an NFSv4 client may be silent before others may
	// have what it holds; GraceTime how long after a start only reclaims are
	// served, 0 for as long as a lease. It ends early when all have reclaimed.
	LeaseTime time.Duration `yaml:"lease-time"`
	GraceTime time.Duration `yaml:"grace-time"`
	// Delegations is off, read or on (for reading and writing).
	Delegations string `yaml:"delegations"`
	// IDDomain makes owners travel as name@domain; "" as numbers.
	IDDomain string `yaml:"id-domain"`
	// Names is any, or utf-8: NFSv4 clients' names must be in UTF-8 then.
	Names string `yaml:"names"`
	// LogLevel is debug, info, warn or error; LogFormat console or json.
	LogLevel  string `yaml:"log-level"`
	LogFormat string `yaml:"log-format"`

	// Threads is the number of service threads; 0 is one per core.
	Threads int `yaml:"threads"`
	// SlowThreads bounds the threads for calls that may sleep.
	SlowThreads int `yaml:"slow-threads"`
	// MaxConnections bounds client connections; 0 derives it from the
	// process's descriptor limit.
	MaxConnections int `yaml:"max-connections"`
	// IdleTimeout closes a connection without calls after this long.
	IdleTimeout time.Duration `yaml:"idle-timeout"`
	// SpliceMin is the size in bytes from which a buffered READ is spliced
	// to the socket; 0 is the measured default, -1 never.
	SpliceMin int `yaml:"splice-min"`
	// BufferPool bounds, in MiB, the memory of data buffers; DirectPool that
	// part of it that is for direct I/O, 0 for half.
	BufferPool int `yaml:"buffer-pool"`
	DirectPool int `yaml:"direct-pool"`
	// MaxInFlight bounds the calls of one connection that wait or run on slow
	// threads, MaxQueued, in KiB, the replies that it hasn't taken.
	MaxInFlight int `yaml:"max-in-flight"`
	MaxQueued   int `yaml:"max-queued"`
	// ShutdownTimeout is how long calls in flight may take at SIGTERM.
	ShutdownTimeout time.Duration `yaml:"shutdown-timeout"`

	// FromFlags has the keys that were given on the command line: they win over
	// what an earlier `--persist` kept.
	FromFlags map[string]bool `yaml:"-"`
}

// ModesConfig is the key modes: by path of an export, by address or network of
// a client.
type ModesConfig struct {
	Exports map[string]admin.ModeChoice `yaml:"exports"`
	Clients map[string]admin.ModeChoice `yaml:"clients"`
}

// The lease times that make sense, as in the kernel's server: clients renew at
// two thirds of it, and it is the grace period that a crash costs all of them.
const (
	minLease = 10 * time.Second
	maxLease = time.Hour
)

// DefaultPort is the port of NFS (RFC 1813, 2.0.3; IANA).
const DefaultPort = 2049

// Defaults returns the configuration of `sluice serve` without flags.
func Defaults() Config {
	return Config{
		Exports:         "/etc/exports",
		Listen:          net.JoinHostPort("", strconv.Itoa(DefaultPort)),
		Admin:           "/run/sluice/admin.sock",
		State:           "/var/lib/sluice",
		ReadMode:        "buffered",
		WriteMode:       "buffered",
		Rpcbind:         "auto",
		LeaseTime:       90 * time.Second,
		Delegations:     "on",
		Names:           "any",
		LogLevel:        "info",
		LogFormat:       "console",
		SlowThreads:     64,
		IdleTimeout:     6 * time.Minute,
		BufferPool:      256,
		MaxInFlight:     128,
		MaxQueued:       1024,
		ShutdownTimeout: 10 * time.Second,
	}
}

// maxConfigFile bounds the size of a configuration file, in bytes.
const maxConfigFile = 1 << 20

// LoadFile overlays the keys of a YAML file on c.
func (c *Config) LoadFile(name string) error {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a FIFO that nobody writes must not hold up the start
	if err != nil {
		return fmt.Errorf("config file: %w; name another with --config", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil && !st.Mode().IsRegular() && st.Mode()&os.ModeCharDevice == 0 {
		return fmt.Errorf("config file %s is no regular file; name another with --config", name)
	}
	src, err := io.ReadAll(io.LimitReader(f, maxConfigFile+1))
	if err != nil {
		return fmt.Errorf("config file: %w", err)
	}
	if len(src) > maxConfigFile {
		return fmt.Errorf("config file %s is larger than %d bytes", name, maxConfigFile)
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	dec.KnownFields(true)
	var errs []error
	if err := dec.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		for _, msg := range explainYAML(err) {
			errs = append(errs, fmt.Errorf("config file %s: %s", name, msg))
		}
		return errors.Join(errs...)
	}
	lines := keyLines(src)
	for _, p := range c.problems() {
		if line, ok := lines[strings.Join(append([]string{p.key}, p.below...), keySep)]; ok {
			errs = append(errs, fmt.Errorf("config file %s: line %d: %w", name, line, p.err))
		}
	}
	return errors.Join(errs...)
}

// keySep stands between the keys on the way to one that lies deeper, in keyLines.
const keySep = "\x00"

// keyLines finds the line of each key.
func keyLines(src []byte) map[string]int {
	lines := map[string]int{}
	var doc yaml.Node
	if yaml.Unmarshal(src, &doc) != nil || len(doc.Content) == 0 {
		return lines
	}
	var walk func(prefix string, n *yaml.Node)
	walk = func(prefix string, n *yaml.Node) {
		if n.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			lines[prefix+key.Value] = key.Line
			walk(prefix+key.Value+keySep, n.Content[i+1])
		}
	}
	walk("", doc.Content[0])
	return lines
}

var (
	unknownField = regexp.MustCompile(`^line (\d+): field (.*) not found in type (.*)$`)
	wrongType    = regexp.MustCompile("(?s)^line (\\d+): cannot unmarshal (?:\\S+ `(.*)`|(\\S+)) into (\\S+)$")
)

// kinds says what the types of Config's fields are to people.
var kinds = map[string]string{
	"int": "a whole number", "string": "a text", "[]string": "a list of texts", "time.Duration": "a time with its unit, as in 90s or 6m",
	"server.Config":      "a list of keys and values, as in listen: :2049",
	"server.ModesConfig": "keys and values, as in exports: {/srv/data: {read: direct}}", "map[string]admin.ModeChoice": "keys and values, as in /srv/data: {read: direct}",
	"admin.ModeChoice": "keys and values, as in {read: direct, write: dontcache}",
}

// keysOf are the keys that may stand in a value of a type.
func keysOf(typ string) []string {
	switch typ {
	case "server.ModesConfig":
		return []string{"exports", "clients"}
	case "admin.ModeChoice":
		return []string{"read", "write"}
	}
	return ConfigKeys()
}

// explainYAML turns the library's words about Go types into words about keys.
func explainYAML(err error) []string {
	var te *yaml.TypeError
	if !errors.As(err, &te) {
		return []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	var out []string
	for _, e := range te.Errors {
		if m := unknownField.FindStringSubmatch(e); m != nil {
			e = fmt.Sprintf("line %s: unknown key %q; the keys are %s", m[1], m[2], strings.Join(keysOf(m[3]), ", "))
		} else if m := wrongType.FindStringSubmatch(e); m != nil && kinds[m[4]] != "" {
			got := strconv.Quote(m[2])
			if m[3] != "" {
				got = map[string]string{"!!seq": "a list", "!!map": "keys and values"}[m[3]]
			}
			e = fmt.Sprintf("line %s: the value is %s; it must be %s", m[1], got, kinds[m[4]])
		}
		out = append(out, e)
	}
	return out
}

// ConfigKeys lists the keys of the configuration file, in order.
func ConfigKeys() []string {
	var keys []string
	for f := range reflect.TypeFor[Config]().Fields() {
		if key := f.Tag.Get("yaml"); key != "-" {
			keys = append(keys, key)
		}
	}
	return keys
}

// Validate checks what can be checked without touching the system. Its errors
// name the key.
func (c *Config) Validate() error {
	var errs []error
	for _, p := range c.problems() {
		errs = append(errs, p.err)
	}
	if c.Exports == "" && len(c.Export) == 0 {
		errs = append(errs, errors.New("nothing to export: name an exports(5) file with --exports or a directory with --export"))
	}
	return errors.Join(errs...)
}

// problem is a key whose value is wrong; err names it too.
type problem struct {
	key   string
	err   error
	below []string // the keys on the way to one that lies deeper
}

// problems checks each key by itself.
func (c *Config) problems() (list []problem) {
	add := func(key, format string, args ...any) {
		list = append(list, problem{key: key, err: fmt.Errorf(key+format, args...)})
	}
	oneOf := func(key, got string, allowed ...string) {
		if !slices.Contains(allowed, got) {
			add(key, " is %q; it must be one of %s", got, strings.Join(allowed, ", "))
		}
	}
	atLeast := func(key string, got, low int) {
		if got < low {
			add(key, " is %d; it must be at least %d", got, low)
		}
	}
	oneOf("rpcbind", c.Rpcbind, "auto", "off", "embedded")
	oneOf("delegations", c.Delegations, "off", "read", "on")
	oneOf("names", c.Names, "any", "utf-8")
	oneOf("log-level", c.LogLevel, "debug", "info", "warn", "error")
	oneOf("log-format", c.LogFormat, "console", "json")
	if _, err := serverMode(c.ReadMode); err != nil {
		add("read-mode", ": %w", err)
	}
	if _, err := serverMode(c.WriteMode); err != nil {
		add("write-mode", ": %w", err)
	}
	if _, err := c.listenPort(); err != nil {
		list = append(list, problem{key: "listen", err: err})
	}
	if !validDomain(c.IDDomain) {
		add("id-domain", " is %q; it must be a domain of at most %d bytes, as in example.org, or left out for owners as numbers", c.IDDomain, maxDomain)
	}
	if c.State == "" {
		add("state", " is empty; it must be a directory")
	}
	atLeast("threads", c.Threads, 0)
	atLeast("max-connections", c.MaxConnections, 0)
	inBounds := true
	for i := range limitTable {
		if err := limitTable[i].check(*limitTable[i].of(c)); err != nil {
			list, inBounds = append(list, problem{key: limitTable[i].name, err: err}), false
		}
	}
	if err := c.checkPools(); err != nil && inBounds {
		list = append(list, problem{key: "direct-pool", err: err})
	}
	list = append(list, c.Modes.problems()...)
	if c.LeaseTime < minLease || c.LeaseTime > maxLease {
		add("lease-time", " is %v; it must be from %v to %v", c.LeaseTime, minLease, maxLease)
	}
	for key, d := range map[string]time.Duration{"idle-timeout": c.IdleTimeout, "shutdown-timeout": c.ShutdownTimeout, "grace-time": c.GraceTime} {
		if d < 0 {
			add(key, " is %v; it can't be negative", d)
		}
	}
	return list
}

// maxDomain is how long a domain's name may be, in bytes, when it is written
// with dots (RFC 1035, 2.3.4: 255 with the length of each label and the root).
const maxDomain = 253

// validDomain tells whether s may stand behind the "@" of owners' names: labels
// between single dots (RFC 8881, 5.9), which need not be ASCII. "" is none.
func validDomain(s string) bool {
	if s == "" {
		return true
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" {
			return false
		}
	}
	return len(s) <= maxDomain && !strings.ContainsFunc(s, func(r rune) bool {
		return !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !strings.ContainsRune("-_.", r) // U+FFFD, for broken UTF-8, is none of these
	})
}

func (c *Config) listenPort() (uint16, error) {
	_, port, err := net.SplitHostPort(c.Listen)
	if err == nil {
		var p uint64
		if p, err = strconv.ParseUint(port, 10, 16); err == nil {
			return uint16(p), nil
		}
	}
	return 0, fmt.Errorf("listen is %q; it must be ADDRESS:PORT, as in 0.0.0.0:2049 or :2049", c.Listen)
}

// serverMode parses a mode of the whole server, which has none to fall back on.
func serverMode(s string) (dataio.Mode, error) {
	m, err := dataio.ParseMode(s)
	if err == nil && m == dataio.Default {
		err = errDefaultMode
	}
	return m, err
}

var errDefaultMode = errors.New("default is no mode to be configured: choose one of " + modeList + ", or leave the key out")

// targets gives the modes of exports and clients by what they are for, in the
// spelling that is used everywhere.
func (m *ModesConfig) targets() map[target]admin.ModeChoice {
	all := map[target]admin.ModeChoice{}
	for p, mode := range m.Exports {
		all[target{export: path.Clean(p)}] = mode
	}
	for c, mode := range m.Clients {
		if p, err := dataio.ParseClient(c); err == nil {
			all[target{client: dataio.ClientName(p)}] = mode
		}
	}
	return all
}

// problems finds what is wrong with them.
func (m *ModesConfig) problems() (list []problem) {
	add := func(err error, below ...string) {
		list = append(list, problem{key: "modes", below: below, err: fmt.Errorf("modes: %s: %w", strings.Join(below, ": "), err)})
	}
	seen := map[target]string{}
	one := func(kind, name string, t target, mode admin.ModeChoice) {
		if other, ok := seen[t]; ok {
			add(fmt.Errorf("it is the same as %s: write one of them", other), kind, name)
		}
		seen[t] = name
		for _, x := range [][2]string{{"read", mode.Read}, {"write", mode.Write}} {
			if x[1] != "" {
				if _, err := serverMode(x[1]); err != nil {
					add(err, kind, name, x[0])
				}
			}
		}
		if mode == (admin.ModeChoice{}) {
			add(errors.New("it has neither read nor write: add a mode, as in {read: direct}"), kind, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.Exports)) {
		if !strings.HasPrefix(name, "/") {
			add(errors.New("it is no path of an export: it must start with /"), "exports", name)
			continue
		}
		one("exports", name, target{export: path.Clean(name)}, m.Exports[name])
	}
	for _, name := range slices.Sorted(maps.Keys(m.Clients)) {
		p, err := dataio.ParseClient(name)
		if err != nil {
			add(err, "clients", name)
			continue
		}
		one("clients", name, target{client: dataio.ClientName(p)}, m.Clients[name])
	}
	if n := len(m.Clients); n > dataio.MaxClientModes {
		add(fmt.Errorf("there are %d, and the most are %d: write networks that hold several", n, dataio.MaxClientModes), "clients")
	}
	return list
}
