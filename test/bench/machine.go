// What the measurements ran on.

package main

import "sluice/test/measure"

// machine describes the place of a run; no names or addresses in it.
type machine struct {
	measure.Machine
	FileSystem string `json:"file_system"`
	Ganesha    string `json:"ganesha"`
}

func describe(o *options) machine {
	return machine{
		Machine:    measure.Describe(o.sluice),
		FileSystem: measure.FileSystem(o.work),
		Ganesha:    measure.Output("dpkg-query", "-W", "-f", "nfs-ganesha ${Version}", "nfs-ganesha"),
	}
}
