// NFS version 3 and MOUNT (RFC 1813).

package bench

import (
	"errors"
	"fmt"
	"strings"

	"sluice/pkg/portmap"
	"sluice/rpc"
	"sluice/xdr/mount3"
	wire3 "sluice/xdr/nfs3"
)

type client3 struct {
	link
	mountPort int
	dir       []byte
	path      string
}

func (c *client3) call(what string, proc uint32, args rpc.Encodable, res rpc.Decodable, status *wire3.Nfsstat3) error {
	return untilServed(c.ctx, func() error {
		if err := c.Call(wire3.NFS_PROGRAM, wire3.NFS_V3, proc, args, res); err != nil {
			return explainRPC(what, c.at, err)
		}
		switch *status {
		case wire3.NFS3_OK:
			return nil
		case wire3.NFS3ERR_NOENT:
			return fmt.Errorf("%s: %w", what, errNoEntry)
		case wire3.NFS3ERR_EXIST:
			return fmt.Errorf("%s: %w", what, errExists)
		}
		return &statusError{what: what, status: status.String(), later: *status == wire3.NFS3ERR_JUKEBOX, hint: hint(status.String(), c.cred.UID)}
	})
}

// open mounts the longest part of the path that the server gives to MOUNT, and
// looks the rest up: not every server mounts what lies below an export.
func (c *client3) open(path string) error {
	mount, done, err := c.mounter()
	if err != nil {
		return err
	}
	defer done()
	names := split(path)
	var first error
	for n := len(names); n >= 0; n-- {
		at := "/" + strings.Join(names[:n], "/")
		err := c.mnt(mount, at)
		if err == nil {
			return c.walk(path, names[n:])
		}
		if first == nil {
			first = err
		}
		var st *statusError
		if !errors.As(err, &st) {
			return err
		}
	}
	return first
}

func (c *client3) mnt(mount *rpc.Client, dir string) error {
	var res mount3.Mountres3
	if err := mount.Call(mount3.MOUNT_PROGRAM, mount3.MOUNT_V3, mount3.MOUNTPROC3_MNT, c.cred, opaque(dir), &res); err != nil {
		return explainRPC("mounting "+dir, c.at, err)
	}
	if res.FhsStatus == mount3.MNT3_OK {
		c.dir = clone(res.Mountinfo.Fhandle)
		return nil
	}
	e := &statusError{what: "mounting " + dir + " from " + c.at.host, status: res.FhsStatus.String()}
	switch res.FhsStatus {
	case mount3.MNT3ERR_NOENT, mount3.MNT3ERR_NOTDIR:
		e.hint = "no such directory is exported: name an export and a directory in it with --path"
	case mount3.MNT3ERR_ACCES, mount3.MNT3ERR_PERM:
		e.hint = "it is not exported to this host, or wants a source port below 1024 (option secure): look at the exports, and run this as root"
	}
	return e
}

// mounter connects to MOUNT: at the given port, at the port of NFS, where some
// servers have it too, or where the portmapper says.
func (c *client3) mounter() (*rpc.Client, func(), error) {
	none := func() {}
	if c.mountPort == 0 {
		err := c.Call(mount3.MOUNT_PROGRAM, mount3.MOUNT_V3, mount3.MOUNTPROC3_NULL, nil, nil)
		var re *rpc.Error
		switch {
		case err == nil:
			return c.rpc, none, nil
		case !errors.As(err, &re):
			return nil, none, explainRPC("asking for MOUNT", c.at, err)
		}
		if c.mountPort, err = findPort(c.ctx, c.at.host, portmap.ProgMount, mount3.MOUNT_V3); err != nil {
			return nil, none, fmt.Errorf("where is MOUNT of %s? It is not at port %d, and the portmapper: %w; name its port with --mount-port, or use --protocol 4.1",
				c.at.host, c.at.port, short(err))
		}
	}
	at := address{c.at.host, c.mountPort}
	nc, err := dial(c.ctx, at)
	if err != nil {
		return nil, none, fmt.Errorf("connecting to MOUNT at %v: %w; name its port with --mount-port", at, short(err))
	}
	m := newRPC(nc)
	return m, func() { m.Close() }, nil
}

func (c *client3) walk(path string, names []string) error {
	for _, name := range names {
		f, err := c.lookup(name, false)
		if errors.Is(err, errNoEntry) {
			return fmt.Errorf("%s on %s has no directory %s; make it, or name another with --path", path, c.at.host, name)
		}
		if err != nil {
			return err
		}
		c.dir = f.fh
	}
	c.path = path
	return nil
}

func (c *client3) limits() (int, int, error) {
	var res wire3.FSINFO3res
	err := c.call("FSINFO", wire3.NFSPROC3_FSINFO, &wire3.FSINFO3args{Fsroot: wire3.NfsFh3{Data: c.dir}}, &res, &res.Status)
	return int(res.Resok.Rtmax), int(res.Resok.Wtmax), err
}

func (c *client3) create(name string) (file, error) {
	var res wire3.CREATE3res
	args := &wire3.CREATE3args{Where: c.name(name), How: wire3.Createhow3{Mode: wire3.GUARDED,
		ObjAttributes: wire3.Sattr3{Mode: wire3.SetMode3{SetIt: true, Mode: fileMode}}}}
	if err := c.call("making "+name+" in "+c.path, wire3.NFSPROC3_CREATE, args, &res, &res.Status); err != nil {
		return file{}, err
	}
	if !res.Resok.Obj.HandleFollows {
		return c.lookup(name, true)
	}
	return file{name: name, fh: clone(res.Resok.Obj.Handle.Data)}, nil
}

func (c *client3) lookup(name string, _ bool) (file, error) {
	var res wire3.LOOKUP3res
	if err := c.call("looking up "+name, wire3.NFSPROC3_LOOKUP, &wire3.LOOKUP3args{What: c.name(name)}, &res, &res.Status); err != nil {
		return file{}, err
	}
	f := file{name: name, fh: clone(res.Resok.Object.Data)}
	var attr wire3.GETATTR3res
	if err := c.call("attributes of "+name, wire3.NFSPROC3_GETATTR, &wire3.GETATTR3args{Object: wire3.NfsFh3{Data: f.fh}}, &attr, &attr.Status); err != nil {
		return file{}, err
	}
	f.size = int64(attr.Resok.ObjAttributes.Size)
	return f, nil
}

func (c *client3) remove(name string) error {
	var res wire3.REMOVE3res
	return c.call("removing "+name, wire3.NFSPROC3_REMOVE, &wire3.REMOVE3args{Object: c.name(name)}, &res, &res.Status)
}

func (c *client3) name(name string) wire3.Diropargs3 {
	return wire3.Diropargs3{Dir: wire3.NfsFh3{Data: c.dir}, Name: []byte(name)}
}

func (c *client3) release(*file) error           { return nil }
func (c *client3) session(int) (*session, error) { return nil, nil }
func (c *client3) template(k kind, f *file, stable uint32) *template {
	return newTemplate3(k, c.cred, f.fh, stable)
}
