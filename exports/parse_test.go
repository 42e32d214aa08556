// Tests of the grammar: the whole of exports(5), with what nfs-utils 2.6.2's exportfs makes of each line written beside the
// cases that exports(5) leaves open.

package exports

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// show writes a Set as "path client(what differs from the defaults)", for the tables below.
func show(s *Set) string {
	var b strings.Builder
	for _, e := range s.Exports() {
		for i := range e.Clients {
			c := &e.Clients[i]
			fmt.Fprintf(&b, "%s %s(%s)\n", e.Path, c.Spec, terse(&c.Options))
		}
	}
	return b.String()
}

func terse(o *Options) string {
	var list []string
	add := func(on bool, s string) {
		if on {
			list = append(list, s)
		}
	}
	flavor := func(f Flavor) string {
		s := "ro"
		if !f.ReadOnly {
			s = "rw"
		}
		if f.Squash != SquashRoot {
			s += "," + f.Squash.String()
		}
		return s
	}
	for i, f := range o.Sec {
		if i == 0 && f.Auth == AuthSys && len(o.Sec) == 1 {
			list = append(list, flavor(f))
			continue
		}
		list = append(list, f.Auth.String()+":"+flavor(f))
	}
	add(o.Async, "async")
	add(!o.Secure, "insecure")
	add(o.SubtreeCheck, "subtree_check")
	add(o.Nohide, "nohide")
	add(o.Crossmnt, "crossmnt")
	add(o.NoReaddirplus, "nordirplus")
	add(o.FSID.Kind != FSIDNone, "fsid="+o.FSID.String())
	add(o.MountPoint != "", "mp="+o.MountPoint)
	add(o.AnonUID != AnonID, fmt.Sprintf("anonuid=%d", o.AnonUID))
	add(o.AnonGID != AnonID, fmt.Sprintf("anongid=%d", o.AnonGID))
	return strings.Join(list, ",")
}

func showWarnings(warns []Warning) string {
	var b strings.Builder
	for _, w := range warns {
		fmt.Fprintf(&b, "%d:%d %s\n", w.Line, w.Column, w.Msg)
	}
	return b.String()
}

