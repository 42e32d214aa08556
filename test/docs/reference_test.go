// Plan of this file: what the documents refer to is there: flags, commands,
// configuration keys with their defaults, files of the tree, other documents.

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"sluice/pkg/server"
	"sluice/test/testenv"
)

// help returns what a command prints with --help.
func help(t testing.TB, command ...string) string {
	t.Helper()
	testenv.Sandboxed(t) // it has the binary
	out, err := exec.Command(os.Getenv("SLUICE_TEST_BINARY"), append(command, "--help")...).CombinedOutput()
	if err != nil {
		t.Fatalf("sluice %s --help: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

var (
	helpFlag    = regexp.MustCompile(`(?m)^   --([a-z-]+)`)
	helpCommand = regexp.MustCompile(`(?m)^   ([a-z]+)  +[a-z]`)
)

// commandTree lists every command with its flags.
func commandTree(t testing.TB) map[string][]string {
	t.Helper()
	tree := map[string][]string{}
	var walk func(path []string)
	walk = func(path []string) {
		text := help(t, path...)
		options := text[strings.Index(text, "OPTIONS:"):]
		flags := []string{"help"}
		for _, m := range helpFlag.FindAllStringSubmatch(options, -1) {
			flags = append(flags, m[1])
		}
		tree[strings.Join(path, " ")] = flags
		if _, list, ok := strings.Cut(strings.TrimSuffix(text, options), "COMMANDS:"); ok {
			for _, m := range helpCommand.FindAllStringSubmatch(list, -1) {
				walk(append(path[:len(path):len(path)], m[1]))
			}
		}
	}
	walk(nil)
	if len(tree) < 11 {
		t.Fatalf("only %d commands found: %v", len(tree), tree)
	}
	return tree
}

// Flags of other programs that the documents name.
var foreignFlags = map[string]string{
	"cap-add": "docker", "unix-socket": "curl", "no-buffer": "curl",
}

func TestCommandsAndFlagsExist(t *testing.T) {
	tree := commandTree(t)
	all := map[string]bool{}
	for _, flags := range tree {
		for _, f := range flags {
			all[f] = true
		}
	}
	flag := regexp.MustCompile(`(?:^|[ \[])--([a-z][a-z-]*)`)
	n := 0
	for _, file := range documents(t) {
		text, blocks := parse(t, file)
		code := spans(strings.Join(text, "\n"))
		for _, b := range blocks {
			code = append(code, b.lines...)
		}
		for _, c := range code {
			args, ours := strings.CutPrefix(strings.TrimPrefix(c, "build/"), "sluice ")
			known := all
			if ours {
				command := ""
				for _, word := range strings.Fields(args) {
					if _, ok := tree[strings.TrimSpace(command+" "+word)]; !ok {
						break
					}
					command = strings.TrimSpace(command + " " + word)
				}
				n++
				if command == "" && !strings.HasPrefix(args, "-") {
					t.Errorf("%s: no such command: %s", file, c)
				}
				known = map[string]bool{}
				for _, f := range tree[command] {
					known[f] = true
				}
			} else if !strings.HasPrefix(c, "--") {
				continue // another program's
			}
			for _, m := range flag.FindAllStringSubmatch(c, -1) {
				n++
				if !known[m[1]] && foreignFlags[m[1]] == "" {
					t.Errorf("%s: no such flag: --%s in %s", file, m[1], c)
				}
			}
		}
	}
	if n < 30 {
		t.Errorf("only %d commands and flags found", n)
	}
}

// TestKeys holds three lists together: the configuration's keys, the flags of
// `sluice serve` and the table in docs/configuration.md, with the defaults.
func TestKeys(t *testing.T) {
	defaults := reflect.ValueOf(server.Defaults())
	text, _ := parse(t, "docs/configuration.md")
	rows := table(t, text, "key")
	if n := len(server.ConfigKeys()); len(rows) != n {
		t.Errorf("docs/configuration.md has %d keys, the code %d", len(rows), n)
	}
	serve := help(t, "serve")
	for i, key := range server.ConfigKeys() {
		v := defaults.Field(i)
		inFileAlone := v.Kind() == reflect.Struct
		if regexp.MustCompile(`(?m)^   --`+key+` `).MatchString(serve) == inFileAlone {
			t.Errorf("sluice serve --help and the key %s: a flag is wanted for all but what has keys below it", key)
		}
		want := ""
		if v.Kind() != reflect.Slice && !inFileAlone {
			want = fmt.Sprintf("`%v`", v.Interface())
		}
		if i < len(rows) && (rows[i][0] != "`"+key+"`" || rows[i][1] != want || rows[i][2] == "") {
			t.Errorf("docs/configuration.md, key %d: %q; want `%s` with the default %s", i, rows[i], key, want)
		}
	}
	for _, m := range helpFlag.FindAllStringSubmatch(serve, -1) {
		if key := m[1]; key != "config" && !strings.Contains(strings.Join(server.ConfigKeys(), " ")+" help", key) {
			t.Errorf("--%s is a flag of sluice serve and no key of its file", key)
		}
	}
}

func TestLinks(t *testing.T) {
	n := 0
	for _, file := range documents(t) {
		text, _ := parse(t, file)
		for _, m := range link.FindAllStringSubmatch(strings.Join(text, "\n"), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			n++
			path, anchor, _ := strings.Cut(m[1], "#")
			target := file
			if path != "" {
				target = filepath.Join(filepath.Dir(file), path)
			}
			if _, err := os.Stat(filepath.Join(root(t), target)); err != nil {
				t.Errorf("%s: link to %s: %v", file, m[1], err)
				continue
			}
			if anchor != "" {
				if there, _ := parse(t, target); !anchors(there)[anchor] {
					t.Errorf("%s: link to %s: no such heading", file, m[1])
				}
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d links found", n)
	}
}

// Files of the tree that the documents name are there.
func TestNamedFiles(t *testing.T) {
	name := regexp.MustCompile(`^(?:cmd|pkg|rpc|xdr|exports|docs|test)(?:/[A-Za-z0-9_.-]+)*/?$`)
	n := 0
	for _, file := range documents(t) {
		text, _ := parse(t, file)
		for _, s := range spans(strings.Join(text, "\n")) {
			if !name.MatchString(s) || s == "exports" || strings.HasPrefix(s, "test/") && strings.Contains(s, "...") {
				continue
			}
			n++
			if _, err := os.Stat(filepath.Join(root(t), s)); err != nil {
				t.Errorf("%s names %s: %v", file, s, err)
			}
		}
	}
	if n < 20 {
		t.Errorf("only %d names of files found", n)
	}
}

// Everything in docs/ can be reached from the README.
func TestREADMELinksEverything(t *testing.T) {
	text, _ := parse(t, "README.md")
	all := strings.Join(text, "\n")
	for _, file := range guides(t)[1:] {
		if !strings.Contains(all, "]("+file+")") {
			t.Errorf("README.md has no link to %s", file)
		}
	}
}
