// Tests of loading, merging, reloading and printing.

package exports

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	main := filepath.Join(dir, "exports")
	write(t, main, "/a h1(rw)\n")
	write(t, main+".d/10-b.exports", "/b h(rw)\n/a h2(ro)\n")
	write(t, main+".d/9-c.exports", "/c h(rw)\n")
	write(t, main+".d/.hidden.exports", "not an export\n")
	write(t, main+".d/README", "not an export\n")
	write(t, main+".d/x.exports.bak", "not an export\n")
	if err := os.MkdirAll(main+".d/dir.exports", 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "elsewhere"), "/d h(rw)\n")
	if err := os.Symlink(filepath.Join(dir, "elsewhere"), main+".d/link.exports"); err != nil {
		t.Fatal(err)
	}

	s, warns, err := Load(main, true)
	if err != nil || len(warns) > 0 {
		t.Fatal(err, warns)
	}
	if got, want := show(s), "/a h1(rw)\n/a h2(ro)\n/c h(rw)\n/b h(rw)\n/d h(rw)\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if e := s.Get("/c"); e.File != main+".d/9-c.exports" || e.Line != 1 {
		t.Errorf("/c is from %s:%d", e.File, e.Line)
	}
	if c := s.Get("/a").Clients[1]; c.File != main+".d/10-b.exports" || c.Line != 2 || c.Column != 4 {
		t.Errorf("h2 is from %s:%d:%d", c.File, c.Line, c.Column)
	}

	s, _, err = Load(main, false)
	if err != nil || show(s) != "/a h1(rw)\n" {
		t.Errorf("without drop-ins: %v\n%s", err, show(s))
	}

	// A client that two files list: the first file wins, and the warning names both.
	write(t, main+".d/20.exports", "/a h1(ro)\n")
	_, warns, err = Load(main, true)
	want := main + ".d/20.exports:1:4: warning: client h1 of /a is listed twice, and these options are ignored; those on line 1 of " + main + " are in force"
	if err != nil || len(warns) != 1 || warns[0].String() != want {
		t.Errorf("%v %v", err, warns)
	}

	// Mistakes in several files come together.
	write(t, main, "a h(rw)\n")
	write(t, main+".d/20.exports", "/a h(rwx)\n/b h(bogus)\n")
	s, _, err = Load(main, true)
	if s != nil || err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("%v", err)
	}
	var one *SyntaxError
	if !errors.As(err, &one) {
		t.Error("no SyntaxError in it")
	}
}

func TestLoadMissing(t *testing.T) {
	dir := t.TempDir()
	main := filepath.Join(dir, "exports")
	_, _, err := Load(main, true)
	if err == nil || !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), main) || !strings.Contains(err.Error(), "--export DIR") {
		t.Errorf("missing file: %v", err)
	}
	write(t, main+".d/a.exports", "/a h(rw)\n")
	s, warns, err := Load(main, true)
	if err != nil || show(s) != "/a h(rw)\n" || len(warns) != 1 || warns[0].Msg != "the file does not exist" {
		t.Errorf("only drop-ins: %v %v", err, warns)
	}
	if _, _, err = Load(main, false); err == nil {
		t.Error("missing file without drop-ins: no error")
	}
	if _, _, err = Load(dir, true); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("directory: %v", err)
	}
	write(t, main, "# nothing\n")
	if err := os.RemoveAll(main + ".d"); err != nil {
		t.Fatal(err)
	}
	s, warns, err = Load(main, true)
	if err != nil || len(s.Exports()) != 0 || len(warns) != 1 || warns[0].Msg != "there are no exports" {
		t.Errorf("empty: %v %v", err, warns)
	}
	write(t, main+".d", "a file\n")
	if _, _, err = Load(main, true); err == nil || !strings.Contains(err.Error(), "drop-in directory") {
		t.Errorf("drop-ins not a directory: %v", err)
	}
}

func TestVersionOrder(t *testing.T) {
	want := []string{"10-", "a1", "a2", "a10", "a10b", "ab", "b"}
	got := slices.Clone(want)
	slices.Reverse(got)
	sort.Slice(got, func(i, j int) bool { return versionLess(got[i], got[j]) })
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
	if versionLess("a01", "a01") || versionLess("a1", "a01") == versionLess("a01", "a1") {
		t.Error("not an order")
	}
}

