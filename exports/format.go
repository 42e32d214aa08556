// Printing: tables that parse back into the same Set, option lists for people, and the group list of MOUNT.

package exports

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// String writes the options as a list that exports(5) reads back: every option that has an effect, the defaults too, so
// that nothing needs to be remembered.
func (o *Options) String() string {
	var b strings.Builder
	either := func(v bool, yes, no string) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		if v {
			b.WriteString(yes)
		} else {
			b.WriteString(no)
		}
	}
	varying := func(f Flavor) {
		either(f.ReadOnly, "ro", "rw")
		switch f.Squash {
		case SquashAll:
			b.WriteString(",all_squash")
		case SquashRoot:
			b.WriteString(",root_squash,no_all_squash")
		default:
			b.WriteString(",no_root_squash,no_all_squash")
		}
	}
	same := len(o.Sec) > 0
	for _, f := range o.Sec {
		same = same && f.ReadOnly == o.ReadOnly && f.Squash == o.Squash
	}
	if same {
		varying(o.Sec[0])
	}
	either(o.Async, "async", "sync")
	either(o.Secure, "secure", "insecure")
	either(o.SubtreeCheck, "subtree_check", "no_subtree_check")
	either(o.Nohide, "nohide", "hide")
	either(o.Crossmnt, "crossmnt", "nocrossmnt")
	if o.NoReaddirplus {
		b.WriteString(",nordirplus")
	}
	if o.FSID.Kind != FSIDNone {
		b.WriteString(",fsid=" + o.FSID.String())
	}
	switch o.MountPoint {
	case "":
	case ".":
		b.WriteString(",mountpoint")
	default:
		b.WriteString(",mountpoint=" + o.MountPoint)
	}
	b.WriteString(",anonuid=" + strconv.FormatUint(uint64(o.AnonUID), 10) + ",anongid=" + strconv.FormatUint(uint64(o.AnonGID), 10))
	for i, f := range o.Sec {
		if same && i > 0 {
			b.WriteString(":" + f.Auth.String())
			continue
		}
		b.WriteString(",sec=" + f.Auth.String())
		if !same {
			varying(f)
		}
	}
	return b.String()
}

// Quote writes a path or another word as the table needs it: blanks, quotes, backslashes, # and bytes outside printable
// ASCII become \ooo.
func Quote(s string) string {
	plain := func(c byte) bool { return c > ' ' && c < 0x7f && c != '"' && c != '\\' && c != '#' }
	i := 0
	for i < len(s) && plain(s[i]) {
		i++
	}
	if i == len(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if plain(s[i]) {
			b.WriteByte(s[i])
		} else {
			fmt.Fprintf(&b, `\%03o`, s[i])
		}
	}
	return b.String()
}

// Format writes the Set as a table, one line for each client, that Parse reads back into an equal Set.
func (s *Set) Format(w io.Writer) error {
	for _, e := range s.exports {
		for i := range e.Clients {
			c := &e.Clients[i]
			if _, err := fmt.Fprintf(w, "%s %s(%s)\n", Quote(e.Path), Quote(c.Spec), Quote(c.Options.String())); err != nil {
				return err
			}
		}
	}
	return nil
}

// List writes the Set for people, in aligned columns.
func (s *Set) List(w io.Writer) error {
	paths := make([]string, len(s.exports))
	width := 0
	for i, e := range s.exports {
		paths[i] = Quote(e.Path)
		if n := len(paths[i]); n <= 40 {
			width = max(width, n)
		}
	}
	for i, e := range s.exports {
		for k := range e.Clients {
			c := &e.Clients[k]
			if _, err := fmt.Fprintf(w, "%-*s  %s(%s)\n", width, paths[i], c.Spec, c.Options.String()); err != nil {
				return err
			}
		}
	}
	return nil
}

// Groups lists the clients of e for MOUNT's EXPORT reply (RFC 1813 section 5.2.5), which showmount -e prints. As mountd
// does, an export for everyone lists just "*": the others add nothing.
func (e *Export) Groups() []string {
	groups := make([]string, 0, len(e.Clients))
	for i := range e.Clients {
		if e.Clients[i].Class == ClassAny {
			return []string{"*"}
		}
		groups = append(groups, e.Clients[i].Spec)
	}
	return groups
}

// WriteReport writes the diagnostics of a load, one on each line, and a line that sums up: what `exports check` prints.
// set and err are what the load returned.
func WriteReport(w io.Writer, set *Set, warns []Warning, err error) error {
	var b strings.Builder
	for _, x := range warns {
		fmt.Fprintln(&b, x)
	}
	if err != nil {
		fmt.Fprintln(&b, err)
	}
	if set != nil {
		clients := 0
		for _, e := range set.exports {
			clients += len(e.Clients)
		}
		fmt.Fprintf(&b, "ok: %s, %s, %s\n", count(len(set.exports), "export"), count(clients, "client"), count(len(warns), "warning"))
	} else {
		fmt.Fprintf(&b, "not valid: nothing of it would come into force\n")
	}
	_, werr := io.WriteString(w, b.String())
	return werr
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// CheckNames asks r for every host name and gives a warning for each that has no address: such a client matches nobody.
func (s *Set) CheckNames(r Resolver) []Warning {
	var d diags
	seen := make(map[string]bool)
	for _, e := range s.exports {
		for i := range e.Clients {
			c := &e.Clients[i]
			if c.Class != ClassHost || c.addr.IsValid() || seen[c.Spec] {
				continue
			}
			seen[c.Spec] = true
			if len(r.LookupHost(c.Spec)) == 0 {
				d.warn(c.File, c.Line, c.Column, fmt.Sprintf("host %s has no address", c.Spec), "check the name, or write the address; until it resolves it matches no client")
			}
		}
	}
	warns, _ := d.result()
	return warns
}
