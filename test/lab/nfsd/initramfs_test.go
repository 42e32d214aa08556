package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sluice/test/lab/nfsd/job"
)

// member is what a reader of the archive finds.
type member struct {
	name                      string
	ino, mode, size, maj, min uint32
	content                   string
}

// readCpio reads an archive as the format's description has it, apart from what
// writes it.
func readCpio(t *testing.T, b []byte) []member {
	t.Helper()
	var found []member
	for at := 0; ; {
		if len(b) < at+110 || string(b[at:at+6]) != "070701" {
			t.Fatalf("no member at byte %d of %d", at, len(b))
		}
		var f [13]uint32
		for i := range f {
			if _, err := fmt.Sscanf(string(b[at+6+8*i:at+14+8*i]), "%08X", &f[i]); err != nil {
				t.Fatalf("member at byte %d, field %d: %v", at, i, err)
			}
		}
		name := b[at+110 : at+110+int(f[11])]
		data := at + (110+int(f[11])+3)&^3
		if name[len(name)-1] != 0 || bytes.IndexByte(name, 0) != len(name)-1 {
			t.Fatalf("name %q", name)
		}
		m := member{string(name[:len(name)-1]), f[0], f[1], f[6], f[9], f[10], string(b[data : data+int(f[6])])}
		if m.name == "TRAILER!!!" {
			return found
		}
		found = append(found, m)
		at = data + (int(f[6])+3)&^3
	}
}

func TestInitramfs(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	o := &options{guest: file("g", "guest"), sluice: file("s", "sluice!"), nfsload: file("l", "")}
	p := &parts{files: map[string]string{"/lib/deep/er/a.so": file("a", "12345")}}
	j := job.Job{Rows: job.Rows(), Rounds: 3, Seconds: .5}
	path := filepath.Join(dir, "initramfs")
	if err := p.writeInitramfs(path, o, j); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	members := readCpio(t, raw)
	inodes := map[uint32]string{}
	made := map[string]member{".": {}}
	for _, m := range members {
		if _, ok := made[filepath.Dir(m.name)]; !ok {
			t.Errorf("%s comes before its directory", m.name)
		}
		if _, ok := made[m.name]; ok {
			t.Errorf("%s is there twice", m.name)
		}
		if other, ok := inodes[m.ino]; ok { // would be a hard link
			t.Errorf("%s and %s are the same inode", m.name, other)
		}
		made[m.name], inodes[m.ino] = m, m.name
	}
	for name, content := range map[string]string{"init": "guest", "bin/sluice": "sluice!", "bin/nfsload": "", "lib/deep/er/a.so": "12345"} {
		if m := made[name]; m.mode != 0o100755 || m.content != content {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if m := made["lib/deep"]; m.mode != 0o40755 || m.size != 0 {
		t.Errorf("a directory: %+v", m)
	}
	if m := made["dev/console"]; m.mode != 0o20600 || m.maj != 5 || m.min != 1 {
		t.Errorf("console: %+v", m)
	}
	var back job.Job
	if err := json.Unmarshal([]byte(made["job.json"].content), &back); err != nil || !slices.Equal(back.Rows, j.Rows) || back.Rounds != 3 {
		t.Errorf("job %+v, %v", back, err)
	}
	o.sluice = filepath.Join(dir, "none")
	if err := p.writeInitramfs(path, o, j); err == nil || !strings.Contains(err.Error(), o.sluice) {
		t.Errorf("no server: %v", err)
	}
}

func TestParseLdd(t *testing.T) {
	got, err := parseLdd("\tlinux-vdso.so.1 (0x7f)\n\tliba.so.1 => /lib/x/liba.so.1 (0x7f)\n\t/lib64/ld.so (0x7f)\n")
	if err != nil || !slices.Equal(got, []string{"/lib/x/liba.so.1", "/lib64/ld.so"}) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := parseLdd("\tliba.so.1 => not found\n"); err == nil || !strings.Contains(err.Error(), "liba.so.1 is not installed") {
		t.Errorf("a missing library: %q, %v", got, err)
	}
	if got, err := parseLdd("\tstatically linked\n"); err == nil {
		t.Errorf("no library: %q", got)
	}
}

func TestDependencies(t *testing.T) {
	const dep = "kernel/fs/nfsd/nfsd.ko.xz: kernel/net/sunrpc.ko.xz\nkernel/net/sunrpc.ko.xz:\n"
	const more = "# Aliases extracted from modules themselves.\nalias of:N*T*Cx kernel_x\nsoftdep a pre: b\nkernel/of-no-module\n"
	if got := string(dependencies([]byte(dep + more))); got != dep {
		t.Errorf("%q", got)
	}
}
