// Tests of what is refused and warned of: the words, the place, and the suggestion.

package exports

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

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