func TestGrammar(t *testing.T) {
	for _, test := range []struct{ name, in, want, warn string }{
		{"empty", "", "", ""},
		{"blank lines and comments", "\n  \n# comment\n\t# another \\\n", "", ""},
		{"no newline at the end", "/a h(rw)", "/a h(rw)\n", ""},
		{"several clients", "/a h1(rw) h2 10.0.0.1(ro,async)\n", "/a h1(rw)\n/a h2(ro)\n/a 10.0.0.1(ro,async)\n", ""},
		{"tabs and blanks", " \t/a\t\th1(rw)  \t h2(ro) \t\n", "/a h1(rw)\n/a h2(ro)\n", ""},
		{"carriage returns", "/a h1(rw)\r\n/b h2(rw)\r\n", "/a h1(rw)\n/b h2(rw)\n", ""},
		{"byte order mark", "\xef\xbb\xbf/a h1(rw)\n", "/a h1(rw)\n", ""},
		{"empty option list", "/a h()\n", "/a h(ro)\n", ""},
		{"comma at the end", "/a h(rw,)\n", "/a h(rw)\n", ""},
		{"comment after a client", "/a h(rw) # h2(rw)\n/b h(rw)\n", "/a h(rw)\n/b h(rw)\n", ""},
		{"hash inside a word", "/a# h(rw)\n", "/a# h(rw)\n", ""},
		{"quoted hash", "\"/a #b\" h(rw)\n", "/a #b h(rw)\n", ""},

		{"quotes", "\"/a b\" h(rw)\n", "/a b h(rw)\n", ""},
		{"quotes inside words", "\"/a\"/b h\"(rw\")\n", "/a/b h(rw)\n", ""},
		{"quotes around a client", "/a \"h(rw, async)\"\n", "/a h(rw,async)\n", ""},
		{"octal", `/a\040b h(rw)`, "/a b h(rw)\n", ""},
		{"octal letters and parentheses", `/\141 h\050rw\051`, "/a h(rw)\n", ""},
		{"octal quote", `/a\042 h(rw)`, "/a\" h(rw)\n", ""},
		{"octal is decoded once", `/\134142 h(rw)`, `/\142 h(rw)` + "\n", ""},
		{"octal needs three digits up to 377", `/\04x/\400 h(rw)`, `/\04x/\400 h(rw)` + "\n", ""},

		{"continuation", "/a \\\n  h1(rw) \\\n\th2(ro)\n/b h\n", "/a h1(rw)\n/a h2(ro)\n/b h(ro)\n", ""},
		{"continuation ends a word", "/a h1\\\nh2(rw)\n", "/a h1(ro)\n/a h2(rw)\n", ""},
		{"continuation inside quotes is one blank", "\"/a\\\n   b\" h(rw)\n", "/a b h(rw)\n", ""},
		{"continuation before an empty line", "/a h(rw) \\\n\n/b h(rw)\n", "/a h(rw)\n/b h(rw)\n", ""},
		{"continuation with carriage return", "/a \\\r\n h(rw)\r\n", "/a h(rw)\n", ""},
		{"continuation at the end of the file", "/a h(rw) \\", "/a h(rw)\n", ""},
		{"continuation, then comment", "/a h1(rw) \\\n # h2(rw)\n/b h(rw)\n", "/a h1(rw)\n/b h(rw)\n", ""},

		{"defaults", "/a -rw h1 -async h2 -insecure h3(ro)\n", "/a h1(rw)\n/a h2(rw,async)\n/a h3(ro,async,insecure)\n", ""},
		{"defaults apply to what follows only", "/a h1 -rw h2\n", "/a h1(ro)\n/a h2(rw)\n", ""},
		{"defaults end with the line", "/a -rw h1\n/b h1\n", "/a h1(rw)\n/b h1(ro)\n", ""},
		{"two defaults in a row", "/a -rw -async h\n", "/a h(rw,async)\n", ""}, // exports(5) allows it; exportfs takes the second for a host
		{"empty defaults", "/a - h\n", "/a h(ro)\n", ""},
		{"exports(5)'s example", "/srv/www -sync,rw server @trusted @external(ro)\n", "/srv/www server(rw)\n/srv/www @trusted(rw)\n/srv/www @external(ro)\n", ""},

		{"no client", "/a\n", "/a *(ro)\n", "1:1 no client is named, so /a is exported to everyone (ro)\n"},
		{"no client after defaults", "/a -rw\n", "/a *(rw)\n", "1:1 no client is named, so /a is exported to everyone (rw)\n"},
		{"no client, only a comment", "/a # h(rw)\n", "/a *(ro)\n", "1:1 no client is named, so /a is exported to everyone (ro)\n"},
		{"options on the path", "/a(rw)\n", "/a(rw) *(ro)\n", "1:1 no client is named, so /a(rw) is exported to everyone (ro)\n1:3 the options are part of the path\n"},
		{"options without a client", "/a (rw)\n", "/a *(rw)\n", "1:4 no client is named before (rw), so it applies to everyone\n"},
		{"the stray blank", "/a h (rw)\n", "/a h(ro)\n/a *(rw)\n", "1:6 the blank between \"h\" and \"(rw)\" makes two clients: h gets the defaults, and everyone gets (rw)\n"},
		{"the stray blank across lines", "/a h \\\n (rw)\n", "/a h(ro)\n/a *(rw)\n", "2:2 the blank between \"h\" and \"(rw)\" makes two clients: h gets the defaults, and everyone gets (rw)\n"},
		{"no stray blank after options", "/a h(ro) (rw)\n", "/a h(ro)\n/a *(rw)\n", "1:10 no client is named before (rw), so it applies to everyone\n"},

		{"paths are tidied", "//a///b/./c/ h(rw)\n/./ h(rw)\n/a/../b h(rw)\n/... h(rw)\n", "/a/b/c h(rw)\n/ h(rw)\n/a/../b h(rw)\n/... h(rw)\n", ""},
		{"one path on several lines", "/a h1(rw)\n/b h1(rw)\n/a/ h2(ro)\n", "/a h1(rw)\n/a h2(ro)\n/b h1(rw)\n", ""},
		{"the first of two equal clients counts", "/a h(rw)\n/a H.(ro)\n", "/a h(rw)\n", "2:4 client h of /a is listed twice, and these options are ignored\n"},
		{"a harmless repetition", "/a h(rw) h(rw)\n", "/a h(rw)\n", "1:10 client h of /a is listed twice\n"},
		{"networks are compared by meaning", "/a 10.0.0.0/8(rw) 10.0.0.0/255.0.0.0(ro)\n", "/a 10.0.0.0/8(rw)\n", "1:19 client 10.0.0.0/8 of /a is listed twice, and these options are ignored\n"},
		{"everyone twice", "/a *(rw) (ro)\n", "/a *(rw)\n", "1:10 no client is named before (ro), so it applies to everyone\n1:10 client * of /a is listed twice, and these options are ignored\n"},
		{"netgroup names keep their case", "/a @G(rw) @g(ro)\n", "/a @G(rw)\n/a @g(ro)\n", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, warns, err := Parse("f", []byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if got := show(s); got != test.want {
				t.Errorf("got\n%swant\n%s", got, test.want)
			}
			if got := showWarnings(warns); got != test.warn {
				t.Errorf("warnings\n%swant\n%s", got, test.warn)
			}
		})
	}
}

