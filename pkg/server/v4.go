// What NFSv4 needs beside the data path: what clients hold, kept on stable
// storage as far as a restart must know it, the way back to clients, and the
// kernel's locks and leases, by which local processes take part.

package server

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"sluice/pkg/filecache"
	"sluice/pkg/nfs3"
	"sluice/pkg/nfs4"
	"sluice/pkg/state"
	"sluice/pkg/vfs"
	"sluice/rpc"
)

// v4 is version 4's part of a Server.
type v4 struct {
	state     *state.State
	callbacks *nfs4.Callbacks
	locks     *vfs.Locks
	leases    *vfs.Leases // nil when delegations are off
	service   *nfs4.Service
	ticking   sync.WaitGroup
	stop      chan struct{}
}

const (
	tickEvery = time.Second

	// The share of the descriptor limit that locks and leases may take, each.
	// The file cache has its budget from the same limit.
	descriptorShare = 16

	// The kernel lets a local process have a file, and takes its lease away,
	// when it has waited so long (proc(5), lease-break-time). Delegations must
	// be gone some time before.
	leaseBreakFile   = "/proc/sys/fs/lease-break-time"
	leaseBreakMargin = 5 * time.Second
)

// buildV4 makes version 4's rooms on top of the namespace.
func (s *Server) buildV4(key vfs.HandleKey, descriptors uint64) error {
	logf := func(format string, args ...any) { s.log.Warn().Msg(fmt.Sprintf(format, args...)) }
	dir, err := state.OpenDir(filepath.Join(s.cfg.State, "clients"), logf)
	if err != nil {
		return s.explainState(err)
	}
	v := &s.v4
	v.callbacks = nfs4.NewCallbacks(s.log)
	most := int(max(descriptors/descriptorShare, 16))
	v.locks = s.ns.NewLocks(most)
	cfg := state.Config{
		Lease: s.cfg.LeaseTime, Grace: s.cfg.GraceTime, Recovery: dir, Callbacks: v.callbacks, Local: localLocks{v.locks}, Log: logf, Trace: &s.bus,
		MaxLockPlaces: most,
	}
	if s.cfg.Delegations != "off" {
		v.leases, err = s.ns.NewLeases(most, v.locks, func(k filecache.Key) { v.state.LeaseBroken(k) })
		if err != nil {
			dir.Close()
			return err
		}
		cfg.Leases, cfg.Delegations, cfg.WriteDelegs = v.leases, true, s.cfg.Delegations == "on"
		cfg.RecallTime = recallTime(s.cfg.LeaseTime, leaseBreakFile)
		cfg.MaxDelegations = most
	}
	if v.state, err = state.New(cfg); err != nil {
		dir.Close()
		return s.explainState(err)
	}
	if left := v.state.GraceLeft(); left > 0 {
		s.log.Info().Stringer("at_most", left.Round(time.Second)).Msg("grace period: NFSv4 clients may reclaim what they held, and open or lock nothing new")
	}
	v.callbacks.Attach(v.state)
	s.ns.SetGuard(v.state)
	v.service = nfs4.New(nfs4.Config{
		Namespace: s.ns, State: v.state, Log: s.log, IDs: s.idMap(), Callbacks: v.callbacks, UTF8Names: s.cfg.Names == "utf-8",
		ServerOwner: identity(key, "server owner"), Scope: identity(key, "server scope"),
	})
	v.stop = make(chan struct{})
	v.ticking.Go(v.tick)
	return nil
}

// recallTime is how long a client may keep a delegation that is called back.
func recallTime(lease time.Duration, breakFile string) time.Duration {
	b, err := os.ReadFile(breakFile)
	if err != nil {
		return lease
	}
	seconds, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || seconds <= 0 { // 0 is never
		return lease
	}
	return min(lease, max(time.Duration(seconds)*time.Second-leaseBreakMargin, time.Second))
}

// identity names this server to clients: the same on all its addresses and
// after a restart, and no other's, as the handle key is (RFC 8881, 2.10.4).
func identity(key vfs.HandleKey, label string) []byte {
	m := hmac.New(sha256.New, key[:])
	m.Write([]byte(label))
	return []byte("sluice-" + hex.EncodeToString(m.Sum(nil)[:12]))
}

func (s *Server) idMap() *nfs4.IDMap {
	if s.cfg.IDDomain == "" {
		return nil
	}
	return nfs4.NewIDMap(s.cfg.IDDomain)
}

func (v *v4) tick() {
	for t := time.NewTicker(tickEvery); ; {
		select {
		case <-v.stop:
			t.Stop()
			return
		case <-t.C:
			v.state.Tick()
		}
	}
}

// close ends version 4's rooms; no call runs any more.
func (v *v4) close() (err error) {
	if v.stop != nil {
		close(v.stop)
		v.ticking.Wait()
	}
	if v.service != nil {
		v.service.Close()
	}
	if v.callbacks != nil {
		v.callbacks.Close()
	}
	if v.state != nil {
		err = v.state.Close()
	}
	if v.leases != nil {
		v.leases.Close()
	}
	if v.locks != nil {
		v.locks.Close()
	}
	return err
}

// localLocks lets pkg/state take locks on files. An owner of pkg/state is
// comparable, which is all that vfs asks of one.
type localLocks struct{ l *vfs.Locks }

func (x localLocks) Lock(file state.FileKey, owner state.LockOwner, typ state.LockType, start, end uint64) error {
	return x.l.Lock(file, owner, typ == state.WriteLock, start, end)
}

func (x localLocks) Unlock(file state.FileKey, owner state.LockOwner, start, end uint64) {
	x.l.Unlock(file, owner, start, end)
}

func (x localLocks) Test(file state.FileKey, owner state.LockOwner, typ state.LockType, start, end uint64) (c state.LockConflict, ok bool) {
	write, from, to, pid, ok := x.l.Test(file, owner, typ == state.WriteLock, start, end)
	if !ok {
		return c, false
	}
	kind := state.ReadLock
	if write {
		kind = state.WriteLock
	}
	return state.LockConflict{Type: kind, Start: from, End: to, Local: true, Pid: pid}, true
}

func (x localLocks) Forget(file state.FileKey, owner state.LockOwner) { x.l.Forget(file, owner) }

// threadLocal is what one thread keeps for all versions.
type threadLocal struct {
	v3 *nfs3.Local
	v4 *nfs4.Local
}

func (l *threadLocal) NFS3() *nfs3.Local { return l.v3 }
func (l *threadLocal) NFS4() *nfs4.Local { return l.v4 }

func (s *Server) newLocal() any {
	v3 := s.nfs.NewLocal().(*nfs3.Local)
	return &threadLocal{v3, s.v4.service.NewLocal(v3.Thread())}
}

func (s *Server) connect(c *rpc.Conn) {
	s.nfs.Connect(c)
	s.v4.callbacks.Connect(c)
}

func (s *Server) disconnect(c *rpc.Conn) {
	s.v4.callbacks.Disconnect(c)
	s.v4.state.ConnClosed(c.ID())
}
