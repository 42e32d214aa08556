// The results of a benchmark: what `sluice bench --json` prints, what the HTML
// report is drawn from, and what a program that runs benchmarks gets.
//
// Everything is in bytes, seconds and nanoseconds; a GB is 10^9 bytes. What
// could not be measured is nil or left out, never 0.

package bench

import "time"

// Format is the version of the JSON that a Report is written as. It grows when
// a field changes its meaning or goes away, not when one is added.
const Format = 1

// Report is everything about one command: one run, or a comparison of several.
type Report struct {
	Format  int       `json:"format"`
	Version string    `json:"version"` // of sluice that made it
	Started time.Time `json:"started"`
	// Server is where the server was asked, HOST:PORT/PATH.
	Server string `json:"server"`
	// ServerKind says which server it was, as well as it can be told:
	// "sluice 1.2", or what the caller named it; "" when unknown.
	ServerKind string   `json:"server_kind,omitempty"`
	Machine    Machine  `json:"machine"` // where the load was made
	Workload   Workload `json:"workload"`
	Runs       []Run    `json:"runs"`
	// Comparison is nil when nothing was compared.
	Comparison *Comparison `json:"comparison,omitempty"`
	// Interrupted: the command was ended before all runs were done.
	Interrupted bool `json:"interrupted,omitempty"`
	// Notes are sentences that the figures should be read with.
	Notes []string `json:"notes,omitempty"`
}

// Machine describes a machine. Fields that could not be found out are zero.
type Machine struct {
	CPU         string `json:"cpu,omitempty"`
	Cores       int    `json:"cores"`
	MemoryBytes int64  `json:"memory_bytes,omitempty"`
	Kernel      string `json:"kernel,omitempty"`
	// ServerMemoryBytes is what the server has: what a dataset given as a
	// multiple is a multiple of. 0 when nobody asked.
	ServerMemoryBytes int64 `json:"server_memory_bytes,omitempty"`
	// FileSystem is what the export lies on, "ext4" or as the caller said it.
	FileSystem string `json:"file_system,omitempty"`
	// Local: the load was made on the server's own machine, and took its CPU.
	Local bool `json:"local"`
}

// Workload is what was asked of the server, with every default filled in.
type Workload struct {
	Protocol string `json:"protocol"` // "v3" or "4.1"
	Op       string `json:"op"`       // "read", "write" or "mixed"
	// Pattern is "sequential" or "random". Each job goes through its own part
	// of the dataset, from its start, and begins anew at its end.
	Pattern string `json:"pattern"`
	// ReadPercent is the share of READs: 100, 0, or of a mixed load between.
	ReadPercent int `json:"read_percent"`
	Jobs        int `json:"jobs"`
	Depth       int `json:"depth"` // calls that each job has in flight
	Connections int `json:"connections"`
	BlockSize   int `json:"block_size"` // bytes of one READ or WRITE
	// Misalignment is added to each offset, which is else a multiple of BlockSize.
	Misalignment int `json:"misalignment,omitempty"`
	// Stable is how WRITEs are to be done: "unstable" (the run then ends with
	// a COMMIT of each file, within its time), "data_sync" or "file_sync".
	Stable string `json:"stable,omitempty"`
	// Files of FileBytes each, DatasetBytes in all.
	Files        int   `json:"files"`
	FileBytes    int64 `json:"file_bytes"`
	DatasetBytes int64 `json:"dataset_bytes"`
	// Seconds ends a run by time, MaxBytes by bytes moved; 0: it does not.
	Seconds  float64 `json:"seconds,omitempty"`
	MaxBytes int64   `json:"max_bytes,omitempty"`
	// WarmupSeconds of load before each run are not counted.
	WarmupSeconds float64 `json:"warmup_seconds,omitempty"`
	// Verify: what READs brought was compared with what was written.
	Verify bool `json:"verify,omitempty"`
	// Blocks is how often a comparison ran each mode.
	Blocks int `json:"blocks,omitempty"`
	// CachesDropped: before each run of a comparison the dataset was dropped
	// from the server's page cache.
	CachesDropped bool `json:"caches_dropped,omitempty"`
}

// Run is one measurement.
type Run struct {
	// Mode is the server's I/O mode, "" when the command did not set it. Block
	// counts a comparison's blocks from 1; Order is the run's place in it, from 1.
	Mode  string    `json:"mode,omitempty"`
	Block int       `json:"block,omitempty"`
	Order int       `json:"order,omitempty"`
	Start time.Time `json:"start"`
	// Seconds from the first call to the last answer, and of UNSTABLE WRITEs to
	// the answers to COMMIT, of which CommitSeconds were waited for at the end.
	Seconds       float64 `json:"seconds"`
	CommitSeconds float64 `json:"commit_seconds,omitempty"`
	// Ops and Bytes are of the calls that succeeded; Reads and Writes part them.
	Ops    uint64 `json:"ops"`
	Bytes  uint64 `json:"bytes"`
	Reads  Side   `json:"reads"`
	Writes Side   `json:"writes"`
	// Errors counts calls that failed or brought wrong data; FirstError says how.
	Errors     uint64 `json:"errors"`
	FirstError string `json:"first_error,omitempty"`
	// Retries counts answers "try again later" (JUKEBOX, DELAY), which were obeyed.
	Retries uint64 `json:"retries,omitempty"`
	// BytesPerSecond is Bytes over Seconds; OpsPerSecond likewise.
	BytesPerSecond float64 `json:"bytes_per_second"`
	OpsPerSecond   float64 `json:"ops_per_second"`
	// Series is the progress in fixed intervals of IntervalSeconds.
	IntervalSeconds float64  `json:"interval_seconds"`
	Series          []Sample `json:"series"`
	// CPU and Cache are the server's; nil when they can't be seen from here.
	CPU   *CPU   `json:"cpu,omitempty"`
	Cache *Cache `json:"cache,omitempty"`
	// ClientCPU is the load generator's own.
	ClientCPU CPU `json:"client_cpu"`
	// Served tells how many of the calls each mode of the server has really
	// served; nil without its admin socket. Other clients' calls count too.
	Served []Served `json:"served,omitempty"`
}