func TestClients(t *testing.T) {
	for _, test := range []struct {
		in, spec string
		class    Class
		warn     string
	}{
		{"Host.Example.ORG.", "host.example.org", ClassHost, ""},
		{"host_1-x", "host_1-x", ClassHost, ""},
		{"1host", "1host", ClassHost, ""},
		{"10.1.2.3", "10.1.2.3", ClassHost, ""},
		{"2001:DB8::0:1", "2001:db8::1", ClassHost, ""},
		{"::1", "::1", ClassHost, ""},
		{"::ffff:10.0.0.1", "10.0.0.1", ClassHost, ""},
		{"fe80::1%eth0", "fe80::1%eth0", ClassHost, ""},
		{"fe80::1", "fe80::1", ClassHost, "the link-local address fe80::1 matches no client without its interface"},
		{"0.0.0.0", "0.0.0.0", ClassHost, "no client has the address 0.0.0.0"},
		{"10.0.0.0/24", "10.0.0.0/24", ClassNetwork, ""},
		{"10.0.0.0/255.255.255.0", "10.0.0.0/24", ClassNetwork, ""},
		{"10.0.0.0/255.255.0.255", "10.0.0.0/255.255.0.255", ClassNetwork, ""},
		{"10.0.0.7/24", "10.0.0.0/24", ClassNetwork, "network 10.0.0.7/24 has bits set outside its mask"},
		{"10.0.0.7/32", "10.0.0.7/32", ClassNetwork, ""},
		{"0.0.0.0/0", "0.0.0.0/0", ClassNetwork, ""},
		{"::/0", "::/0", ClassNetwork, ""},
		{"2001:db8::/32", "2001:db8::/32", ClassNetwork, ""},
		{"2001:db8::/65", "2001:db8::/65", ClassNetwork, ""},
		{"2001:db8::/128", "2001:db8::/128", ClassNetwork, ""},
		{"2001:db8::/ffff:ffff::", "2001:db8::/32", ClassNetwork, ""},
		{"2001:db8::5/ffff::ffff", "2001::5/ffff::ffff", ClassNetwork, "network 2001:db8::5/ffff::ffff has bits set outside its mask"},
		{"::ffff:10.0.0.0/104", "10.0.0.0/8", ClassNetwork, ""},
		{"*.example.org", "*.example.org", ClassWildcard, ""},
		{"Host?.Example.org", "host?.example.org", ClassWildcard, ""},
		{"build[0-9a].x", "build[0-9a].x", ClassWildcard, ""},
		{"[]x].y", "[]x].y", ClassWildcard, ""},
		{"[^-a].y", "[^-a].y", ClassWildcard, ""},
		{"**", "**", ClassWildcard, ""},
		{"192.168.1.*", "192.168.1.*", ClassWildcard, "wildcard 192.168.1.* matches host names, never addresses"},
		{"*.x.", "*.x.", ClassWildcard, "wildcard *.x. matches no host: names are compared without a dot at the end"},
		{"@Trusted", "@Trusted", ClassNetgroup, ""},
		{"*", "*", ClassAny, ""},
	} {
		s, warns, err := Parse("f", []byte("/a "+test.in+"(rw)\n"))
		if err != nil {
			t.Errorf("%s: %v", test.in, err)
			continue
		}
		c := s.Exports()[0].Clients[0]
		if c.Spec != test.spec || c.Class != test.class {
			t.Errorf("%s: %s %s, want %s %s", test.in, c.Class, c.Spec, test.class, test.spec)
		}
		warn := ""
		if len(warns) > 0 {
			warn = warns[0].Msg
		}
		if warn != test.warn {
			t.Errorf("%s: warning %q, want %q", test.in, warn, test.warn)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, test := range []struct{ in, want, warn string }{
		{"", "ro", ""},
		{"ro", "ro", ""},
		{"rw", "rw", ""},
		{"sync", "ro", ""},
		{"async", "ro,async", ""},
		{"secure", "ro", ""},
		{"insecure", "ro,insecure", ""},
		{"root_squash", "ro", ""},
		{"no_root_squash", "ro,no_root_squash", ""},
		{"all_squash", "ro,all_squash", ""},
		{"no_all_squash", "ro", ""},
		{"all_squash,no_root_squash", "ro,all_squash", ""}, // all_squash wins, as in nfsd_setuser
		{"anonuid=150,anongid=100", "ro,anonuid=150,anongid=100", ""},
		{"anonuid=-2", "ro,anonuid=4294967294", ""},
		{"anonuid=4294967294", "ro,anonuid=4294967294", ""},
		{"anongid=-2147483648", "ro,anongid=2147483648", ""},
		{"anonuid=+012", "ro,anonuid=12", ""}, // strtol with base 10
		{"anonuid=0", "ro,anonuid=0", "anonuid=0 makes the anonymous callers of client h root"},
		{"anongid=0", "ro,anongid=0", "anongid=0 makes the anonymous callers of client h root"},
		{"anonuid=0,no_root_squash", "ro,no_root_squash,anonuid=0", ""},
		{"fsid=5", "ro,fsid=5", ""},
		{"fsid=0", "ro,fsid=root", ""},
		{"fsid=root", "ro,fsid=root", ""},
		{"fsid=0x10", "ro,fsid=16", ""},
		{"fsid=010", "ro,fsid=8", ""},
		{"fsid=-1", "ro,fsid=4294967295", ""},
		{"fsid=4294967295", "ro,fsid=4294967295", ""},
		{"fsid=12345678-1234-1234-1234-123456789ABC", "ro,fsid=12345678-1234-1234-1234-123456789abc", ""},
		{"fsid=12345678:12341234:12341234:56789abc", "ro,fsid=12345678-1234-1234-1234-123456789abc", ""},
		{"fsid=12345678123412341234123456789012", "ro,fsid=12345678-1234-1234-1234-123456789012", ""}, // exportfs: fsid=-1
		{"fsid=7,fsid=12345678-1234-1234-1234-123456789abc", "ro,fsid=7", ""},
		{"fsid=12345678-1234-1234-1234-123456789abc,fsid=7", "ro,fsid=7", ""},
		{"subtree_check", "ro,subtree_check", ""},
		{"no_subtree_check", "ro", ""},
		{"nohide", "ro,nohide", ""},
		{"hide", "ro", ""},
		{"crossmnt", "ro,crossmnt", ""},
		{"nocrossmnt", "ro", ""},
		{"mp", "ro,mp=.", ""},
		{"mountpoint", "ro,mp=.", ""},
		{"mp=", "ro,mp=.", ""},
		{"mp=/x//y/", "ro,mp=/x/y", ""},
		{"mountpoint=/x", "ro,mp=/x", ""},
		{"nordirplus", "ro,nordirplus", ""},
		{"sec=sys", "ro", ""},
		{"sec=unix", "ro", ""},
		{"sec=none", "none:ro", ""},
		{"sec=null", "none:ro", ""},
		{"sec=sys:none", "sys:ro,none:ro", ""},
		{"sec=none:sys", "none:ro,sys:ro", ""},
		{"rw,sec=sys:none", "sys:rw,none:rw", ""},
		{"sec=sys:none,rw", "sys:rw,none:rw", ""},
		{"sec=sys,rw,sec=none,ro,all_squash", "sys:rw,none:ro,all_squash", ""},
		{"rw,sec=sys,ro,sec=none,all_squash,async", "sys:ro,none:ro,all_squash,async", ""}, // none starts from the entry's flags, ro by then
		{"sec=sys,ro,sec=sys:none,rw", "sys:rw,none:rw", ""},
		{"sec=sys,insecure,sec=none,no_root_squash", "sys:ro,none:ro,no_root_squash,insecure", ""},
		{"no_root_squash,sec=sys,all_squash,sec=none,no_all_squash", "sys:ro,all_squash,none:ro,no_root_squash", ""},
		{"rw,ro", "ro", "ro overrides the rw before it in the same list"},
		{"rw,rw", "rw", ""},
		{"anonuid=1,anonuid=2", "ro,anonuid=2", "anonuid=2 overrides the anonuid=1 before it in the same list"},
		{"wdelay", "ro", "option wdelay is accepted but has no effect: " + whyDelay},
		{"no_wdelay", "ro", "option no_wdelay is accepted but has no effect: " + whyDelay},
		{"no_acl", "ro", "option no_acl is accepted but has no effect: " + whyACL},
		{"acl", "ro", "option acl is accepted but has no effect: " + whyACL},
		{"insecure_locks", "ro", "option insecure_locks is accepted but has no effect: " + whyLocks},
		{"no_auth_nlm", "ro", "option no_auth_nlm is accepted but has no effect: " + whyLocks},
		{"auth_nlm", "ro", "option auth_nlm is accepted but has no effect: " + whyLocks},
		{"secure_locks", "ro", "option secure_locks is accepted but has no effect: " + whyLocks},
		{"refer=/a@h+h2:/b@h3", "ro", "option refer is accepted but has no effect: " + whyRefer},
		{"replicas=/a@h", "ro", "option replicas is accepted but has no effect: " + whyRefer},
		{"pnfs", "ro", "option pnfs is accepted but has no effect: " + whyPNFS},
		{"no_pnfs", "ro", "option no_pnfs is accepted but has no effect: " + whyPNFS},
		{"security_label", "ro", "option security_label is accepted but has no effect: " + whyLabel},
	} {
		s, warns, err := Parse("f", []byte(`/a "h(`+test.in+`)"`))
		if err != nil {
			t.Errorf("%s: %v", test.in, err)
			continue
		}
		o := s.Exports()[0].Clients[0].Options
		if got := terse(&o); got != test.want {
			t.Errorf("%s: got %s, want %s", test.in, got, test.want)
		}
		if got := strings.TrimSuffix(showWarnings(warns), "\n"); (test.warn == "") != (got == "") || !strings.HasSuffix(got, test.warn) {
			t.Errorf("%s: warning %q, want %q", test.in, got, test.warn)
		}
		if o.ReadOnly != o.Sec[0].ReadOnly || o.Squash != o.Sec[0].Squash {
			t.Errorf("%s: the options are not those of the first flavour", test.in)
		}
	}
}

// Every row of the option table must be tried by TestOptions or TestErrors.
func TestEveryOptionIsTested(t *testing.T) {
	text, err := os.ReadFile("parse_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range optionTable {
		if !bytes.Contains(text, []byte(`{"`+o.name)) {
			t.Errorf("no test row for option %s", o.name)
		}
	}
}

// The user guide must name every option, and the limits as they are.
func TestGuideIsComplete(t *testing.T) {
	text, err := os.ReadFile("../docs/exports.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range optionTable {
		if !bytes.Contains(text, []byte("`"+o.name+"`")) && !bytes.Contains(text, []byte("`"+o.name+"=")) {
			t.Errorf("docs/exports.md does not name option %s", o.name)
		}
	}
	for _, limit := range []string{"| 4 MiB |", "| 256 KiB |", "| 1,000 |", "| 10,000 |", "| 4,096 and 65,536 |", "| 1,024 and 255 bytes"} {
		if !bytes.Contains(text, []byte(limit)) {
			t.Errorf("docs/exports.md does not say %q", limit)
		}
	}
	if MaxFileSize != 4<<20 || MaxLine != 256<<10 || MaxDropIns != 1000 || MaxExports != 10000 || MaxClients != 4096 || MaxAllClients != 65536 || MaxPath != 1024 || MaxClientName != 255 {
		t.Error("a limit has changed: change docs/exports.md with it")
	}
	o := mustParse(t, "/a h").Exports()[0].Clients[0].Options
	if want := "The default is `ro,sync,secure,root_squash,no_subtree_check,hide,nocrossmnt,anonuid=65534,anongid=65534,sec=sys`"; !bytes.Contains(text, []byte(want)) ||
		!o.equal(&mustParse(t, "/a h(ro,sync,secure,root_squash,no_subtree_check,hide,nocrossmnt,anonuid=65534,anongid=65534,sec=sys)").Exports()[0].Clients[0].Options) {
		t.Error("the defaults in docs/exports.md are not those in force")
	}
}

func TestSecDefaultsTrap(t *testing.T) {
	s, warns, err := Parse("f", []byte("/a -sec=sys,ro h1(rw) h2(sec=none,rw) h3(sec=sys,rw)\n"))
	if err != nil {
		t.Fatal(err)
	}
	// As exportfs: rw of h1's list reaches no flavour, h2 gets a flavour of its own, h3 says what it means.
	if got, want := show(s), "/a h1(ro)\n/a h2(sys:ro,none:rw)\n/a h3(rw)\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := showWarnings(warns); got != "1:19 rw does not change the flavours that the sec= of this line's defaults has set up\n" {
		t.Errorf("warnings\n%s", got)
	}
}

func TestErrors(t *testing.T) {
	long := strings.Repeat("x", 300)
	for _, test := range []struct{ name, in, want string }{
		{"relative path", "a/b h(rw)\n", `1:1 "a/b" is not an absolute path`},
		{"line without its continuation", "/a \\ \n  h(rw)\n", `2:3 "h(rw)" is not an absolute path|1:4 client "\\" contains a backslash`},
		{"empty path", "\"\" h(rw)\n", `1:1 "" is not a path`},
		{"empty client", "/a \"\" h(rw)\n", `1:4 "" names no client`},
		{"long path", "/" + strings.Repeat("a", MaxPath) + " h(rw)\n", `1:1 the path is longer than 1024 bytes, the limit of the MOUNT protocol`},
		{"long client", "/a " + long + "(rw)\n", `1:4 the client's name is longer than 255 bytes`},
		{"NUL", "/a h\x00(rw)\n/b h(rw)\n", `1:5 a NUL byte cannot be part of a table`},
		{"octal NUL", "/a\\000 h(rw)\n", `1:3 \000 is not a character of a path or a name`},
		{"open quote", "\"/a h(rw)\n/b h(rw)\n", `1:1 the double quote is not closed on this line`},
		{"open quote at the end", "/a \"h(rw)", `1:4 the double quote is not closed on this line`},
		{"open list", "/a h(rw\n", `1:5 the options of "h(" are not closed by )`},
		{"blank in the list", "/a h(rw, sync) h2(rwx)\n", `1:5 the options of "h(" are not closed by )|1:19 unknown option "rwx"`},
		{"open list before a good client", "/a h(rw, h2(rw)\n", `1:5 the options of "h(" are not closed by )`},
		{"closed twice", "/a h(rw))\n", `1:9 ")" follows the options of client "h"`},
		{"two lists", "/a h(rw)(ro)\n", `1:9 "(ro)" follows the options of client "h"`},
		{"comment without a blank", "/a h(rw)#x\n", `1:9 "#x" follows the options of client "h"`},
		{"only a closing one", "/a h)\n", `1:5 a ) without its (`},
		{"defaults at the end", "/a h -rw\n", `1:6 the defaults "-rw" stand after the last client and apply to none (Linux would export to everyone)`},
		{"bad defaults", "/a -rwx h\n", `1:5 unknown option "rwx"`},

		{"backslash", "/a h\\x(rw)\n", `1:4 client "h\\x" contains a backslash`},
		{"comma between clients", "/a h1,h2(rw)\n", `1:4 client "h1,h2" contains a character that no name has`},
		{"world", "/a <world>(rw)\n", `1:4 "<world>" is how exportfs prints the client "*"`},
		{"gss", "/a gss/krb5(rw)\n", `1:4 client "gss/krb5" is the old form of sec=, and Kerberos is not supported`},
		{"short IPv4", "/a 10.4(rw)\n", `1:4 "10.4" is not an IPv4 address`},
		{"big IPv4", "/a 10.0.0.256(rw)\n", `1:4 "10.0.0.256" is not an IPv4 address`},
		{"IPv4 with zeros", "/a 010.0.0.1(rw)\n", `1:4 "010.0.0.1" is not an IPv4 address`},
		{"IPv6 in brackets", "/a [::1](rw)\n", `1:4 "[::1]": brackets are character classes here`},
		{"IPv6 with a port", "/a h:2049(rw)\n", `1:4 "h:2049" is not an IPv6 address`},
		{"domain", "/a .example.org(rw)\n", `1:4 ".example.org" is not a host name`},
		{"dots", "/a a..b(rw) ...(rw) a..(rw)\n", `1:4 "a..b" is not a host name|1:13 "..." is not an IPv4 address|1:21 "a.." is not a host name`},
		{"character", "/a a$b(rw)\n", `1:4 "a$b" is not a host name: it contains "$"`},
		{"hash", "/a h#x\n", `1:4 "h#x" is not a host name`},
		{"no length", "/a 10.0.0.0/(rw)\n", `1:4 network "10.0.0.0/" has no length`}, // exportfs: the whole Internet
		{"length", "/a 10.0.0.0/33(rw) ::/129(rw) 10.0.0.0/+8(rw) 10.0.0.0/99999999999999999999(rw)\n", `1:4 network "10.0.0.0/33": a length goes from 0 to 32|1:20 network "::/129": a length goes from 0 to 128|1:31 network "10.0.0.0/+8": "+8" is not a length|1:47 network "10.0.0.0/99999999999999999999": a length goes from 0 to 32`},
		{"mask", "/a 10.0.0.0/255.0(rw) ::/fffff::(rw)\n", `1:4 network "10.0.0.0/255.0" has no valid mask|1:23 network "::/fffff::" has no valid mask`},
		{"address of a network", "/a 10.4/16(rw) host/24(rw) fe80::%eth0/64(rw)\n", `1:4 "10.4/16" is not a network: "10.4" is not an address|1:16 "host/24" is not a network: "host" is not an address|1:28 "fe80::%eth0/64" is not a network: "fe80::%eth0" is not an address`},
		{"wildcard network", "/a 10.0.*/24(rw)\n", `1:4 "10.0.*/24" mixes a wildcard with an address`},
		{"wildcard IPv6", "/a fe80::*(rw)\n", `1:4 "fe80::*" mixes a wildcard with an address`},
		{"open class", "/a *.[a-z(rw) [](rw)\n", `1:4 wildcard "*.[a-z" has a [ without a ]|1:15 wildcard "[]" has a [ without a ]`},
		{"wildcard character", "/a *$(rw)\n", `1:4 wildcard "*$" contains "$", which no host name has`},
		{"netgroup", "/a @(rw) @a*(rw) @-a(rw)\n", `1:4 "@" names no netgroup|1:10 "@a*" is no name of a netgroup|1:18 "@-a" is no name of a netgroup`},

		{"unknown", "/a h(rwx)\n", `1:6 unknown option "rwx"`},
		{"place of an option", "/a h1(rw) \\\n   h2(ro,bogus,async)\n", `2:10 unknown option "bogus"`},
		{"place after quotes and octals", "\"/a\"\\040 \"h\"(ro,bo\\147us)\n", `1:17 unknown option "bogus"`},
		{"empty option", "/a h(,rw)\n/b h(rw,,ro)\n", `1:6 empty option|2:9 empty option`},
		{"blank in an option", "/a \"h(rw ,ro)\"\n", `1:7 option "rw " contains a blank`},
		{"value given", "/a h(rw=x)\n", `1:6 option rw takes no value`},
		{"value missing", "/a h(fsid,anonuid,sec,refer)\n", `1:6 option fsid needs a value|1:11 option anonuid needs a value|1:19 option sec needs a value|1:23 option refer needs a value`},
		{"anonuid", "/a h(anonuid=,anonuid=x,anongid=0x10,anonuid=1_0)\n", `1:6 anonuid= is not a number|1:15 anonuid=x is not a number|1:25 anongid=0x10 is not a number|1:38 anonuid=1_0 is not a number`},
		{"anonuid range", "/a h(anonuid=4294967296,anonuid=-2147483649,anongid=99999999999999999999)\n", `1:6 anonuid=4294967296 does not fit into 32 bits|1:25 anonuid=-2147483649 does not fit into 32 bits|1:45 anongid=99999999999999999999 does not fit into 32 bits`},
		{"anonuid that means no change", "/a h(anonuid=-1,anongid=4294967295)\n", `1:6 anonuid=-1 is no usable id: the kernel reads it as "no change"|1:17 anongid=4294967295 is no usable id: the kernel reads it as "no change"`},
		{"fsid", "/a h(fsid=,fsid=zz,fsid=0x,fsid=1_0,fsid=08)\n", `1:6 fsid= is neither a number, nor root, nor a UUID of 32 hexadecimal digits|1:12 fsid=zz is neither a number, nor root, nor a UUID of 32 hexadecimal digits|1:20 fsid=0x is neither a number, nor root, nor a UUID of 32 hexadecimal digits|1:28 fsid=1_0 is neither a number, nor root, nor a UUID of 32 hexadecimal digits|1:37 fsid=08 is neither a number, nor root, nor a UUID of 32 hexadecimal digits`},
		{"fsid range", "/a h(fsid=4294967296)\n", `1:6 fsid=4294967296 does not fit into 32 bits`}, // exportfs: the root
		{"fsid of two paths", "/a h(fsid=1)\n/b h(fsid=0x1)\n/c h(fsid=0)\n/d h(fsid=root)\n", `2:4 fsid=1 of /b is already that of /a|4:4 fsid=root of /d is already that of /c`},
		{"mountpoint", "/a h(mp=x)\n", `1:6 mp=x is not an absolute path`},
		{"flavours", "/a h(sec=,sec=foo,sec=sys:,sec=krb5p:sys)\n", `1:6 sec= names no flavour, or an empty one|1:11 unknown security flavour "foo"|1:19 sec= names no flavour, or an empty one|1:28 security flavour krb5p is not supported`},
		{"Linux has it, Sluice does not", "/a h(xprtsec=tls)\n", `1:6 option xprtsec is not supported`},
		{"mount options", "/a h(hard,vers=3,nolock)\n", `1:6 hard is an option of the client's mount command, not of exports|1:11 vers is an option of the client's mount command, not of exports|1:18 nolock is an option of the client's mount command, not of exports`},
		{"all errors of a table", "a h(x)\n/b $(y) h(z)\n", `1:1 "a" is not an absolute path|1:5 unknown option "x"|2:4 "$" is not a host name: it contains "$"|2:6 unknown option "y"|2:11 unknown option "z"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _, err := Parse("f", []byte(test.in))
			if err == nil {
				t.Fatal("no error")
			}
			if s != nil {
				t.Error("a Set beside the error")
			}
			var list Errors
			if !errors.As(err, &list) {
				t.Fatalf("error of type %T", err)
			}
			want := strings.Split(test.want, "|")
			found := make(map[string]bool)
			for _, e := range list {
				found[fmt.Sprintf("%d:%d %s", e.Line, e.Column, e.Msg)] = true
				if e.File != "f" {
					t.Errorf("file %q", e.File)
				}
				if e.Remedy == "" {
					t.Errorf("no remedy: %v", e)
				}
			}
			for _, w := range want {
				if !found[w] {
					t.Errorf("missing %q", w)
				}
			}
			if len(list) != len(want) {
				t.Errorf("%d errors, want %d:\n%v", len(list), len(want), err)
			}
		})
	}
}

// Every trap and difference that the guide promises a warning or an error for.
func TestGuideTraps(t *testing.T) {
	for line, warn := range map[string]string{
		"/a h (rw)": "makes two clients", "/a": "no client is named", "/a -rw": "no client is named", "/a(rw)": "part of the path",
		"/a 192.168.1.*": "never addresses", "/a h(rw) h(ro)": "listed twice", "/a -sec=sys,ro h(rw)": "does not change the flavours",
		"/a h(rw,ro)": "overrides", "/a h(anonuid=0)": "root", "/a h(fsid=1) g(fsid=2)": "is ignored",
	} {
		_, warns, err := Parse("f", []byte(line))
		if err != nil || !strings.Contains(showWarnings(warns), warn) {
			t.Errorf("%s: %v %v", line, err, warns)
		}
	}
	_, _, err := Parse("/etc/exports", []byte("/srv/www 10.0.0.0/8(rw,no_rootsquash)"))
	text, _ := os.ReadFile("../docs/exports.md")
	if err == nil || !bytes.Contains(text, []byte(err.Error())) {
		t.Errorf("the guide's example is not what is printed: %v", err)
	}
}

func TestErrorText(t *testing.T) {
	_, _, err := Parse("/etc/exports", []byte("/a h(rw)\n/b h(rw,no_rootsquash)\n"))
	if got, want := fmt.Sprint(err), `/etc/exports:2:9: unknown option "no_rootsquash"; did you mean "no_root_squash"?`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var one *SyntaxError
	if !errors.As(err, &one) || one.Line != 2 || one.Column != 9 || one.File != "/etc/exports" {
		t.Errorf("errors.As: %+v", one)
	}
}

func TestSuggestions(t *testing.T) {
	for in, want := range map[string]string{
		"rwx": "rw", "RO": "ro", "no-root-squash": "no_root_squash", "norootsquash": "no_root_squash", "root_sqaush": "root_squash",
		"allsquash": "all_squash", "anonid": "anonuid", "subtreecheck": "subtree_check", "no_subtreecheck": "no_subtree_check",
		"asynch": "async", "insecur": "insecure", "crossmount": "crossmnt", "no_hide": "nohide", "mount_point": "mountpoint",
		"readirplus": "", "zzz": "", "x": "", strings.Repeat("rw", 100): "",
	} {
		if got := suggest(in); got != want {
			t.Errorf("%s: %q, want %q", in, got, want)
		}
	}
}

func TestFSIDOfOnePath(t *testing.T) {
	s, warns, err := Parse("f", []byte("/a h1(rw) h2(fsid=3) h3(fsid=4)\n/b h(fsid=12345678-1234-1234-1234-123456789abc)\n/c h(fsid=12345678-1234-1234-1234-123456789abc)\n"))
	if err != nil {
		t.Fatal(err)
	}
	e := s.Get("/a")
	if e.FSID != (FSID{Kind: FSIDNum, Num: 3}) {
		t.Errorf("fsid %v", e.FSID)
	}
	for _, c := range e.Clients {
		if c.Options.FSID != e.FSID {
			t.Errorf("%s has fsid %v", c.Spec, c.Options.FSID)
		}
	}
	if got := showWarnings(warns); got != "1:22 fsid=4 of client h3 is ignored: a path has one fsid\n" {
		t.Errorf("warnings\n%s", got)
	}
}

func TestInline(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{"/srv/data", "/srv/data 127.0.0.1(rw,no_root_squash,insecure)\n/srv/data ::1(rw,no_root_squash,insecure)\n"},
		{`"/srv/my data"`, "/srv/my data 127.0.0.1(rw,no_root_squash,insecure)\n/srv/my data ::1(rw,no_root_squash,insecure)\n"},
		{"/srv/data 10.0.0.0/8(rw) h", "/srv/data 10.0.0.0/8(rw)\n/srv/data h(ro)\n"},
		{"/srv/data *", "/srv/data *(ro)\n"},
		{"/srv/data -rw h", "/srv/data h(rw)\n"},
	} {
		s, warns, err := Inline(test.in)
		if err != nil {
			t.Errorf("%s: %v", test.in, err)
			continue
		}
		if got := show(s); got != test.want || len(warns) > 0 {
			t.Errorf("%s: got\n%swant\n%swarnings %v", test.in, got, test.want, warns)
		}
	}
	for in, want := range map[string]string{
		"":                "--export: no directory is given; write --export 'DIR CLIENT(OPTIONS)', or --export DIR for this machine only",
		"  ":              "--export: no directory is given; write --export 'DIR CLIENT(OPTIONS)', or --export DIR for this machine only",
		"/a h\n/b h":      "--export: the export has a newline in it; give --export once for each directory",
		"/a h(rwx)":       `--export:1:6: unknown option "rwx"; did you mean "rw"?`,
		"data":            `--export:1:1: "data" is not an absolute path; start each line with a path that begins with /; a line is continued by a backslash at its very end`,
		"/a h(rw) -async": `--export:1:10: the defaults "-async" stand after the last client and apply to none (Linux would export to everyone); write them before the clients`,
	} {
		if s, _, err := Inline(in); err == nil || err.Error() != want || s != nil {
			t.Errorf("%q: %v", in, err)
		}
	}
}

func TestLimits(t *testing.T) {
	var exports strings.Builder
	for i := 0; i <= MaxExports; i++ {
		fmt.Fprintf(&exports, "/d%d h\n", i)
	}
	clients := func(paths, each int) string {
		var b strings.Builder
		for p := 0; p < paths; p++ {
			for i := 0; i < each; i += 64 {
				fmt.Fprintf(&b, "/p%d", p)
				for k := i; k < min(i+64, each); k++ {
					fmt.Fprintf(&b, " h%d", k)
				}
				b.WriteByte('\n')
			}
		}
		return b.String()
	}
	for _, test := range []struct{ name, in, want string }{
		{"file", strings.Repeat("#\n", MaxFileSize/2+1), "f: the file is larger than 4194304 bytes"},
		{"line", "/a " + strings.Repeat("h \\\n", MaxLine/4) + "\n", "f:1:1: the line is longer than 262144 bytes"},
		{"exports", exports.String(), "f:10001:1: there are more than 10000 exports"},
		{"clients", clients(1, MaxClients+1), "f:65:5: /p0 has more than 4096 clients"},
		{"all clients", clients(MaxAllClients/MaxClients+1, MaxClients), "f:1025:6: there are more than 65536 clients in all"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, _, err := Parse("f", []byte(test.in))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Fatalf("got %.300v", err)
			}
			if list := err.(Errors); len(list) != 1 {
				t.Errorf("%d errors", len(list))
			}
		})
	}
	if _, _, err := Parse("f", []byte(clients(MaxAllClients/MaxClients, MaxClients))); err != nil {
		t.Errorf("at the limit: %v", err)
	}

	_, warns, err := Parse("f", []byte(strings.Repeat("/a h(bad,wdelay)\n", 2*MaxWarnings)))
	list := err.(Errors)
	if len(list) != MaxErrors+1 || list[MaxErrors].Msg != fmt.Sprintf("%d more errors are not shown", 2*MaxWarnings-MaxErrors) {
		t.Errorf("%d errors, the last %v", len(list), list[len(list)-1])
	}
	if len(warns) != MaxWarnings+1 || !strings.Contains(warns[MaxWarnings].Msg, "more warnings are not shown") {
		t.Errorf("%d warnings, the last %v", len(warns), warns[len(warns)-1])
	}
}

// FuzzParse: no input makes the parser panic, and what Format prints is read back into the same Set.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"/a h(rw)\n", "/a -rw,sec=sys:none h1 @g(ro) *.x(all_squash) 10.0.0.0/255.255.0.255(async)\n",
		"\"/a b\" \\\n h (rw)\n", "/a\\040\\377 *(mp=/x\\040y,fsid=12345678-1234-1234-1234-123456789abc)\n",
		"/a fe80::1%eth0(sec=sys,rw,sec=none,ro) ::/0 [a-z]x(anonuid=-2)\n/a/ (fsid=0)\n", "/a h(rw", "/a \"h", "\\", "/a h(rw, x) h2\n",
		"/a h -rw\n", "/a -sec=sys,ro h(rw,no_root_squash)\n/b *(sec=none,all_squash,sec=sys,no_all_squash)\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		s, _, err := Parse("f", src)
		if (s == nil) != (err != nil) {
			t.Fatal("neither or both of Set and error")
		}
		if s == nil {
			for _, e := range err.(Errors) {
				_ = e.Error()
			}
			return
		}
		var out bytes.Buffer
		if err := s.Format(&out); err != nil {
			t.Fatal(err)
		}
		again, _, err := Parse("f", out.Bytes())
		if err != nil {
			t.Fatalf("what Format printed is not valid: %v\n%s", err, out.Bytes())
		}
		if a, b := show(s), show(again); a != b {
			t.Fatalf("changed on the way:\n%s\n%s\n%s", a, out.Bytes(), b)
		}
		if d := Diff(s, again); len(d.Added)+len(d.Removed)+len(d.Changed) > 0 {
			t.Fatalf("Diff sees changes: %+v", d)
		}
	})
}

// FuzzInline: likewise for the argument of --export.
func FuzzInline(f *testing.F) {
	f.Add("/a")
	f.Add("/a h(rw)")
	f.Fuzz(func(t *testing.T, spec string) {
		s, _, err := Inline(spec)
		if (s == nil) != (err != nil) {
			t.Fatal("neither or both of Set and error")
		}
	})
}
