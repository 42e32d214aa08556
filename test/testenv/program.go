// Plan of this file: the servers that can be under test.

package testenv

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/pkg/admin"
)

// binaryEnv names the sluice binary for the tests in the sandbox.
const binaryEnv = "SLUICE_TEST_BINARY"

// BuildSluice builds the server, for a prepare function of Main. A binary named
// in SLUICE_TEST_BINARY is taken as it is.
func BuildSluice() error {
	if os.Getenv(binaryEnv) != "" || os.Getenv("SLUICE_TEST_SERVER") == "ganesha" {
		return nil
	}
	out, err := Build("./cmd/sluice", "sluice")
	if err != nil {
		return err
	}
	return os.Setenv(binaryEnv, out)
}

// Build compiles a command of this module into Main's temporary directory and
// returns the file's path. It is built without cgo, so that it runs under any
// kernel and libc.
func Build(pkg, name string) (string, error) {
	root, err := ModuleRoot()
	if err != nil {
		return "", err
	}
	out := filepath.Join(os.TempDir(), name)
	cmd := exec.Command("go", "build", "-o", out, pkg)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if msg, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, msg)
	}
	return out, nil
}

// ModuleRoot is the folder of this module's go.mod.
func ModuleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if isFile(filepath.Join(dir, "go.mod")) {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no go.mod above the working directory")
}

// sluice is this project's server.
type sluice struct{}

func (sluice) command(s *Server) ([]string, error) {
	var b strings.Builder
	for _, e := range s.Exports {
		fmt.Fprintf(&b, "%s %s(%s)\n", e.Dir, e.client(), e.options())
	}
	exports := filepath.Join(s.dir, "exports")
	if err := os.WriteFile(exports, []byte(b.String()), 0o644); err != nil {
		return nil, err
	}
	rpcbind := "off"
	if s.cfg.Portmapper {
		rpcbind = "embedded"
	}
	return []string{
		os.Getenv(binaryEnv), "serve", "--exports", exports, "--listen", fmt.Sprintf("%s:%d", ServerIP, s.Port),
		"--admin", s.AdminSocket(), "--state", s.StateDir(), "--rpcbind", rpcbind,
		"--read-mode", s.mode, "--write-mode", s.mode, "--lease-time", cmp.Or(s.cfg.Lease, 10*time.Second).String(),
	}, nil
}

func (sluice) mountOptions() string { return "" }

func (sluice) mountPort(s *Server) int { return s.Port }

func (sluice) modes() []string { return []string{"buffered", "dontcache", "direct"} }

func (sluice) setMode(s *Server, mode string) error {
	for _, op := range []string{"read", "write"} {
		if _, err := s.Admin("mode", op, mode); err != nil {
			return err
		}
	}
	return nil
}

// AdminSocket is where sluice's admin commands reach the server.
func (s *Server) AdminSocket() string { return filepath.Join(s.dir, "admin.sock") }

// Admin runs one of sluice's admin commands against the server.
func (s *Server) Admin(args ...string) (string, error) {
	cmd := exec.Command(os.Getenv(binaryEnv), append(args, "--admin", s.AdminSocket())...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("sluice %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), nil
}

// Stats reads sluice's counters; another server has none, and gives nil.
func (s *Server) Stats(t testing.TB) *admin.Stats {
	t.Helper()
	if _, ok := s.prog.(sluice); !ok {
		return nil
	}
	out, err := s.Admin("stats", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var st admin.Stats
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		t.Fatalf("sluice stats --json: %v:\n%s", err, out)
	}
	return &st
}

// ganesha is nfs-ganesha 4, a server known to work, to try the tests on. It
// needs rpcbind, and only one can run at a time.
type ganesha struct{}

func (ganesha) command(s *Server) ([]string, error) {
	recovery := filepath.Join(s.dir, "recovery")
	if err := os.MkdirAll(recovery, 0o755); err != nil {
		return nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "NFS_CORE_PARAM { Protocols = 3; NFS_Port = %d; MNT_Port = %d; NLM_Port = %d; Enable_RQUOTA = false; }\n",
		s.Port, s.Port+1, s.Port+2)
	fmt.Fprintf(&b, "NFSv4 { RecoveryBackend = fs; RecoveryRoot = %s; Grace_Period = 5; Lease_Lifetime = 10; }\nNFS_KRB5 { Active_krb5 = false; }\n", recovery)
	for i, e := range s.Exports {
		access, squash, uid, gid := "RW", "root_squash", "65534", "65534"
		options := "," + e.options() + ","
		for o := range strings.SplitSeq(options, ",") {
			if v, ok := strings.CutPrefix(o, "anonuid="); ok {
				uid = v
			}
			if v, ok := strings.CutPrefix(o, "anongid="); ok {
				gid = v
			}
		}
		if strings.Contains(options, ",ro,") {
			access = "RO"
		}
		for _, o := range []string{"no_root_squash", "all_squash"} {
			if strings.Contains(options, ","+o+",") {
				squash = o
			}
		}
		fmt.Fprintf(&b, "EXPORT { Export_Id = %d; Path = %s; Pseudo = /export%d; Access_Type = %s; Squash = %s; "+
			"Anonymous_Uid = %s; Anonymous_Gid = %s; Protocols = 3; Transports = TCP; SecType = sys; "+
			"Filesystem_Id = %d.1; FSAL { Name = VFS; } }\n", i+1, e.Dir, i+1, access, squash, uid, gid, 1000+i)
	}
	conf := filepath.Join(s.dir, "ganesha.conf")
	if err := os.WriteFile(conf, []byte(b.String()), 0o644); err != nil {
		return nil, err
	}
	script := fmt.Sprintf("pidof rpcbind >/dev/null || rpcbind; exec ganesha.nfsd -F -f %s -L %s -p %s/pid -N NIV_EVENT",
		conf, s.logFile(), s.dir)
	return []string{"sh", "-c", script}, nil
}

// Without NFSACL, ganesha 4.3 answers its calls with an I/O error.
func (ganesha) mountOptions() string { return "noacl," }

func (ganesha) mountPort(s *Server) int { return s.Port + 1 }

func (ganesha) modes() []string { return []string{"buffered"} }

func (ganesha) setMode(_ *Server, mode string) error {
	if mode != "buffered" {
		return fmt.Errorf("ganesha has no mode %s", mode)
	}
	return nil
}
