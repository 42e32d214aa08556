// Finding the server and connecting to it.

package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"sluice/pkg/portmap"
	"sluice/rpc"
	"sluice/xdr"
	"sluice/xdr/rpcb"
)

const (
	defaultPort = 2049
	portmapPort = 111
	dialTimeout = 10 * time.Second
	// Source ports that prove root to servers of old: the kernel's client takes
	// from the upper end of those below 1024.
	topReserved, lastReserved = 1023, 665
)

// nextReserved spreads connections over the reserved ports.
var nextReserved atomic.Uint32

// address is where a server is.
type address struct {
	host string
	port int
}

func (a address) String() string { return net.JoinHostPort(a.host, strconv.Itoa(a.port)) }

// parseServer reads HOST or HOST:PORT; an IPv6 address with a port stands in
// brackets. The port is 0 when none is given.
func parseServer(s string) (address, error) {
	host, port := s, ""
	if strings.HasPrefix(s, "[") || strings.Count(s, ":") == 1 {
		var err error
		if strings.HasSuffix(s, "]") {
			host = strings.Trim(s, "[]")
		} else if host, port, err = net.SplitHostPort(s); err != nil {
			return address{}, fmt.Errorf("--server: %q is not HOST or HOST:PORT", s)
		}
	}
	if host == "" {
		return address{}, errors.New("--server: name the server, as HOST or HOST:PORT")
	}
	if port == "" {
		return address{host, 0}, nil
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return address{}, fmt.Errorf("--server: %q is not a port between 1 and 65535", port)
	}
	return address{host, n}, nil
}

// dial connects to a server, from a reserved port if that is to be had: exports
// with the option secure, which is the default, want one.
func dial(ctx context.Context, to address) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var d net.Dialer
	if os.Geteuid() == 0 {
		start := int(nextReserved.Add(1))
		for i := range topReserved - lastReserved {
			d.LocalAddr = &net.TCPAddr{Port: topReserved - (start+i)%(topReserved-lastReserved)}
			nc, err := d.DialContext(ctx, "tcp", to.String())
			switch {
			case err == nil:
				return nc, nil
			case errors.Is(err, unix.EADDRINUSE), errors.Is(err, unix.EADDRNOTAVAIL):
				continue // taken, or it lingers from an earlier connection
			case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			default:
				return nil, err
			}
			break
		}
		d.LocalAddr = nil
	}
	return d.DialContext(ctx, "tcp", to.String())
}

// detach takes the socket out of the runtime's hands.
func detach(nc net.Conn) (int, error) {
	defer nc.Close()
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	if cerr := raw.Control(func(s uintptr) {
		if fd, err = unix.FcntlInt(s, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			err = unix.SetNonblock(fd, true)
		}
	}); cerr != nil {
		err = cerr
	}
	if err != nil && fd >= 0 {
		unix.Close(fd)
	}
	return fd, err
}

// findPort asks the portmapper of a host where a program is (RFC 1833, 3.2).
func findPort(ctx context.Context, host string, prog, vers uint32) (int, error) {
	nc, err := dial(ctx, address{host, portmapPort})
	if err != nil {
		return 0, err
	}
	c := rpc.NewClient(nc)
	defer c.Close()
	c.Timeout = dialTimeout
	var port word
	err = c.Call(portmap.ProgPortmap, rpcb.PMAP_VERS, rpcb.PMAPPROC_GETPORT, nil,
		&rpcb.Mapping{Prog: prog, Vers: vers, Prot: rpcb.IPPROTO_TCP}, &port)
	if err == nil && (port == 0 || port > 65535) {
		err = errors.New("it is not registered")
	}
	return int(port), err
}

// word is one word of results.
type word uint32

func (w *word) Decode(d *xdr.Decoder) { *w = word(d.Uint32()) }

// locate fills in the port of NFS and connects.
func locate(ctx context.Context, a address) (address, *rpc.Client, error) {
	given := a.port != 0
	def(&a.port, defaultPort)
	nc, err := dial(ctx, a)
	if err != nil && !given && errors.Is(err, unix.ECONNREFUSED) {
		if port, perr := findPort(ctx, a.host, portmap.ProgNFS, 3); perr == nil {
			a.port = port
			nc, err = dial(ctx, a)
		}
	}
	if err != nil {
		return a, nil, fmt.Errorf("no NFS server answers at %v: %w; start it, or name its port with --port", a, short(err))
	}
	return a, newRPC(nc), nil
}

func newRPC(nc net.Conn) *rpc.Client {
	c := rpc.NewClient(nc)
	c.Timeout = silence
	return c
}

// short drops the addresses from a network error, which are told already.
func short(err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err
	}
	return err
}
