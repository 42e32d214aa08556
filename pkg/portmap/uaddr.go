// Universal addresses (RFC 5665, 5.2.3.3 and 5.2.3.4): an IP address in its
// usual form, followed by the two bytes of the port, all joined by dots:
// 192.0.2.1.8.1 and 2001:db8::1.8.1 are both port 2049.

package portmap

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxUaddr is the longest universal address that is written or accepted:
// an IPv6 address with an embedded IPv4 part, a scope and a port.
const maxUaddr = 80

// FormatUaddr returns the universal address of a.
func FormatUaddr(a netip.AddrPort) string {
	return string(appendUaddr(nil, a))
}

func appendUaddr(b []byte, a netip.AddrPort) []byte {
	b = a.Addr().Unmap().WithZone("").AppendTo(b)
	b = append(b, '.')
	b = strconv.AppendUint(b, uint64(a.Port()>>8), 10)
	b = append(b, '.')
	return strconv.AppendUint(b, uint64(a.Port()&0xff), 10)
}

// ParseUaddr reads a universal address of the tcp, tcp6, udp or udp6 netids.
func ParseUaddr(s string) (netip.AddrPort, error) {
	bad := func() (netip.AddrPort, error) {
		return netip.AddrPort{}, fmt.Errorf("universal address %.*q: want ADDRESS.P1.P2 (RFC 5665, 5.2.3)", maxUaddr, s)
	}
	if len(s) > maxUaddr {
		return bad()
	}
	lo := strings.LastIndexByte(s, '.')
	if lo < 0 {
		return bad()
	}
	hi := strings.LastIndexByte(s[:lo], '.')
	if hi < 0 {
		return bad()
	}
	p1, err1 := strconv.ParseUint(s[hi+1:lo], 10, 8)
	p2, err2 := strconv.ParseUint(s[lo+1:], 10, 8)
	addr, err3 := netip.ParseAddr(s[:hi])
	if err1 != nil || err2 != nil || err3 != nil {
		return bad()
	}
	return netip.AddrPortFrom(addr, uint16(p1<<8|p2)), nil
}
