// Clients: what one client specification means (exports(5), "Machine Name Formats"), decided in the order of nfs-utils'
// client_gettype: "*" or nothing, @netgroup, then the first of * ? [ makes a wildcard and the first / a network, else a
// host. Words that cannot name what their author meant (10.0.0.0/, [::1], 10.4) are errors here; Linux takes some of them
// for something else, "10.0.0.0/" for the whole Internet.

package exports

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// network is an address and a mask. Linux allows masks with holes for IPv4 and IPv6, so it is not a netip.Prefix.
type network struct {
	is4              bool
	hi, lo, mhi, mlo uint64 // IPv4 uses the lower 32 bits of lo and mlo
}

func (n *network) contains(is4 bool, hi, lo uint64) bool {
	return n.is4 == is4 && (n.hi^hi)&n.mhi == 0 && (n.lo^lo)&n.mlo == 0
}

// addrWords splits an address for network.contains. A zone is left out, as in Linux, which compares only address bits.
func addrWords(a netip.Addr) (is4 bool, hi, lo uint64) {
	if a.Is4() {
		b := a.As4()
		return true, 0, uint64(binary.BigEndian.Uint32(b[:]))
	}
	b := a.As16()
	return false, binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
}

func wordsAddr(is4 bool, hi, lo uint64) netip.Addr {
	if is4 {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], uint32(lo))
		return netip.AddrFrom4(b)
	}
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	return netip.AddrFrom16(b)
}

// String writes ADDRESS/LENGTH, or ADDRESS/MASK for a mask with holes.
func (n *network) String() string {
	base := wordsAddr(n.is4, n.hi, n.lo).String()
	for bits := 0; bits <= 128; bits++ {
		if n.is4 && bits > 32 {
			break
		}
		if mhi, mlo := maskWords(n.is4, bits); mhi == n.mhi && mlo == n.mlo {
			return base + "/" + strconv.Itoa(bits)
		}
	}
	return base + "/" + wordsAddr(n.is4, n.mhi, n.mlo).String()
}

func maskWords(is4 bool, bits int) (hi, lo uint64) {
	switch {
	case is4:
		return 0, uint64(^uint32(0) << (32 - bits))
	case bits <= 64:
		return ^uint64(0) << (64 - bits), 0
	}
	return ^uint64(0), ^uint64(0) << (128 - bits)
}

// note is a warning about a client that is valid.
type note struct{ msg, remedy string }

// parseClient reads one client. On failure problem says why and remedy what to write instead.
func parseClient(text string) (c ClientSpec, notes []note, problem, remedy string) {
	if len(text) > MaxClientName {
		return c, nil, fmt.Sprintf("the client's name is longer than %d bytes", MaxClientName), "use a network or a netgroup"
	}
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case b == '\\':
			return c, nil, fmt.Sprintf("client %q contains a backslash", text), "a line is continued by a backslash as the very last character"
		case b <= ' ' || b == 0x7f || b == '"' || b == ',':
			return c, nil, fmt.Sprintf("client %q contains a character that no name has", text), "separate clients with blanks and options with commas inside (...)"
		}
	}
	switch {
	case text == "" || text == "*":
		return ClientSpec{Spec: "*", Class: ClassAny}, nil, "", ""
	case strings.HasPrefix(text, "gss/"):
		return c, nil, fmt.Sprintf("client %q is the old form of sec=, and Kerberos is not supported", text), "name the clients, and use sec=sys"
	case text == "<world>":
		return c, nil, `"<world>" is how exportfs prints the client "*"`, "write *"
	case text[0] == '@':
		return parseNetgroup(text)
	}
	switch i := strings.IndexAny(text, "*?[/"); {
	case i < 0:
		return parseHost(text)
	case text[i] == '/':
		return parseNetwork(text)
	}
	return parseWildcard(text)
}

func parseNetgroup(text string) (c ClientSpec, notes []note, problem, remedy string) {
	name := text[1:]
	switch {
	case name == "":
		return c, nil, `"@" names no netgroup`, "write @NETGROUP"
	case name[0] == '-' || strings.ContainsAny(name, "()/*?[]<>#"):
		return c, nil, fmt.Sprintf("%q is no name of a netgroup", text), "write @NETGROUP as in netgroup(5); patterns are not possible"
	}
	return ClientSpec{Spec: text, Class: ClassNetgroup}, nil, "", ""
}

func hostByte(b byte) bool {
	return b >= '0' && b <= '9' || b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b == '-' || b == '_' || b == '.' || b >= 0x80
}