// Side is the reading or the writing part of a run.
type Side struct {
	Ops     uint64  `json:"ops"`
	Bytes   uint64  `json:"bytes"`
	Latency Latency `json:"latency"`
	// Histogram has the buckets that are not empty, in ascending order.
	Histogram []Bucket `json:"histogram,omitempty"`
}

// Latency is the time from a call's sending to its last byte's arrival, in
// nanoseconds. Quantiles are exact to 0.1%, the mean and the maximum are exact.
type Latency struct {
	MeanNS int64 `json:"mean_ns"`
	P50NS  int64 `json:"p50_ns"`
	P99NS  int64 `json:"p99_ns"`
	P999NS int64 `json:"p999_ns"`
	MaxNS  int64 `json:"max_ns"`
}

// Bucket counts latencies above the bucket before it (buckets that are empty
// are left out: FromNS is its own lower end) up to UpToNS.
type Bucket struct {
	FromNS int64  `json:"from_ns"`
	UpToNS int64  `json:"up_to_ns"`
	Count  uint64 `json:"count"`
}

// Sample is what one interval of a run moved. The last one may be shorter.
type Sample struct {
	AtSeconds float64 `json:"at_seconds"` // its end, since the run's start
	Bytes     uint64  `json:"bytes"`
	Ops       uint64  `json:"ops"`
	// CacheBytes is the page cache at its end; nil when unknown.
	CacheBytes *int64 `json:"cache_bytes,omitempty"`
}

// CPU is processor time used in a run, in seconds.
type CPU struct {
	UserSeconds   float64 `json:"user_seconds"`
	SystemSeconds float64 `json:"system_seconds"`
	// PerGB is both together for each 10^9 bytes moved; 0 when nothing was.
	PerGB float64 `json:"per_gb"`
	// Source says whose time it is: "process 123", "admin socket", "machine".
	Source string `json:"source"`
}

// Cache is the size of the page cache in bytes, over a run.
type Cache struct {
	StartBytes int64 `json:"start_bytes"`
	EndBytes   int64 `json:"end_bytes"`
	PeakBytes  int64 `json:"peak_bytes"`
	// Source says whose: "cgroup /lab/server", "admin socket", "machine".
	Source string `json:"source"`
}

// Served counts the calls that a mode of the server has served in a run.
type Served struct {
	Op    string `json:"op"` // "read" or "write"
	Mode  string `json:"mode"`
	Calls uint64 `json:"calls"`
}

// Comparison sums up runs in several modes.
type Comparison struct {
	Modes []ModeSummary `json:"modes"` // in the order they were asked for
	// Confidence of the intervals, 0.95; Seed and Resamples are the bootstrap's.
	Confidence float64 `json:"confidence"`
	Seed       uint64  `json:"seed"`
	Resamples  int     `json:"resamples"`
}

// ModeSummary is one mode of a comparison: medians over its runs. Latencies are
// of READs where there are any, else of WRITEs.
type ModeSummary struct {
	Mode           string   `json:"mode"`
	Runs           int      `json:"runs"`
	Errors         uint64   `json:"errors"`
	BytesPerSecond Interval `json:"bytes_per_second"`
	MeanNS         Interval `json:"mean_ns"`
	P50NS          Interval `json:"p50_ns"`
	P99NS          Interval `json:"p99_ns"`
	P999NS         Interval `json:"p999_ns"`
	MaxNS          Interval `json:"max_ns"`
	// CPUPerGB, the user and system seconds per GB it is made of, and
	// CacheGrowth are nil when a run lacks the figure.
	CPUPerGB    *Interval `json:"cpu_per_gb,omitempty"`
	UserPerGB   *Interval `json:"user_per_gb,omitempty"`
	SystemPerGB *Interval `json:"system_per_gb,omitempty"`
	CacheGrowth *Interval `json:"cache_growth_bytes,omitempty"`
	// The ratios to the first mode are medians of the ratios within each block;
	// of the first mode itself they are 1.
	BandwidthRatio Interval  `json:"bandwidth_ratio"`
	P99Ratio       Interval  `json:"p99_ratio"`
	CPURatio       *Interval `json:"cpu_ratio,omitempty"`
}

// Interval is a median with the ends of its bootstrap confidence interval.
type Interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}
