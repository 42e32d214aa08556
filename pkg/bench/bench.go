// Package bench loads an NFS server and says how it did: `sluice bench` as a
// library.
//
// Plan: Open connects to a server of any make, by NFS version 3 or 4.1, and
// makes the dataset through it; Run makes one measurement; Close takes the
// dataset away again. client*.go prepare with one call at a time. A run is a
// phase (run.go) of loops (loop.go), one for each thread, that drive connections
// (conn.go): calls are patched templates (wire.go), and data is sent from and
// compared with a table (pattern.go) without being computed or copied. compare.go
// switches the I/O mode of a sluice server between runs. result.go is what comes
// out. Nothing is kept between two Benches: several may run at once.
package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"golang.org/x/sys/unix"

	"sluice/rpc"
)

// Options say which server to load, where, and with what.
type Options struct {
	// Server is HOST or HOST:PORT. Without a port it is 2049, and where nobody
	// listens there, what the portmapper says.
	Server string
	// Port, if not 0, is the port, whatever Server says.
	Port int
	// MountPort is where MOUNT of version 3 is; 0: at the port of NFS, or where
	// the portmapper says.
	MountPort int
	// Path of the server: an export, or a directory in one.
	Path string
	// UID, GID and Groups (16 at most) are who the calls are from (AUTH_SYS).
	UID, GID uint32
	Groups   []uint32

	Workload Workload
	// Existing is the prefix of the names of files that are there: FileName says
	// what follows it. They are neither filled nor removed; WRITEs overwrite
	// them. With Verify they must hold what PatternAt says. "": the files are
	// made, filled where READs want it, and removed by Close.
	Existing string
	// Fill has the files filled also where the load would do so itself: later runs
	// overwrite, and the first one should not differ.
	Fill bool
	// Keep leaves the files that were made where they are.
	Keep bool
	// Threads that make the load; 0: one for each two cores.
	Threads int

	// Watch looks at the server's CPU time and page cache; see Watch.
	Watch Watch
	// OnProgress, if set, is called several times a second, by one goroutine at
	// a time.
	OnProgress func(Progress)
}

// Progress says how far a step is.
type Progress struct {
	// Step is "preparing", "warming up", "running" or "removing".
	Step string
	// Done of Total: bytes, of a run by time nanoseconds; files when removing.
	Done, Total int64
	// Unit is "bytes", "time" or "files".
	Unit string
	// BytesPerSecond of the last moment.
	BytesPerSecond float64
}

// FileName is the name of file n of a dataset with the given prefix.
func FileName(prefix string, n int) string { return fmt.Sprintf("%s%05d", prefix, n) }

// Bench is a dataset on a server and the connections to it. One goroutine at a
// time may use it.
type Bench struct {
	o      Options
	w      Workload
	at     address
	cl     client
	prefix string
	files  []file
	made   int // files that are to be removed
	conns  []*conn
	broken bool // a run has left calls on the connections
	closed bool
}

// Limits of Close, when the server does not answer.
const removeTimeout = 60 * time.Second

