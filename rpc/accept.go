// Accepting connections.
//
// At the limit an idle connection gives way to a new one: one that has not made
// a call, soon, or one that has, later. Those that know NFS connect again when
// they need it. If there is none, the new one is accepted and closed: the client
// learns at once that it is not served, and those that are notice nothing. When the
// process is out of descriptors, nothing can be accepted; new clients stay in
// the kernel's backlog until there are some.

package rpc

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Serve accepts connections on the listeners, which it owns from now on, until
// Shutdown, and then returns nil. It may be called again with further ones.
func (s *Server) Serve(lns ...*net.TCPListener) error {
	if len(lns) == 0 {
		return errors.New("rpc: no listener to serve")
	}
	s.mu.Lock()
	if s.stopping.Load() {
		s.mu.Unlock()
		for _, ln := range lns {
			ln.Close()
		}
		return nil
	}
	s.accepting.Add(len(lns))
	s.mu.Unlock()
	errs := make(chan error, len(lns))
	for _, ln := range lns {
		go func() {
			defer s.accepting.Done()
			err := s.acceptAll(ln)
			if err != nil {
				s.cfg.Log.Error().Err(err).Msg("stopped accepting connections on one address")
			}
			errs <- err
		}()
	}
	var first error
	for range lns {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

// acceptAll waits for clients outside the runtime's poller, which would wrap
// each one's descriptor in objects of its own. ln stays referenced, and its
// descriptor valid, until it returns.
func (s *Server) acceptAll(ln *net.TCPListener) error {
	defer ln.Close()
	raw, err := ln.SyscallConn()
	if err != nil {
		return fmt.Errorf("rpc: %s: %w", ln.Addr(), err)
	}
	lfd := -1
	if err := raw.Control(func(fd uintptr) { lfd = int(fd) }); err != nil {
		return fmt.Errorf("rpc: %s: %w", ln.Addr(), err)
	}
	fds := []unix.PollFd{{Fd: int32(lfd), Events: unix.POLLIN}, {Fd: int32(s.stopAccept), Events: unix.POLLIN}}
	for pause := time.Duration(0); ; {
		unix.Poll(fds, -1)
		if s.stopping.Load() {
			return nil
		}
		fd, sa, err := unix.Accept4(lfd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			pause = 0
			s.admit(fd, sa)
		case unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			s.reject(ReasonDescriptors)
			if n, ok := s.logLimit[ReasonDescriptors].allow(); ok {
				s.cfg.Log.Warn().Err(err).Uint64("suppressed", n).
					Msg("cannot accept a connection now; new clients wait (raise the descriptor limit, LimitNOFILE= or ulimit -n, if this goes on)")
			}
			pause = min(max(2*pause, 5*time.Millisecond), 500*time.Millisecond)
			time.Sleep(pause)
		case unix.EBADF, unix.EINVAL, unix.ENOTSOCK, unix.EOPNOTSUPP:
			return fmt.Errorf("rpc: accepting on %s: %w", ln.Addr(), err)
		default: // nobody there, or the connection failed before it was accepted (accept(2))
		}
	}
}

// admit makes a connection of an accepted socket.
func (s *Server) admit(fd int, sa unix.Sockaddr) {
	local, err := unix.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		return
	}
	c := &Conn{srv: s, fd: fd, id: s.nextID.Add(1), since: time.Now(), active: s.Now(), low: 1}
	c.peer = peer{addrPort(sa), addrPort(local)}
	s.tune(fd, c.peer)
	if s.cfg.OnConnect != nil {
		s.cfg.OnConnect(c)
	}
	if s.table.full() {
		s.makeRoom()
	}
	c.mu.Lock()
	defer c.unlock()
	if !s.table.add(c) {
		s.reject(ReasonConnLimit)
		if n, ok := s.logLimit[ReasonConnLimit].allow(); ok {
			s.cfg.Log.Warn().Stringer("client", c.peer.remote).Int("limit", s.cfg.MaxConns).Uint64("suppressed", n).
				Msg("refused a connection: the limit is reached (raise the connection limit, or the descriptor limit it comes from)")
		}
		unix.Close(fd)
		c.closed, c.gone = true, true
		if s.cfg.OnDisconnect != nil {
			s.cfg.OnDisconnect(c)
		}
		return
	}
	if o := s.cfg.Observer; o != nil {
		o.Connect(c)
	}
	s.cfg.Log.Debug().Stringer("client", c.peer.remote).Uint64("connection", c.id).Msg("client connected")
	c.armed = unix.EPOLLIN
	c.ev = event(unix.EPOLLIN|unix.EPOLLONESHOT, c.slot, c.gen)
	if e := s.poll.ctl(unix.EPOLL_CTL_ADD, fd, &c.ev); e != 0 {
		c.shut("epoll: " + e.Error())
	}
}

const (
	roomScan   = 128                     // connections looked at for one that may be closed
	idleUnused = int64(time.Second)      // after it a connection without a call may be
	idleUsed   = int64(60 * time.Second) // and any
)

// makeRoom closes the connection that can best be spared of the next few.
func (s *Server) makeRoom() {
	now := s.Now()
	var victim *Conn
	var most int64
	for range min(roomScan, len(s.table.slots)) {
		c := s.table.slots[int(s.roomHand.Add(1))%len(s.table.slots)].Load()
		if c == nil {
			continue
		}
		c.mu.Lock()
		idle := now - c.active
		if c.calls.Load() == 0 {
			idle += idleUsed - idleUnused
		}
		if c.quiet() && !c.closed && idle > max(most, idleUsed) {
			victim, most = c, idle
		}
		c.mu.Unlock()
	}
	if victim == nil {
		return
	}
	victim.mu.Lock()
	if victim.quiet() {
		victim.shut(reasonRoom)
	}
	victim.unlock()
}

// tune sets the socket's options. None is vital: an error is ignored.
//
// Congestion control stays what the administrator chose, but for a client on
// this host: nothing can be congested there, and BBR, where that is the
// choice, paces the replies by timers. READ of 1 MiB over 4 connections, GB/s:
// 2.9 by BBR, 7.0 by Reno (decision 34).
func (s *Server) tune(fd int, p peer) {
	set := func(level, opt, v int) { unix.SetsockoptInt(fd, level, opt, v) }
	set(unix.IPPROTO_TCP, unix.TCP_NODELAY, 1) // replies leave in one piece, and none waits for an ACK
	set(unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
	set(unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 60)
	set(unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, 15)
	set(unix.IPPROTO_TCP, unix.TCP_KEEPCNT, 8)
	set(unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(s.cfg.UserTimeout.Milliseconds()))
	if p.remote.Addr().IsLoopback() || p.remote.Addr() == p.local.Addr() {
		unix.SetsockoptString(fd, unix.IPPROTO_TCP, unix.TCP_CONGESTION, "reno")
	}
}

func (s *Server) disconnected(c *Conn) {
	c.back.end()
	if s.cfg.OnDisconnect != nil {
		s.cfg.OnDisconnect(c)
	}
	if o := s.cfg.Observer; o != nil {
		o.Disconnect(c, c.reason)
	}
	ev := s.cfg.Log.Debug()
	if c.reason == reasonStalled || c.reason == reasonUnfilled {
		if n, ok := s.endLimit.allow(); ok { // there may be hundreds at a time
			ev = s.cfg.Log.Warn().Uint64("suppressed", n)
		}
	}
	ev.Stringer("client", c.peer.remote).Uint64("connection", c.id).Str("reason", c.reason).Msg("client disconnected")
}

func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch a := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(a.Addr), uint16(a.Port))
	case *unix.SockaddrInet6:
		ip := netip.AddrFrom16(a.Addr)
		if a.ZoneId != 0 && !ip.Is4In6() {
			ip = ip.WithZone(strconv.Itoa(int(a.ZoneId)))
		}
		return netip.AddrPortFrom(ip.Unmap(), uint16(a.Port))
	}
	return netip.AddrPort{}
}
