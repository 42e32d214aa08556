// nfsload drives an NFSv3 or NFSv4.1 server and reports rate, latency and the server's
// CPU. See package load; this file is its command line.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"sluice/test/bench/load"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "nfsload:", err)
		os.Exit(1)
	}
}

func run() error {
	var c load.Config
	var uids, sizes string
	var asJSON bool
	scenarios := strings.Join(load.Scenarios, " ")
	flag.StringVar(&c.Addr, "addr", "127.0.0.1", "server's IPv4 `address`")
	flag.IntVar(&c.Port, "port", 2049, "NFS `port`")
	flag.IntVar(&c.MountPort, "mport", 0, "MOUNT `port` (default: the NFS port)")
	flag.StringVar(&c.Export, "export", "/export", "exported `path`")
	flag.StringVar(&c.Dir, "dir", "", "`directory` below the export")
	flag.StringVar(&c.File, "file", "file", "`name` of the file in it")
	flag.StringVar(&c.Op, "op", "getattr", strings.Join(load.Ops, " ")+"; scenarios: "+scenarios)
	flag.BoolVar(&c.V41, "v41", false, "NFSv4.1, in a session for each connection, instead of NFSv3: "+strings.Join(load.Ops41, " "))
	flag.IntVar(&c.Size, "size", 1<<20, "`bytes` per READ or WRITE")
	flag.StringVar(&sizes, "sizes", "", "READ: `sizes` to mix, comma separated, so that each moves as many bytes; -size is the largest")
	flag.IntVar(&c.Conns, "conns", 1, "connections")
	flag.IntVar(&c.Depth, "depth", 8, "calls in flight on each connection")
	flag.BoolVar(&c.Random, "random", false, "random block order")
	flag.StringVar(&uids, "uid", "0", "caller's uid and gid; several, comma separated, take turns")
	flag.DurationVar(&c.Duration, "time", 3*time.Second, "time limit")
	flag.Uint64Var(&c.Count, "count", 0, "number of calls (0: no limit)")
	flag.BoolVar(&c.Verify, "verify", false, "check data: READ against a file made by -fill, WRITE by reading back")
	flag.IntVar(&c.ServerPID, "pid", 0, "server's process `id`, for its CPU and memory; -1: the CPU of the whole machine, client included")
	flag.BoolVar(&c.Reserved, "reserved", false, "bind to source ports below 1024")
	flag.StringVar(&c.SlowExport, "slow-export", "", "slowread: export with the slow file")
	flag.StringVar(&c.SlowFile, "slow-file", "", "slowread: `name` of the slow file")
	flag.IntVar(&c.SlowDepth, "slow-depth", 8, "slowread: slow READs in flight")
	flag.BoolVar(&asJSON, "json", false, "print JSON")
	fill := flag.String("fill", "", "only make `file` of -fill-size bytes for -verify")
	fillSize := flag.Int64("fill-size", 512<<20, "size of that file, a multiple of 1 MiB")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flag.Arg(0))
	}
	if *fill != "" {
		return load.FillFile(*fill, *fillSize)
	}
	for s := range strings.SplitSeq(uids, ",") {
		u, err := strconv.ParseUint(s, 10, 32)
		if err != nil {
			return fmt.Errorf("uid %q: want a number", s)
		}
		c.UIDs = append(c.UIDs, uint32(u))
	}
	if sizes != "" {
		for s := range strings.SplitSeq(sizes, ",") {
			n, err := strconv.Atoi(s)
			if err != nil {
				return fmt.Errorf("size %q: want a number", s)
			}
			c.Sizes = append(c.Sizes, n)
		}
	}
	debug.SetGCPercent(-1) // buffers are allocated once, before the loop
	c.Dedicated = true
	var r any
	var err error
	switch c.Op {
	case "stall":
		r, err = load.Stall(c)
	case "idle":
		r, err = load.Idle(c)
	case "slowread":
		r, err = load.SlowRead(c)
	default:
		r, err = load.Run(c)
	}
	if err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(os.Stdout).Encode(r)
	}
	fmt.Println(r)
	return nil
}