func parseHost(text string) (c ClientSpec, notes []note, problem, remedy string) {
	if addr, err := netip.ParseAddr(text); err == nil {
		addr = addr.Unmap()
		if addr.IsUnspecified() {
			notes = append(notes, note{fmt.Sprintf("no client has the address %s", text), "write * for everyone"})
		}
		if addr.Is6() && addr.IsLinkLocalUnicast() && addr.Zone() == "" {
			notes = append(notes, note{fmt.Sprintf("the link-local address %s matches no client without its interface", text), fmt.Sprintf("write %s%%INTERFACE", text)})
		}
		return ClientSpec{Spec: addr.String(), Class: ClassHost, addr: addr}, notes, "", ""
	}
	if strings.Contains(text, ":") {
		return c, nil, fmt.Sprintf("%q is not an IPv6 address", text), "a host is a name or an address, without a port"
	}
	if strings.Trim(text, "0123456789.") == "" {
		return c, nil, fmt.Sprintf("%q is not an IPv4 address", text), "write four numbers from 0 to 255, without leading zeros"
	}
	if text[0] == '.' {
		return c, nil, fmt.Sprintf("%q is not a host name", text), fmt.Sprintf("write *%s for all hosts of the domain", text)
	}
	if text[0] == '-' {
		return c, nil, fmt.Sprintf("%q is not a host name", text), "a host name starts with a letter or a digit"
	}
	for i := 0; i < len(text); i++ {
		if !hostByte(text[i]) {
			if text[i] == '#' {
				return c, nil, fmt.Sprintf("%q is not a host name", text), "write a blank before a comment"
			}
			return c, nil, fmt.Sprintf("%q is not a host name: it contains %q", text, text[i:i+1]), "a client is a host, a network, a wildcard, @netgroup or *"
		}
	}
	name := canonicalName(text)
	if strings.Contains(text, "..") || name == "" {
		return c, nil, fmt.Sprintf("%q is not a host name", text), "a label between two dots is missing"
	}
	return ClientSpec{Spec: name, Class: ClassHost}, nil, "", ""
}

// canonicalName gives host names one spelling: lower case, without the root's dot.
func canonicalName(name string) string { return strings.TrimSuffix(lower(name), ".") }

// lower folds ASCII letters only: host names are ASCII, and bytes that are not stay what they are.
func lower(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] >= 'A' && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				b[i] = lowerByte(b[i])
			}
			return string(b)
		}
	}
	return s
}

func lowerByte(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func parseNetwork(text string) (c ClientSpec, notes []note, problem, remedy string) {
	const form = "write ADDRESS/LENGTH, for example 192.168.1.0/24 or 2001:db8::/32"
	left, right, _ := strings.Cut(text, "/")
	addr, err := netip.ParseAddr(left)
	if err != nil || addr.Zone() != "" {
		return c, nil, fmt.Sprintf("%q is not a network: %q is not an address", text, left), form
	}
	var n network
	bits := -1
	switch {
	case right == "":
		return c, nil, fmt.Sprintf("network %q has no length", text), form
	case addr.Is4() && strings.Contains(right, "."), addr.Is6() && strings.Contains(right, ":"):
		mask, err := netip.ParseAddr(right)
		if err != nil || mask.Is4() != addr.Is4() {
			return c, nil, fmt.Sprintf("network %q has no valid mask", text), form
		}
		n.is4, n.hi, n.lo = addrWords(addr)
		_, n.mhi, n.mlo = addrWords(mask)
	default:
		for i := 0; i < len(right); i++ {
			if right[i] < '0' || right[i] > '9' {
				return c, nil, fmt.Sprintf("network %q: %q is not a length", text, right), form
			}
		}
		if bits, err = strconv.Atoi(right); err != nil || bits > addr.BitLen() {
			return c, nil, fmt.Sprintf("network %q: a length goes from 0 to %d", text, addr.BitLen()), form
		}
		// Clients are compared by their IPv4 address when they have one, so a mapped network must be too.
		if addr.Is4In6() && bits >= 96 {
			addr, bits = addr.Unmap(), bits-96
		}
		n.is4, n.hi, n.lo = addrWords(addr)
		n.mhi, n.mlo = maskWords(n.is4, bits)
	}
	given := n
	n.hi &= n.mhi
	n.lo &= n.mlo
	if given != n {
		notes = append(notes, note{fmt.Sprintf("network %s has bits set outside its mask", text), "it means " + n.String()})
	}
	return ClientSpec{Spec: n.String(), Class: ClassNetwork, net: n}, notes, "", ""
}

func parseWildcard(text string) (c ClientSpec, notes []note, problem, remedy string) {
	const names = "wildcards match host names; write a network (ADDRESS/LENGTH) for addresses"
	if text[0] == '[' && strings.Contains(text, ":") {
		return c, nil, fmt.Sprintf("%q: brackets are character classes here", text), "write an IPv6 address without brackets"
	}
	class := false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case class:
			class = b != ']'
		case b == '[':
			class = true
			if i+1 < len(text) && text[i+1] == '^' {
				i++
			}
			if i+1 < len(text) && (text[i+1] == ']' || text[i+1] == '-') {
				i++ // a ] or - that comes first is one of the characters
			}
		case b == '*' || b == '?' || hostByte(b):
		case b == '/' || b == ':':
			return c, nil, fmt.Sprintf("%q mixes a wildcard with an address", text), names
		default:
			return c, nil, fmt.Sprintf("wildcard %q contains %q, which no host name has", text, text[i:i+1]), names
		}
	}
	if class {
		return c, nil, fmt.Sprintf("wildcard %q has a [ without a ]", text), "close the class"
	}
	if strings.HasSuffix(text, ".") {
		notes = append(notes, note{fmt.Sprintf("wildcard %s matches no host: names are compared without a dot at the end", text), "remove the dot"})
	}
	if strings.Trim(text, "0123456789.*?[]-^") == "" && strings.ContainsAny(text, "0123456789") {
		notes = append(notes, note{fmt.Sprintf("wildcard %s matches host names, never addresses", text), "write a network, for example 192.168.1.0/24"})
	}
	return ClientSpec{Spec: lower(text), Class: ClassWildcard}, notes, "", ""
}
