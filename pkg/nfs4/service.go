// Package nfs4 serves NFS version 4, minor versions 0, 1 and 2 (RFC 7530, RFC
// 8881, RFC 7862, RFC 8275, RFC 8276; of RFC 9754 open_arguments and OPENs that
// leave a delegation alone).
//
// Plan: one interpreter (compound.go) takes a COMPOUND apart, one operation at
// a time: it decodes, runs and encodes it by one row of one table (ops.go). The
// row says in which minor versions the operation exists, what it needs, what it
// may cost; so checks are in one place and operations are short. Attributes are
// rows of a second table (attr.go). Files are opened and changed by vfs.View,
// what clients hold is kept by pkg/state, and both say in errors of their own
// what went wrong: status.go has the one table to NFS4ERR codes.
//
//	op_fh.go op_attr.go op_name.go op_readdir.go    handles, attributes, names
//	op_io.go op_io42.go op_copy.go op_xattr.go      data (offload.go: copies in the background)
//	op_open.go op_lock.go                           opens, delegations, locks
//	op_client.go op_session.go                      clients of 4.0; of 4.1 and 4.2
//	op_none.go                                      what is answered with "no"
//
// Nothing is allocated by SEQUENCE, PUTFH, GETATTR, ACCESS, LOOKUP and READ.
package nfs4

import (
	"hash/maphash"

	"github.com/rs/zerolog"

	"sluice/pkg/state"
	"sluice/pkg/vfs"
	"sluice/rpc"
	wire "sluice/xdr/nfs4"
)

// Config makes a Service. Namespace and State are required.
type Config struct {
	Namespace *vfs.Namespace
	State     *state.State
	Log       zerolog.Logger

	MinMinor uint32 // lowest minor version served; 0
	MaxMinor uint32 // highest one; 0 stands for 2 unless OnlyMinor0 is set
	Only40   bool   // serve no minor version but 0

	// ServerOwner and Scope name this server to clients of 4.1 and later (RFC
	// 8881, 2.10.4): the same on all its addresses and after a restart, and no
	// other server's.
	ServerOwner []byte
	Scope       []byte

	// Callbacks tells clients that asynchronous copies are done, and the
	// service that a client is gone. nil: all copies are synchronous.
	Callbacks *Callbacks

	// UTF8Names refuses names of files and extended attributes that are not in UTF-8. What is there already can be listed.
	UTF8Names bool

	IDs      *IDMap // names of owners; nil: numbers only
	MaxReply int    // largest reply of 4.0, in bytes; 1 MiB + 64 KiB
	MaxOps   int    // operations of one 4.0 COMPOUND; 128
}

// Service holds the procedures.
type Service struct {
	ns   *vfs.Namespace
	st   *state.State
	log  zerolog.Logger
	cfg  Config
	ids  *IDMap
	seed maphash.Seed

	counts opCounters
	copies copies
}

// New makes the service.
func New(cfg Config) *Service {
	if cfg.MaxMinor == 0 && !cfg.Only40 {
		cfg.MaxMinor = 2
	}
	if cfg.MaxReply <= 0 {
		cfg.MaxReply = 1<<20 + 64<<10
	}
	if cfg.MaxOps <= 0 {
		cfg.MaxOps = 128
	}
	s := &Service{ns: cfg.Namespace, st: cfg.State, log: cfg.Log, cfg: cfg, ids: cfg.IDs, seed: maphash.MakeSeed()}
	s.copies.init(s)
	if cfg.Callbacks != nil {
		cfg.Callbacks.gone = s.copies.gone
	}
	return s
}

// Close ends the copies that go on in the background. Call it when no call runs any more, and before the namespace, the
// state and the callbacks are closed.
func (s *Service) Close() { s.copies.close() }

// Versions returns version 4 of program NFS, to stand beside version 3.
func (s *Service) Versions() []rpc.Version {
	return []rpc.Version{{Vers: wire.NFS_V4, Procs: []rpc.Proc{
		wire.NFSPROC4_NULL:     {Name: "NULL", Run: null},
		wire.NFSPROC4_COMPOUND: {Name: "COMPOUND", Run: s.compound, Cache: true, CacheIf: keepReply, Land: landWrite},
	}}}
}

// Programs returns NFS version 4 as a program of its own, for a server without
// version 3.
func (s *Service) Programs() []rpc.Program {
	return []rpc.Program{{Prog: wire.NFS4_PROGRAM, Name: "NFS", Versions: s.Versions()}}
}

func null(*rpc.Call) rpc.Verdict { return rpc.Done }

// Local is what one OS thread keeps: the COMPOUND that it runs, and scratch
// space. It shares the thread's vfs.Thread with other protocols.
type Local struct {
	comp compound
}

// NewLocal makes the state of the calling OS thread. fs is nil when there is
// none: calls are then answered with NFS4ERR_DELAY.
func (s *Service) NewLocal(fs *vfs.Thread) *Local {
	l := new(Local)
	l.comp.init(s, fs)
	return l
}

// NFS4 returns l: what a thread's Local must have, be it made of one protocol's
// state or of several.
func (l *Local) NFS4() *Local { return l }

// Threaded is what rpc.Thread.Local must be for this package's procedures.
type Threaded interface{ NFS4() *Local }

// Memoed is what rpc.Conn.Data may be, to remember which exports a client uses.
type Memoed interface{ ClientMemo() *vfs.ClientMemo }
