// Package job is what the host's program and the guest's agree on: what to
// measure goes into the guest as the file Path of its root, and what comes of
// it comes out as one JSON Event a line on the guest's second serial port.
package job

import "sluice/test/bench/load"

// Places in the guest.
const (
	Path    = "/job.json"
	Modules = "/modules"    // with a folder for the kernel's release
	Results = "/dev/ttyS1"  // where events are written to
	Export  = "/data"       // what both servers export
	Warm    = "warm"        // file in Export for READ and calls about one file
	Write   = "write"       // file in Export for WRITE
	Sluice  = "/bin/sluice" // the server under test
	Load    = "/bin/nfsload"
)

// Names of the servers in a Sample.
const (
	Kernel     = "kernel"
	SluiceName = "sluice"
)

// Job is one run of the guest.
type Job struct {
	Rows    []Row
	Rounds  int     // measurements of each row and server
	Seconds float64 // of each measurement
}

// Row is one kind of work.
type Row struct {
	Name  string // short, for the command line
	Work  string // for the table
	Op    string // of package load
	V41   bool   // NFSv4.1 in a session, else NFSv3
	Size  int    // bytes of a READ or WRITE
	Conns int
	Depth int // calls in flight on each connection
}

// Event is one line of what the guest says. One field is set.
type Event struct {
	Say    string  `json:",omitempty"` // progress
	Facts  *Facts  `json:",omitempty"` // once, before the first sample
	Sample *Sample `json:",omitempty"`
	Failed *Failed `json:",omitempty"`
	Done   bool    `json:",omitempty"` // all rows were tried; the last line
}

// Facts describe the guest.
type Facts struct {
	Kernel     string  `json:"kernel"`
	CPU        string  `json:"cpu"`
	CPUs       int     `json:"cpus"`
	MemoryMiB  int     `json:"memory_mib"`
	Clock      string  `json:"clock_source"`
	TCP        string  `json:"tcp_congestion_control"`
	FileSystem string  `json:"file_system"` // type and options of Export
	Threads    int     `json:"nfsd_threads"`
	MaxBlock   int     `json:"nfsd_max_block_size"` // bytes
	Sluice     string  `json:"sluice"`
	BootS      float64 `json:"boot_s"` // until the agent began
}

// Sample is one measurement.
type Sample struct {
	Row    string
	Round  int
	Server string
	// Result has in ServerCPU and what follows from it the time that the whole
	// machine was busy while the calls were made.
	Result load.Result
	// OwnCPU is the CPU time in seconds of the server alone: sluice's process,
	// or the kernel's nfsd threads. Finding the file and checking data, before
	// and after the calls that are counted, are in it.
	OwnCPU float64
}

// Failed says what could not be measured; a Row of "" is the whole run.
type Failed struct {
	Row   string
	Error string
}
