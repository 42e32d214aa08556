// Package guestapi is what the harness on the host and the agent in a guest
// agree on: HTTP over the guest's network device.
//
//	POST /run       JSON Command; the answer's body is the command's combined
//	                output as it appears, the ExitTrailer its exit status
//	POST /blocked   prints the stacks of blocked tasks on the guest's console
//	POST /poweroff  shuts the guest down
package guestapi

// Port is the TCP port the agent listens on.
const Port = 7

// ExitTrailer is the HTTP trailer that carries a command's exit status in
// decimal, or 128 plus the signal that ended it.
const ExitTrailer = "Exit-Status"

// Command is one program to run in the guest.
type Command struct {
	Argv   []string // Argv[0] is looked up in PATH; Self means the guest program itself
	Env    []string // added to the agent's environment
	Dir    string   // working directory; "" is the agent's temporary directory
	UID    uint32
	GID    uint32
	Groups []uint32 // supplementary groups
}

// Self as Argv[0] runs the guest program, which has the checks in it.
const Self = "@self"

// Names of the words on the kernel's command line that reach the agent as
// environment variables.
const (
	EnvID      = "guest_id"      // number of the guest, from 1
	EnvModules = "guest_modules" // host folder with the kernel's modules
)