// Open connects to the server and prepares the dataset. When it fails or ctx
// ends, what was made already is removed.
func Open(ctx context.Context, o Options) (*Bench, error) {
	b := &Bench{o: o, w: o.Workload}
	if err := b.w.Complete(); err != nil {
		return nil, err
	}
	if o.Path == "" {
		return nil, errors.New("--path: name an export of the server, or a directory in one")
	}
	if o.Threads < 0 || o.Threads > MaxThreads {
		return nil, fmt.Errorf("--threads: %d is not between 1 and %d", o.Threads, MaxThreads)
	}
	if len(o.Groups) > rpc.MaxGroups {
		return nil, fmt.Errorf("--groups: AUTH_SYS takes %d at most (RFC 5531)", rpc.MaxGroups)
	}
	at, err := parseServer(o.Server)
	if err != nil {
		return nil, err
	}
	if o.Port != 0 {
		at.port = o.Port
	}
	if err := b.prepare(ctx, at); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Workload is what was asked for, with all defaults filled in.
func (b *Bench) Workload() Workload { return b.w }

// Server is where the load goes, HOST:PORT/PATH.
func (b *Bench) Server() string { return b.at.String() + "/" + joined(b.o.Path) }

func joined(path string) string {
	out := ""
	for i, n := range split(path) {
		if i > 0 {
			out += "/"
		}
		out += n
	}
	return out
}

func (b *Bench) prepare(ctx context.Context, at address) error {
	cred := &rpc.Cred{Flavor: rpc.FlavorSys, UID: b.o.UID, GID: b.o.GID, Groups: b.o.Groups, Machine: []byte("sluice-bench")}
	at, c, err := locate(ctx, at)
	if err != nil {
		return err
	}
	b.at = at
	l := link{ctx: ctx, at: at, cred: cred, rpc: c, last: time.Now()}
	if b.w.Protocol == "4.1" {
		c4 := &client4{link: l, room: max(b.w.BlockSize, fillBlock) + headRoom}
		b.cl = c4
		if err := c4.register(); err != nil {
			return err
		}
	} else {
		b.cl = &client3{link: l, mountPort: b.o.MountPort}
	}
	if err := b.cl.open(b.o.Path); err != nil {
		return err
	}
	read, write, err := b.cl.limits()
	if err != nil {
		return err
	}
	if read > 0 && b.w.ReadPercent > 0 && b.w.BlockSize > read || write > 0 && b.w.ReadPercent < 100 && b.w.BlockSize > write {
		return fmt.Errorf("--bs: the server takes READs of %s and WRITEs of %s at most, not %s", SizeText(int64(read)), SizeText(int64(write)), SizeText(int64(b.w.BlockSize)))
	}
	if err := b.connect(ctx); err != nil {
		return err
	}
	if b.o.Existing != "" {
		return b.find()
	}
	return b.fill(ctx, write)
}

// connect opens the connections of the load.
func (b *Bench) connect(ctx context.Context) error {
	version := 3
	if b.w.Protocol == "4.1" {
		version = 4
	}
	for i := range b.w.Connections {
		nc, err := dial(ctx, b.at)
		if err != nil {
			return fmt.Errorf("connection %d of %d to %v: %w", i+1, b.w.Connections, b.at, short(err))
		}
		fd, err := detach(nc)
		if err != nil {
			return err
		}
		c := &conn{fd: fd, version: version}
		b.conns = append(b.conns, c)
		c.slots = make([]slot, max(b.w.slots(i), fillDepth))
		if c.sess, err = b.cl.session(len(c.slots)); err != nil {
			return err
		}
	}
	return nil
}

// find looks up files that are there.
func (b *Bench) find() error {
	b.prefix = b.o.Existing
	for n := range b.w.Files {
		f, err := b.cl.lookup(FileName(b.prefix, n), b.w.ReadPercent < 100)
		if err != nil {
			return err
		}
		b.files = append(b.files, f)
		if f.size < b.w.FileBytes {
			return fmt.Errorf("%s has %d bytes, fewer than the %d of a file of the dataset", f.name, f.size, b.w.FileBytes)
		}
	}
	return nil
}

// How the dataset is filled: by WRITEs of at most fillBlock bytes, so many of
// them on each of at most fillJobs connections.
const (
	fillBlock = 1 << 20
	fillDepth = 4
	fillJobs  = 8
)

// fill makes the files and, where READs or WRITEs that overwrite need it, their content.
func (b *Bench) fill(ctx context.Context, largest int) error {
	b.prefix = fmt.Sprintf("sluice-bench-%08x-", rand.Uint32())
	for n := range b.w.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := b.cl.create(FileName(b.prefix, n))
		if err != nil {
			return err
		}
		b.files = append(b.files, f)
		b.made++
	}
	if b.w.ReadPercent == 0 && b.w.Pattern == "sequential" && !b.o.Fill {
		return nil // each byte is written before it is written again
	}
	w := b.w
	w.Op, w.ReadPercent, w.Stable, w.Pattern, w.Verify = "write", 0, "unstable", "sequential", false
	w.BlockSize = fillBlock
	if largest > 0 {
		w.BlockSize = min(fillBlock, largest)
	}
	w.Misalignment, w.Depth = 0, fillDepth
	w.Jobs = min(w.Files, len(b.conns), fillJobs)
	w.Connections = w.Jobs
	w.Seconds, w.WarmupSeconds, w.MaxBytes = 0, 0, 0
	r, err := b.phase(ctx, &w, "preparing", true)
	if err == nil && r.Errors > 0 {
		err = errors.New(r.FirstError)
	}
	if err != nil {
		return fmt.Errorf("preparing %s in %d files: %w", SizeText(w.DatasetBytes), w.Files, err)
	}
	return nil
}

// Close removes the files that Open made, unless they are to be kept, and ends
// the connections. It may be called again.
func (b *Bench) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	for _, c := range b.conns {
		unix.Close(c.fd)
	}
	if b.cl == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	b.cl.outlive(ctx)
	var errs []error
	for i := range b.files {
		if err := b.cl.release(&b.files[i]); err != nil && len(errs) == 0 {
			errs = append(errs, err)
		}
		if i < b.made && !b.o.Keep {
			if err := b.cl.remove(b.files[i].name); err != nil && !errors.Is(err, errNoEntry) {
				errs = append(errs, fmt.Errorf("%w; remove %s* in %s yourself", err, b.prefix, b.o.Path))
				break
			}
			b.progress(Progress{Step: "removing", Done: int64(i + 1), Total: int64(b.made), Unit: "files"})
		}
		if ctx.Err() != nil {
			errs = append(errs, fmt.Errorf("the server takes too long: remove %s* in %s yourself", b.prefix, b.o.Path))
			break
		}
	}
	return errors.Join(append(errs, b.cl.close())...)
}

// Prefix is how the names of the dataset's files begin.
func (b *Bench) Prefix() string { return b.prefix }

func (b *Bench) progress(p Progress) {
	if b.o.OnProgress != nil {
		b.o.OnProgress(p)
	}
}
