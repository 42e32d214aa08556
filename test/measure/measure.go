// Package measure holds what the programs that measure share (test/bench,
// test/lab): the machine's description, a memory cgroup, and readings of the
// page cache, of processors and of disks.
//
// Readings are taken from /proc and /sys and cost some ten microseconds each.
// Files: cgroup.go, machine.go, cache.go (page cache of a file), proc.go
// (processors and disks), packages.go (what has to be installed).
package measure