func TestMerge(t *testing.T) {
	a := mustParse(t, "/a h1(rw)\n/b h(rw,fsid=1)\n")
	b := mustParse(t, "/a h1(ro) h2(ro)\n/c h(rw)\n")
	s, warns, err := Merge(a, nil, b)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(s), "/a h1(rw)\n/a h2(ro)\n/b h(rw,fsid=1)\n/c h(rw)\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(warns) != 1 {
		t.Errorf("%v", warns)
	}
	if show(a) != "/a h1(rw)\n/b h(rw,fsid=1)\n" || len(a.Get("/a").Clients) != 1 {
		t.Error("Merge changed its argument")
	}
	if _, _, err := Merge(a, mustParse(t, "/d h(fsid=1)")); err == nil {
		t.Error("one fsid for two paths: no error")
	}
	if o, ok := s.Match(s.Get("/a"), netip.MustParseAddr("10.0.0.1"), lab()); ok {
		t.Errorf("matched %v", o)
	}
	if s, _, err := Merge(); err != nil || len(s.Exports()) != 0 {
		t.Error("nothing merged is not nothing")
	}
}

func TestGetAndResolvePaths(t *testing.T) {
	s := mustParse(t, "/link h1(rw)\n/data h2(ro) h1(ro)\n/gone h(rw)\n/ h(rw)\n")
	if s.Get("/data/") != s.Get("/data") || s.Get("//data/.") != s.Get("/data") || s.Get("/") == nil || s.Get("") != nil || s.Get("/no") != nil || s.Get("data") != nil {
		t.Error("Get")
	}
	r, warns, err := s.ResolvePaths(func(p string) (string, error) {
		switch p {
		case "/link":
			return "/data", nil
		case "/gone":
			return "", os.ErrNotExist
		}
		return p, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := show(r), "/data h1(rw)\n/data h2(ro)\n/gone h(rw)\n/ h(rw)\n"; got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if len(warns) != 1 {
		t.Errorf("%v", warns)
	}
	if r.Get("/link") != r.Get("/data") || r.Get("/link/") == nil {
		t.Error("the path as written is not found")
	}
	m, _, err := Merge(r, mustParse(t, "/x h"))
	if err != nil || m.Get("/link") == nil || m.Get("/link") != m.Get("/data") {
		t.Error("Merge lost the alias")
	}
	if d := Diff(s, r); !slices.Equal(d.Removed, []string{"/link"}) || !slices.Equal(d.Changed, []string{"/data"}) || d.Added != nil {
		t.Errorf("%+v", d)
	}
	if d := Diff(r, s); !slices.Equal(d.Added, []string{"/link"}) {
		t.Errorf("%+v", d)
	}
}

func TestTable(t *testing.T) {
	main := filepath.Join(t.TempDir(), "exports")
	if _, _, err := NewTable(Source{File: main}); err == nil {
		t.Fatal("a Table without a file")
	}
	write(t, main, "/a h(rw)\n/b h(rw)\n")
	tab, _, err := NewTable(Source{File: main, DropIns: true, Inline: []string{"/i"}})
	if err != nil {
		t.Fatal(err)
	}
	first := tab.Set()
	if first.Generation() != 1 || first.Get("/i") == nil || tab.Status().Generation != 1 {
		t.Errorf("generation %d", first.Generation())
	}

	write(t, main, "/a h(rwx)\n")
	if _, _, err := tab.Reload(); err == nil || tab.Set() != first {
		t.Fatal("a broken file came into force")
	}
	if st := tab.Status(); st.Generation != 1 || !strings.Contains(st.LastError, "rwx") {
		t.Errorf("%+v", st)
	}

	write(t, main, "/a h(ro)\n/c h (rw)\n")
	ch, warns, err := tab.Reload()
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(ch) != "{[/c] [/b] [/a]}" || len(warns) != 1 {
		t.Errorf("%v %v", ch, warns)
	}
	if st := tab.Status(); st.Generation != 2 || st.LastError != "" || len(st.Warnings) != 1 || tab.Set().Generation() != 2 {
		t.Errorf("%+v", st)
	}
	if show(first) != "/a h(rw)\n/b h(rw)\n/i 127.0.0.1(rw,no_root_squash,insecure)\n/i ::1(rw,no_root_squash,insecure)\n" {
		t.Error("the old Set changed")
	}

	// A symbolic link as path.
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "real"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	tab, _, err = NewTable(Source{Inline: []string{dir + "/link"}, RealPath: filepath.EvalSymlinks})
	if err != nil {
		t.Fatal(err)
	}
	e := tab.Set().Get(dir + "/link")
	if real, _ := filepath.EvalSymlinks(filepath.Join(dir, "real")); e == nil || e.Path != real {
		t.Errorf("%+v", e)
	}
	if _, _, err := NewTable(Source{Inline: []string{"x", "/a h(y)"}}); err == nil || strings.Count(err.Error(), "--export:1:") != 2 {
		t.Errorf("%v", err)
	}
}

// Readers never see anything but a whole Set while the file changes under them.
func TestReloadIsAtomic(t *testing.T) {
	main := filepath.Join(t.TempDir(), "exports")
	texts := []string{"/a h1(rw)\n/b h1(rw)\n", "/a h2(ro)\n/b h2(ro)\n", "/a h1(rwx)\n"}
	write(t, main, texts[0])
	tab, _, err := NewTable(Source{File: main})
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				s := tab.Set()
				a, b := s.Get("/a"), s.Get("/b")
				if a == nil || b == nil || a.Clients[0].Spec != b.Clients[0].Spec {
					t.Error("half a Set")
					return
				}
			}
		})
	}
	for i := range 100 {
		write(t, main, texts[i%3])
		if _, _, err := tab.Reload(); (err != nil) != (i%3 == 2) {
			t.Errorf("reload %d: %v", i, err)
		}
	}
	close(stop)
	wg.Wait()
	if g := tab.Set().Generation(); g != 1+67 {
		t.Errorf("generation %d", g)
	}
}

