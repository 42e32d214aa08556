// Plan of this file: an open that denies others, which Linux clients make none of
// but must respect: a client of the test's own makes it, and a kernel client of
// each version runs into it.

package kernel

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/test/nfscall"
	"sluice/test/testenv"
	wire4 "sluice/xdr/nfs4"
)

func TestShareDenial(t *testing.T) {
	t.Parallel()
	dir := testenv.Disk(t)
	// The lease outlasts the test: the session says nothing meanwhile.
	s := testenv.StartServer(t, testenv.ServerConfig{Exports: []testenv.Export{{Dir: dir}}, Lease: time.Minute})
	if s.Stats(t) == nil {
		t.Skip("another server has no NFSv4 here")
	}
	for _, name := range []string{"all", "writing"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("text"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	x := nfscall.Dial(t, fmt.Sprintf("%s:%d", testenv.ServerIP, s.Port), nfscall.Root()).Session(t, 1, "denies")
	g := Boot(t)
	for _, version := range allVersions {
		g.MountVersion(t, s, version, dir, "/mnt/v"+version, "")
	}
	// Nobody would answer a recall.
	const noDelegation = wire4.OPEN4_SHARE_ACCESS_WANT_NO_DELEG
	path := strings.Split(strings.Trim(dir, "/"), "/")
	all, allFH := x.Open(t, path, "all", wire4.OPEN4_SHARE_ACCESS_BOTH|noDelegation, wire4.OPEN4_SHARE_DENY_BOTH)
	writing, writingFH := x.Open(t, path, "writing", wire4.OPEN4_SHARE_ACCESS_READ|noDelegation, wire4.OPEN4_SHARE_DENY_WRITE)
	as := func(version, text string) error {
		return g.CheckAs(t, root, "steps", "/mnt/v"+version, "steps="+text)
	}
	for _, version := range allVersions[1:] {
		if err := as(version, `
			stat all
			read all = EACCES
			write all x = EACCES
			truncate 1 all = EAGAIN
			holds writing text
			write writing x = EACCES
			truncate 1 writing = EAGAIN
			holds writing text`); err != nil {
			t.Errorf("version %s: %v", version, err)
		}
	}
	// Version 3 has no word for it: its client is told to come back later.
	waits := []struct {
		steps string
		done  chan error
	}{{steps: "holds all text"}, {steps: "stat all\nholds writing text\nwrite writing late"}}
	for i := range waits {
		waits[i].done = make(chan error, 1)
		go func() { waits[i].done <- as("3", waits[i].steps) }()
	}
	pause(1500)
	for _, w := range waits {
		select {
		case err := <-w.done:
			t.Errorf("version 3 did not wait: %s: %v", w.steps, err)
			w.done <- err
		default:
		}
	}
	for _, o := range []struct {
		fh    []byte
		state wire4.Stateid4
	}{{allFH, all.Stateid}, {writingFH, writing.Stateid}} {
		r := x.Do4(t, nfscall.Op4{Num: wire4.OP_PUTFH, Args: &wire4.PUTFH4args{Object: o.fh}},
			nfscall.Op4{Num: wire4.OP_CLOSE, Args: &wire4.CLOSE4args{OpenStateid: o.state}})
		r.Next(t, wire4.OP_PUTFH, nil)
		r.Next(t, wire4.OP_CLOSE, new(wire4.CLOSE4res))
	}
	for _, w := range waits {
		if err := <-w.done; err != nil {
			t.Errorf("version 3, after the denial: %v", err)
		}
	}
	for _, version := range allVersions {
		if err := as(version, `
			holds all text
			holds writing late
			truncate 1 all
			write all text
			write writing late`); err != nil {
			t.Errorf("version %s, after the denial: %v", version, err)
		}
	}
}
