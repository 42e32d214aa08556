// Tests of the grammar: the whole of exports(5), with what nfs-utils 2.6.2's exportfs makes of each line written beside the
// cases that exports(5) leaves open.

package exports

import (
	"bytes"
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
