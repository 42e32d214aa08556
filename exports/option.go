// Options: one table row each, and the list parser that walks "ro,sec=sys:none,anonuid=65534".
//
// Linux keeps ro, root_squash and all_squash as flags of the whole entry and again as flags of each flavour that sec= names.
// A flavour starts with the entry's flags of that moment; later options change the entry's flags and those of the flavours
// in the latest sec= only. optState keeps both in the same way, because what an odd mixture means follows from it.

package exports

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
)

// flags are the options that may differ per flavour.
type flags struct{ ro, rootSquash, allSquash bool }

func (f flags) squash() Squash {
	switch {
	case f.allSquash:
		return SquashAll
	case f.rootSquash:
		return SquashRoot
	}
	return SquashNone
}

type secFlags struct {
	auth  AuthFlavor
	flags flags
}

// optState is what the options read so far amount to. It is a value: a client's list starts from a copy of its line's
// defaults.
type optState struct {
	o    Options
	f    flags
	sec  [2]secFlags // sys and none, in the order given
	nsec int
}

// defaultState is exports(5)'s default: ro, sync, wdelay, secure, root_squash, no_subtree_check, anonymous 65534, sec=sys.
func defaultState() optState {
	return optState{
		o: Options{Secure: true, AnonUID: AnonID, AnonGID: AnonID},
		f: flags{ro: true, rootSquash: true},
	}
}

// sysOnly holds the Sec of every entry without sec=, so that a large table shares six of them.
var sysOnly [2][3][]Flavor

func init() {
	for ro := range sysOnly {
		for s := range sysOnly[ro] {
			sysOnly[ro][s] = []Flavor{{AuthSys, ro == 1, Squash(s)}}
		}
	}
}

// options closes the state.
func (st *optState) options() Options {
	o := st.o
	switch {
	case st.nsec == 0:
		ro := 0
		if st.f.ro {
			ro = 1
		}
		o.Sec = sysOnly[ro][st.f.squash()]
	default:
		o.Sec = make([]Flavor, st.nsec)
		for i, s := range st.sec[:st.nsec] {
			o.Sec[i] = Flavor{s.auth, s.flags.ro, s.flags.squash()}
		}
	}
	o.ReadOnly, o.Squash = o.Sec[0].ReadOnly, o.Sec[0].Squash
	return o
}

// optParser is the walk over one list.
type optParser struct {
	st        *optState
	active    [2]bool // flavours of the latest sec= of this list
	anyActive bool
	seen      map[string]string // last option of each group in this list
	touched   string            // an option that differs per flavour, given without sec= in this list
	sawSec    bool
}

// vary changes the flags of the entry and of the flavours in the latest sec=.
func (p *optParser) vary(change func(*flags)) {
	change(&p.st.f)
	for i := range p.st.sec[:p.st.nsec] {
		if p.active[i] {
			change(&p.st.sec[i].flags)
		}
	}
}

type valueKind uint8

const (
	noValue valueKind = iota
	needsValue
	mayHaveValue
)

// An option is one row of the table. set returns what is wrong with the value, and a remedy.
type option struct {
	name  string
	value valueKind
	group string // options of one group override each other
	set   func(p *optParser, name, value string) (problem, remedy string)
	inert string // accepted without effect: why
}

func flag(name, group string, change func(*Options)) option {
	return option{name: name, group: group, set: func(p *optParser, _, _ string) (string, string) {
		change(&p.st.o)
		return "", ""
	}}
}

func varying(name, group string, change func(*flags)) option {
	return option{name: name, group: group, set: func(p *optParser, name, _ string) (string, string) {
		p.vary(change)
		if !p.anyActive {
			p.touched = name
		}
		return "", ""
	}}
}

func inert(name string, value valueKind, group, why string) option {
	return option{name: name, value: value, group: group, inert: why}
}

const (
	whyDelay = "Sluice joins writes that arrive together by itself"
	whyACL   = "Sluice does not serve the ACL protocol"
	whyLocks = "lock requests are checked like every other request"
	whyRefer = "Sluice serves the directory itself and refers clients nowhere"
	whyPNFS  = "Sluice does not hand out layouts"
	whyLabel = "Sluice does not serve security labels"
)