func TestFormat(t *testing.T) {
	const in = "\"/a b\" h(rw) *.x(sec=sys,rw,no_root_squash,sec=none,ro,all_squash)\n/c *(sec=none:sys,all_squash,fsid=0,mp=/m\\040p,nordirplus,crossmnt,nohide,async,insecure,subtree_check,anonuid=1,anongid=2)\n"
	s := mustParse(t, in)
	var b bytes.Buffer
	if err := s.Format(&b); err != nil {
		t.Fatal(err)
	}
	const want = `/a\040b h(rw,root_squash,no_all_squash,sync,secure,no_subtree_check,hide,nocrossmnt,anonuid=65534,anongid=65534,sec=sys)
/a\040b *.x(sync,secure,no_subtree_check,hide,nocrossmnt,anonuid=65534,anongid=65534,sec=sys,rw,no_root_squash,no_all_squash,sec=none,ro,all_squash)
/c *(ro,all_squash,async,insecure,subtree_check,nohide,crossmnt,nordirplus,fsid=root,mountpoint=/m\040p,anonuid=1,anongid=2,sec=none:sys)
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	if again := mustParse(t, b.String()); show(again) != show(s) {
		t.Errorf("read back:\n%s\n%s", show(again), show(s))
	}
	b.Reset()
	if err := s.List(&b); err != nil || strings.Count(b.String(), "\n") != 3 || !strings.HasPrefix(b.String(), `/a\040b  h(rw,`) || !strings.Contains(b.String(), "\n/c       *(") {
		t.Errorf("%v\n%s", err, b.String())
	}
}

func TestGroups(t *testing.T) {
	s := mustParse(t, "/a h 10.0.0.0/8 @g *.x\n/b h\n/b *\n")
	if got := fmt.Sprint(s.Get("/a").Groups()); got != "[h 10.0.0.0/8 @g *.x]" {
		t.Error(got)
	}
	if got := fmt.Sprint(s.Get("/b").Groups()); got != "[*]" {
		t.Error(got)
	}
}

func TestReport(t *testing.T) {
	var b bytes.Buffer
	s, warns, err := Parse("f", []byte("/a h (rw)\n"))
	if WriteReport(&b, s, warns, err) != nil || !strings.HasSuffix(b.String(), "\nok: 1 export, 2 clients, 1 warning\n") {
		t.Error(b.String())
	}
	b.Reset()
	s, warns, err = Parse("f", []byte("/a h(rwx)\n"))
	if WriteReport(&b, s, warns, err) != nil || b.String() != "f:1:6: unknown option \"rwx\"; did you mean \"rw\"?\nnot valid: nothing of it would come into force\n" {
		t.Error(b.String())
	}
}

func TestJSON(t *testing.T) {
	s := mustParse(t, "/a 10.0.0.0/8(rw,fsid=0,sec=sys:none)")
	got, err := json.Marshal(s.Exports())
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"path":"/a","clients":[{"client":"10.0.0.0/8","class":"network","options":{"read_only":false,"squash":"root_squash","async":false,"secure":true,"anon_uid":65534,"anon_gid":65534,"fsid":"root","subtree_check":false,"nohide":false,"crossmnt":false,"no_readdirplus":false,"sec":[{"auth":"sys","read_only":false,"squash":"root_squash"},{"auth":"none","read_only":false,"squash":"root_squash"}]},"file":"f","line":1,"column":4}],"fsid":"root","file":"f","line":1}]`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestCheckNames(t *testing.T) {
	s := mustParse(t, "/a one nosuch(rw) 10.0.0.1 *.x @g\n/b nosuch\n")
	warns := s.CheckNames(lab())
	if len(warns) != 1 || warns[0].Msg != "host nosuch has no address" || warns[0].Line != 1 || warns[0].Column != 8 {
		t.Errorf("%v", warns)
	}
}
