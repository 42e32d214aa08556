// Command guest runs inside a User-Mode Linux guest. As process 1 it is the
// guest's init and agent; called with arguments it runs one check on a
// directory. It is linked statically, so that any kernel can start it.
//
//	guest NAME DIR [key=value]...   run a check of package fscheck
package main

import (
	"fmt"
	"os"
	"strings"

	"sluice/test/fscheck"
)

func main() {
	if os.Getpid() == 1 {
		fatal(runInit())
		return
	}
	if len(os.Args) < 3 {
		fatal(fmt.Errorf("usage: guest CHECK DIR [key=value]...\n%s", strings.Join(fscheck.Names(), "\n")))
	}
	options := map[string]string{}
	for _, arg := range os.Args[3:] {
		key, value, ok := strings.Cut(arg, "=")
		if !ok {
			fatal(fmt.Errorf("option %q is not key=value", arg))
		}
		options[key] = value
	}
	fatal(fscheck.Run(os.Args[1], os.Args[2], options, os.Stdout))
}

// fatal ends the program with status 1 if err is not nil.
func fatal(err error) {
	if err != nil {
		fmt.Println("guest:", err)
		os.Exit(1)
	}
}