var optionTable = []option{
	varying("ro", "ro/rw", func(f *flags) { f.ro = true }),
	varying("rw", "ro/rw", func(f *flags) { f.ro = false }),
	flag("sync", "sync/async", func(o *Options) { o.Async = false }),
	flag("async", "sync/async", func(o *Options) { o.Async = true }),
	flag("secure", "secure/insecure", func(o *Options) { o.Secure = true }),
	flag("insecure", "secure/insecure", func(o *Options) { o.Secure = false }),
	varying("root_squash", "root_squash", func(f *flags) { f.rootSquash = true }),
	varying("no_root_squash", "root_squash", func(f *flags) { f.rootSquash = false }),
	varying("all_squash", "all_squash", func(f *flags) { f.allSquash = true }),
	varying("no_all_squash", "all_squash", func(f *flags) { f.allSquash = false }),
	{name: "anonuid", value: needsValue, group: "anonuid", set: setAnon},
	{name: "anongid", value: needsValue, group: "anongid", set: setAnon},
	{name: "fsid", value: needsValue, set: setFSID},
	flag("subtree_check", "subtree_check", func(o *Options) { o.SubtreeCheck = true }),
	flag("no_subtree_check", "subtree_check", func(o *Options) { o.SubtreeCheck = false }),
	flag("nohide", "hide", func(o *Options) { o.Nohide = true }),
	flag("hide", "hide", func(o *Options) { o.Nohide = false }),
	flag("crossmnt", "crossmnt", func(o *Options) { o.Crossmnt = true }),
	flag("nocrossmnt", "crossmnt", func(o *Options) { o.Crossmnt = false }),
	{name: "mp", value: mayHaveValue, group: "mountpoint", set: setMountPoint},
	{name: "mountpoint", value: mayHaveValue, group: "mountpoint", set: setMountPoint},
	flag("nordirplus", "nordirplus", func(o *Options) { o.NoReaddirplus = true }),
	{name: "sec", value: needsValue, set: setSec},
	inert("wdelay", noValue, "wdelay", whyDelay),
	inert("no_wdelay", noValue, "wdelay", whyDelay),
	inert("acl", noValue, "acl", whyACL),
	inert("no_acl", noValue, "acl", whyACL),
	inert("auth_nlm", noValue, "nlm", whyLocks),
	inert("secure_locks", noValue, "nlm", whyLocks),
	inert("no_auth_nlm", noValue, "nlm", whyLocks),
	inert("insecure_locks", noValue, "nlm", whyLocks),
	inert("refer", needsValue, "", whyRefer),
	inert("replicas", needsValue, "", whyRefer),
	inert("pnfs", noValue, "pnfs", whyPNFS),
	inert("no_pnfs", noValue, "pnfs", whyPNFS),
	inert("security_label", noValue, "", whyLabel),
}

var optionByName = make(map[string]*option, len(optionTable))

func init() {
	for i := range optionTable {
		optionByName[optionTable[i].name] = &optionTable[i]
	}
}

// unsupported are options that Linux knows and Sluice refuses, because what they promise would not hold.
var unsupported = map[string]string{
	"xprtsec":     "transport security cannot be demanded per export",
	"reexport":    "re-exporting needs fsid=NUM on each export here",
	"sign_fh":     "Sluice authenticates every file handle; leave the option out",
	"squash_uids": "use all_squash with anonuid and anongid",
	"squash_gids": "use all_squash with anonuid and anongid",
}

// mountOptions are options of mount.nfs(8) and mount(8) that people write into exports by mistake.
var mountOptions = map[string]bool{
	"defaults": true, "hard": true, "soft": true, "intr": true, "nointr": true, "bg": true, "fg": true, "tcp": true, "udp": true,
	"vers": true, "nfsvers": true, "minorversion": true, "proto": true, "mountproto": true, "port": true, "mountport": true,
	"rsize": true, "wsize": true, "timeo": true, "retrans": true, "retry": true, "lock": true, "nolock": true, "local_lock": true,
	"actimeo": true, "ac": true, "noac": true, "cto": true, "nocto": true, "lookupcache": true, "nconnect": true, "rdirplus": true,
	"noatime": true, "relatime": true, "auto": true, "noauto": true, "exec": true, "noexec": true, "suid": true, "nosuid": true,
	"dev": true, "nodev": true, "user": true, "nouser": true, "_netdev": true, "remount": true, "fsc": true, "sharecache": true,
}

// parse reads list into p.st. off gives the file offset of a byte of list; fail and warn report.
func (p *optParser) parse(list string, off func(int) int, fail, warn func(offset int, msg, remedy string)) {
	inherited := p.st.nsec > 0
	p.seen = make(map[string]string)
	for i := 0; ; {
		for i < len(list) && (list[i] == ' ' || list[i] == '\t') {
			i++
		}
		if i >= len(list) {
			break
		}
		start := i
		for i < len(list) && list[i] != ',' {
			i++
		}
		p.one(list[start:i], start, off, fail, warn)
		i++ // the comma; one at the end is harmless, as in Linux
	}
	if inherited && !p.sawSec && p.touched != "" {
		warn(off(0), fmt.Sprintf("%s does not change the flavours that the sec= of this line's defaults has set up", p.touched),
			"write sec= before it in this client's list")
	}
}

