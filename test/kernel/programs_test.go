// Plan of this file: programs that ask much of a file system, run in guests:
// SQLite with two writers, git, tar, make and a compiler.

package kernel

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/test/kernel/guestapi"
)

// sqlite has both guests count up one number in a database that keeps a
// rollback journal: an update lost, or one that saw half of another, shows in
// the sum.
func (p *pair) sqlite(t *testing.T) {
	const each = 40
	p.a.Sh(t, `cd %s; sqlite3 -bail db "PRAGMA journal_mode=DELETE; CREATE TABLE sum(n); INSERT INTO sum VALUES(0); CREATE TABLE log(who, n UNIQUE);"`, p.mnt)
	write := func(g *Guest) error {
		// sqlite3 waits for the other's lock for as long as .timeout says.
		script := fmt.Sprintf(`{ echo .timeout 120000
			for i in $(seq %d); do echo "BEGIN IMMEDIATE; UPDATE sum SET n = n + 1; INSERT INTO log SELECT %d, n FROM sum; COMMIT;"; done
			} | sqlite3 -bail db`, each, g.id)
		_, err := g.Exec(t, guestapi.Command{Argv: []string{"bash", "-euc", script}, Dir: p.mnt})
		return err
	}
	other := make(chan error, 1)
	go func() { other <- write(p.b) }()
	if err := errors.Join(write(p.a), <-other); err != nil {
		t.Fatal(err)
	}
	const question = "PRAGMA integrity_check; SELECT n FROM sum; SELECT count(*) FROM log; SELECT count(DISTINCT who) FROM log;"
	want := fmt.Sprintf("ok\n%d\n%d\n2\n", 2*each, 2*each)
	if out := p.b.Sh(t, `sqlite3 -bail %s/db "%s"`, p.mnt, question); out != want {
		t.Errorf("through the mount: %q, want %q", out, want)
	}
	if out := local(t, "", "sqlite3", "-bail", filepath.Join(p.export, "db"), question); out != want {
		t.Errorf("on the exported directory: %q, want %q", out, want)
	}
}

// local runs a command on this machine and returns its output.
func local(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return string(out)
}

// git clones a repository, packs the clone anew, adds to it and has git compare
// every object with its hash, in both guests and on the exported directory.
func (p *pair) git(t *testing.T) {
	repo := filepath.Join(t.TempDir(), "repo")
	local(t, "", "cp", "-a", filepath.Join(os.Getenv(sourcesEnv), "http"), repo)
	const me = "-c user.name=tester -c user.email=tester@example.com -c safe.directory=*"
	const commit = `git init -q; git add .; git %[1]s commit -q -m first; echo more >> server.go; git %[1]s commit -q -a -m second`
	local(t, repo, "sh", "-ec", fmt.Sprintf(commit, me))
	p.a.Sh(t, `cd %s; git %[2]s clone -q file://%[3]s clone; cd clone; git %[2]s fsck --full --strict
		[ -z "$(git %[2]s status --porcelain)" ]
		echo third >> server.go; git %[2]s commit -q -a -m third; git %[2]s gc -q`, p.mnt, me, repo)
	for _, verify := range []func(string) string{
		func(line string) string { return p.b.Sh(t, "cd %s/clone; %s", p.mnt, line) },
		func(line string) string { return local(t, filepath.Join(p.export, "clone"), "sh", "-ec", line) },
	} {
		out := verify(fmt.Sprintf("git %[1]s fsck --full --strict; git %[1]s status --porcelain; git %[1]s rev-list --count HEAD", me))
		if f := strings.Fields(out); len(f) == 0 || f[len(f)-1] != "3" {
			t.Errorf("git says %q, want 3 commits", out)
		}
	}
}

// sources is a small program of two files, with a header that both depend on.
var sources = map[string]string{
	"ring.h": `#define SIZE 7
struct ring { unsigned long at, word[SIZE]; };
unsigned long next(struct ring *);
`,
	"ring.c": `#include "ring.h"
unsigned long next(struct ring *r) {
	unsigned long w = r->word[r->at % SIZE] * 31 + r->at;
	r->word[r->at++ % SIZE] = w;
	return w % 1000;
}
`,
	"main.c": `#include <stdio.h>
#include "ring.h"
int main(void) {
	struct ring r = {0, {1, 2, 3, 4, 5, 6, 7}};
	unsigned long sum = 0;
	for (int i = 0; i < 21; i++) sum += next(&r);
	printf("%d words, sum %lu\n", SIZE, sum);
	return 0;
}
`,
	"Makefile": `CFLAGS = -O1 -Wall -Werror
prog: main.o ring.o
	gcc -o $@ main.o ring.o
main.o ring.o: ring.h
`,
}

// build unpacks the program and builds it in one guest. The other runs it, and
// make, which goes by times, finds nothing to do there until a source changes.
// All those times are the server's. A guest's clock falls behind where the
// machine is busy; what make has to say about that is left out.
func (p *pair) build(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "ring"), 0o755); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	for name, text := range sources {
		file := filepath.Join(dir, "ring", name)
		if err := errors.Join(os.WriteFile(file, []byte(text), 0o644), os.Chtimes(file, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chtimes(filepath.Join(dir, "ring"), old, old); err != nil {
		t.Fatal(err)
	}
	local(t, dir, "tar", "-czf", "ring.tar.gz", "ring")
	want := local(t, filepath.Join(dir, "ring"), "sh", "-ec", "make -s; ./prog")
	out := p.a.Sh(t, "cd %s; tar -xzf %s/ring.tar.gz; diff -r -x '*.o' -x prog %[2]s/ring ring >&2; cd ring; make -s -j2 2>/dev/null; ./prog", p.mnt, dir)
	if out != want {
		t.Errorf("the program says %q, want %q", out, want)
	}
	if out := p.b.Sh(t, "cd %s/ring; make -q 2>/dev/null; ./prog", p.mnt); out != want {
		t.Errorf("in the other guest the program says %q, want %q", out, want)
	}
	p.b.Sh(t, "cd %s/ring; sed -i 's/SIZE 7/SIZE 5/; s/word.SIZE./word[7]/' ring.h; ! make -q; make -s; ./prog | grep '^5 words'", p.mnt)
	p.a.Sh(t, "cd %s/ring; make -q; ./prog | grep '^5 words'; make -s -B", p.mnt)
}
