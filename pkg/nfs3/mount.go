// MOUNT version 3 (RFC 1813, chapter 5), and what of versions 1 and 2 serves
// umount(8) and showmount(8).
//
// Versions 1 and 2 have no MNT here: their handles are NFS version 2's 32
// bytes, which ours do not fit in, and nothing could be done with one.

package nfs3

import (
	"bytes"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"sluice/pkg/trace"
	"sluice/pkg/vfs"
	"sluice/rpc"
	"sluice/xdr/mount3"
)

// maxExportReply bounds the answer to EXPORT and DUMP, in bytes: what does not
// fit is left out, since neither has a way to go on.
const maxExportReply = 1 << 20

func (s *Service) mountProcs1() []rpc.Proc {
	return []rpc.Proc{
		mount3.MOUNTPROC_NULL:      {Name: "NULL", Run: null},
		mount3.MOUNTPROC_MNT:       {Name: "MNT"},
		mount3.MOUNTPROC_DUMP:      {Name: "DUMP", Run: s.dump},
		mount3.MOUNTPROC_UMNT:      {Name: "UMNT", Run: s.umnt},
		mount3.MOUNTPROC_UMNTALL:   {Name: "UMNTALL", Run: s.umntall},
		mount3.MOUNTPROC_EXPORT:    {Name: "EXPORT", Run: s.export},
		mount3.MOUNTPROC_EXPORTALL: {Name: "EXPORTALL", Run: s.export},
	}
}

// mountPath returns the path of a MNT or UMNT as the mount list keeps it. An
// empty one stands for the root, as mountd has it.
func mountPath(b []byte) string {
	if len(b) == 0 {
		return "/"
	}
	return path.Clean(string(b))
}

// mnt answers with the handle of a directory. The flavours are those of the
// export, AUTH_SYS always among them and never AUTH_NONE: BSD clients refuse a
// list without AUTH_SYS, and old Linux ones that read the list from its end
// would take AUTH_NONE (nfs-utils, mountd.c, set_authflavors).
func (s *Service) mnt(c *rpc.Call) rpc.Verdict {
	p := c.Args.Opaque(mount3.MNTPATHLEN)
	if c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	t := s.enter(c)
	var fh vfs.Handle
	var flavors []uint32
	err := error(vfs.ErrJukebox)
	dir := "/"
	switch {
	case bytes.IndexByte(p, 0) >= 0:
		err = unix.EINVAL
	case len(p) > 0 && p[0] != '/':
		err = unix.ENOENT // no export has such a name; Linux: ACCES or NOENT
	case t.fs != nil:
		dir = mountPath(p)
		fh, flavors, err = s.ns.Mount(t.fs, &t.caller, dir)
	}
	if again(c, err) {
		return rpc.WouldBlock
	}
	client := t.caller.Addr
	res := mount3.Mountres3{FhsStatus: mountStatus(err)}
	if err != nil {
		s.mountLog.Warn().Stringer("client", client).Str("path", dir).Str("reason", res.FhsStatus.String()).AnErr("cause", err).Msg("mount refused")
		res.Encode(c.Reply)
		return rpc.Done
	}
	s.mounts.add(client, dir)
	s.mountLog.Info().Stringer("client", client).Str("path", dir).Msg("mounted")
	if s.trace != nil && s.trace.Enabled() {
		s.trace.Emit(trace.Event{Name: trace.ClientMount, XID: c.XID, Client: client, Export: dir})
	}
	res.Mountinfo.Fhandle = fh.Bytes()
	for _, f := range flavors {
		if f != rpc.FlavorNone {
			res.Mountinfo.AuthFlavors = append(res.Mountinfo.AuthFlavors, int32(f))
		}
	}
	if !slices.Contains(res.Mountinfo.AuthFlavors, rpc.FlavorSys) {
		res.Mountinfo.AuthFlavors = append(res.Mountinfo.AuthFlavors, rpc.FlavorSys)
	}
	res.Encode(c.Reply)
	return rpc.Done
}

func (s *Service) dump(c *rpc.Call) rpc.Verdict {
	e := c.Reply
	base := e.Len()
	for _, m := range s.mounts.all() {
		body := mount3.Mountbody{MlHostname: []byte(m.Client.String()), MlDirectory: []byte(m.Path)}
		if e.Len()-base+12+len(body.MlHostname)+len(body.MlDirectory)+6 > maxExportReply-4 {
			break
		}
		e.Bool(true)
		body.Encode(e)
	}
	e.Bool(false)
	return rpc.Done
}

func (s *Service) umnt(c *rpc.Call) rpc.Verdict {
	p := c.Args.Opaque(mount3.MNTPATHLEN)
	if c.Args.Err() != nil {
		return rpc.GarbageArgs
	}
	client := c.Peer().Addr()
	dir := mountPath(p)
	s.mounts.remove(client, dir)
	s.mountLog.Info().Stringer("client", client).Str("path", dir).Msg("unmounted")
	return rpc.Done
}

func (s *Service) umntall(c *rpc.Call) rpc.Verdict {
	client := c.Peer().Addr()
	s.mounts.removeAll(client)
	s.mountLog.Info().Stringer("client", client).Msg("unmounted everything")
	return rpc.Done
}

// export answers what showmount -e prints.
func (s *Service) export(c *rpc.Call) rpc.Verdict {
	e := c.Reply
	base := e.Len()
	for _, x := range s.exports().Exports() {
		node := mount3.Exportnode{ExDir: []byte(x.Path)}
		for _, name := range x.Groups() {
			node.ExGroups = append(node.ExGroups, mount3.Groupnode{GrName: []byte(name)})
		}
		m := e.Mark()
		e.Bool(true)
		node.Encode(e)
		if e.Len()-base > maxExportReply-4 {
			e.Rollback(m)
			break
		}
	}
	e.Bool(false)
	return rpc.Done
}