func (p *optParser) one(text string, start int, off func(int) int, fail, warn func(int, string, string)) {
	at := off(start)
	name, value, hasValue := strings.Cut(text, "=")
	opt := optionByName[name]
	if opt == nil {
		problem, remedy := unknownOption(text, name)
		fail(at, problem, remedy)
		return
	}
	switch {
	case opt.value == noValue && hasValue:
		fail(at, fmt.Sprintf("option %s takes no value", name), fmt.Sprintf("write just %s; to name a client, write CLIENT(%s)", name, name))
		return
	case opt.value == needsValue && !hasValue:
		fail(at, fmt.Sprintf("option %s needs a value", name), valueHint[name])
		return
	}
	if opt.group != "" {
		if before := p.seen[opt.group]; before != "" && before != text {
			warn(at, fmt.Sprintf("%s overrides the %s before it in the same list", text, before), "keep one of the two")
		}
		p.seen[opt.group] = text
	}
	if opt.inert != "" {
		warn(at, fmt.Sprintf("option %s is accepted but has no effect: %s", name, opt.inert), "")
		return
	}
	if problem, remedy := opt.set(p, name, value); problem != "" {
		fail(at, problem, remedy)
	}
}

var valueHint = map[string]string{
	"anonuid":  "write anonuid=NUMBER",
	"anongid":  "write anongid=NUMBER",
	"fsid":     "write fsid=NUMBER, fsid=root or fsid=UUID",
	"sec":      "write sec=sys, sec=none or sec=sys:none",
	"refer":    "write refer=PATH@HOST, or leave it out",
	"replicas": "write replicas=PATH@HOST, or leave it out",
}

func unknownOption(text, name string) (problem, remedy string) {
	switch {
	case text == "":
		return "empty option", "remove the extra comma"
	case strings.TrimRight(text, " \t") != text || strings.ContainsAny(name, " \t"):
		return fmt.Sprintf("option %q contains a blank", text), "write the options without blanks, separated by commas"
	case unsupported[name] != "":
		return fmt.Sprintf("option %s is not supported", name), unsupported[name]
	case mountOptions[name]:
		return fmt.Sprintf("%s is an option of the client's mount command, not of exports", name), "give it to mount -o on the client"
	}
	if s := suggest(name); s != "" {
		return fmt.Sprintf("unknown option %q", text), fmt.Sprintf("did you mean %q?", s)
	}
	return fmt.Sprintf("unknown option %q", text), "docs/exports.md lists the options"
}

// setAnon reads an id as Linux does: decimal, a sign allowed, -2 meaning 2^32-2. Past 32 bits Linux wraps around; here that
// is an error, and so is -1: exportfs takes it, but the kernel's server then refuses the export (svc_export_parse in
// fs/nfsd/export.c), and to setfsuid(2) it means "stay who you are".
func setAnon(p *optParser, name, value string) (problem, remedy string) {
	id, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil && !isOutOfRange(err):
		return fmt.Sprintf("%s=%s is not a number", name, value), fmt.Sprintf("write the numeric id, for example %s=%d", name, AnonID)
	case err != nil || id < -1<<31 || id > InvalidID:
		return fmt.Sprintf("%s=%s does not fit into 32 bits", name, value), fmt.Sprintf("write an id from 0 to %d", uint32(InvalidID-1))
	case uint32(id) == InvalidID:
		return fmt.Sprintf("%s=%s is no usable id: the kernel reads it as \"no change\"", name, value), fmt.Sprintf("write %s=%d for nobody", name, AnonID)
	}
	if name == "anonuid" {
		p.st.o.AnonUID = uint32(id)
	} else {
		p.st.o.AnonGID = uint32(id)
	}
	return "", ""
}

func isOutOfRange(err error) bool {
	e, ok := err.(*strconv.NumError)
	return ok && e.Err == strconv.ErrRange
}

