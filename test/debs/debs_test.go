package debs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// fakeApt puts programs of the given bodies before the system's, an empty cache
// folder, and a log of how they were called.
func fakeApt(t *testing.T, bodies map[string]string) (cache string, calls func() string) {
	t.Helper()
	bin, home := t.TempDir(), t.TempDir()
	log := filepath.Join(bin, "log")
	for name, body := range bodies {
		text := "#!/bin/sh\necho \"${0##*/} $*\" >> " + log + "\n" + body + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":/bin:/usr/bin")
	t.Setenv("XDG_CACHE_HOME", home)
	return filepath.Join(home, "sluice-test"), func() string {
		b, _ := os.ReadFile(log)
		return string(b)
	}
}

// A lists' file stands for package lists: without it downloads fail.
const (
	getNeedsLists = `case "$*" in *update*) touch "$XDG_CACHE_HOME/lists";; *download*) [ -e "$XDG_CACHE_HOME/lists" ] || exit 100; touch x.deb;; esac`
	unpack        = `mkdir -p "$3/usr" && echo fine > "$3/usr/file"`
)

func TestUnpack(t *testing.T) {
	cache, calls := fakeApt(t, map[string]string{"apt-get": getNeedsLists, "apt-cache": "", "dpkg": unpack})
	for range 2 {
		dir, err := Unpack("some-kernel")
		if err != nil {
			t.Fatal(err)
		}
		if dir != filepath.Join(cache, "some-kernel") {
			t.Errorf("unpacked in %s", dir)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "usr/file")); string(b) != "fine\n" {
			t.Errorf("content %q, %v", b, err)
		}
	}
	if n := strings.Count(calls(), "download"); n != 2 { // without the lists, and with them
		t.Errorf("%d downloads:\n%s", n, calls())
	}
}

func TestUnpackFails(t *testing.T) {
	for name, bodies := range map[string]map[string]string{
		"no such package": {"apt-get": `case "$*" in *download*) echo E: Unable to locate; exit 100;; esac`, "dpkg": unpack},
		"two files":       {"apt-get": `case "$*" in *download*) touch a.deb b.deb;; esac`, "dpkg": unpack},
		"half unpacked":   {"apt-get": `case "$*" in *download*) touch a.deb;; esac`, "dpkg": unpack + "; exit 2"},
	} {
		bodies["apt-cache"] = ""
		cache, _ := fakeApt(t, bodies)
		if dir, err := Unpack("some-kernel"); err == nil || !strings.Contains(err.Error(), "fetch Debian package some-kernel") {
			t.Errorf("%s: %q, %v", name, dir, err)
		}
		left, err := os.ReadDir(cache)
		if err != nil || len(left) != 1 || left[0].Name() != "lock" {
			t.Errorf("%s: left behind: %v, %v", name, left, err)
		}
	}
}

func TestNewest(t *testing.T) {
	fakeApt(t, map[string]string{"apt-get": "", "dpkg": "", "apt-cache": `
[ "$2" = linux-image-6-amd64 ] || exit 100
echo "linux-image-6-amd64
  Depends: linux-base
  Depends: linux-image-6.1.0-9-amd64"`})
	match := regexp.MustCompile(`^linux-image-[0-9]`)
	if got, err := Newest("linux-image-6-amd64", match); got != "linux-image-6.1.0-9-amd64" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := Newest("linux-image-6-amd64", regexp.MustCompile("^other$")); err == nil {
		t.Errorf("nothing matches, but: %q", got)
	}
	if got, err := Newest("nonsense", match); err == nil {
		t.Errorf("no such package, but: %q", got)
	}
}