// setFSID reads root, a number in C notation (0x and 0 prefixes), or a UUID: 32 hexadecimal digits with any punctuation
// between them. A number wins over a UUID whatever their order, as in the kernel's set_version_and_fsid_type
// (fs/nfsd/nfsfh.c). Linux truncates numbers past 32 bits, so that 2^32 becomes the root; here they are an error.
func setFSID(p *optParser, _, value string) (problem, remedy string) {
	if value == "root" {
		p.st.o.FSID = FSID{Kind: FSIDRoot}
		return "", ""
	}
	num, isNumber, fits := cNumber(value)
	if isNumber && fits {
		p.st.o.FSID = FSID{Kind: FSIDNum, Num: num}
		if num == 0 {
			p.st.o.FSID = FSID{Kind: FSIDRoot}
		}
		return "", ""
	}
	if uuid, ok := parseUUID(value); ok {
		if k := p.st.o.FSID.Kind; k == FSIDNone || k == FSIDUUID {
			p.st.o.FSID = FSID{Kind: FSIDUUID, UUID: uuid}
		}
		return "", ""
	}
	if isNumber {
		return fmt.Sprintf("fsid=%s does not fit into 32 bits", value), "choose a number below 4294967296"
	}
	return fmt.Sprintf("fsid=%s is neither a number, nor root, nor a UUID of 32 hexadecimal digits", value), valueHint["fsid"]
}

func cNumber(s string) (v uint32, isNumber, fits bool) {
	neg := strings.HasPrefix(s, "-")
	if neg || strings.HasPrefix(s, "+") {
		s = s[1:]
	}
	base := 10
	if strings.HasPrefix(s, "0x") || strings.HasPrefix(s, "0X") {
		s, base = s[2:], 16
	} else if len(s) > 1 && s[0] == '0' {
		base = 8
	}
	if s == "" || s[0] == '+' || s[0] == '-' || strings.Contains(s, "_") {
		return 0, false, false
	}
	n, err := strconv.ParseUint(s, base, 64)
	if err != nil {
		return 0, isOutOfRange(err), false
	}
	if neg {
		return uint32(-int64(n)), true, n <= 1<<31
	}
	return uint32(n), true, n <= 1<<32-1
}

func parseUUID(s string) (uuid [16]byte, ok bool) {
	var digits []byte
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F':
			digits = append(digits, c)
		case c >= 'g' && c <= 'z' || c >= 'G' && c <= 'Z':
			return uuid, false // a letter is no punctuation: most likely a slip
		}
	}
	if len(digits) != 32 {
		return uuid, false
	}
	_, err := hex.Decode(uuid[:], digits)
	return uuid, err == nil
}

func setMountPoint(p *optParser, name, value string) (problem, remedy string) {
	switch {
	case value == "":
		p.st.o.MountPoint = "."
	case value[0] != '/':
		return fmt.Sprintf("%s=%s is not an absolute path", name, value), "start the path with /"
	case len(value) > MaxPath:
		return fmt.Sprintf("the path of %s= is longer than %d bytes", name, MaxPath), "use a shorter path"
	default:
		p.st.o.MountPoint = cleanPath(value)
	}
	return "", ""
}

// setSec opens the list of flavours; "unix" and "null" are Linux's other names for sys and none.
func setSec(p *optParser, _, value string) (problem, remedy string) {
	p.sawSec = true
	p.active, p.anyActive = [2]bool{}, false
	clear(p.seen) // what follows is about other flavours
	for name := range strings.SplitSeq(value, ":") {
		var auth AuthFlavor
		switch name {
		case "sys", "unix":
			auth = AuthSys
		case "none", "null":
			auth = AuthNone
		case "krb5", "krb5i", "krb5p":
			return fmt.Sprintf("security flavour %s is not supported", name), "use sec=sys, or sec=none for anonymous access"
		case "":
			return "sec= names no flavour, or an empty one", valueHint["sec"]
		default:
			return fmt.Sprintf("unknown security flavour %q", name), "the flavours are sys and none"
		}
		i := 0
		for i < p.st.nsec && p.st.sec[i].auth != auth {
			i++
		}
		if i == p.st.nsec {
			p.st.sec[i] = secFlags{auth, p.st.f}
			p.st.nsec++
		}
		p.active[i], p.anyActive = true, true
	}
	return "", ""
}

// suggest finds the option that name was probably meant to be, or "".
func suggest(name string) string {
	plain := func(s string) string { return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(s)) }
	want := plain(name)
	if len(want) > 32 {
		return ""
	}
	best, bestDistance := "", 3
	if len(want) <= 4 {
		bestDistance = 2
	}
	for i := range optionTable {
		have := plain(optionTable[i].name)
		if d := distance(want, have); d < bestDistance && d < len(want) {
			best, bestDistance = optionTable[i].name, d
		}
	}
	return best
}

// distance counts the insertions, deletions, replacements and swaps of neighbours that turn a into b.
func distance(a, b string) int {
	prev2, prev, cur := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range prev {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], prev2[j-2]+1)
			}
		}
		prev2, prev, cur = prev, cur, prev2
	}
	return prev[len(b)]
}
