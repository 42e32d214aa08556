package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/nfscall"
)

func TestUnquotedBlank(t *testing.T) {
	top := t.TempDir()
	odd, plain := filepath.Join(top, "my own data"), filepath.Join(top, "plain")
	nfscall.Must(t, os.Mkdir(odd, 0o755))
	nfscall.Must(t, os.Mkdir(plain, 0o755))
	for spec, want := range map[string]string{
		odd:                                  `--export '"` + odd + `"'`,
		odd + " *(rw)":                       `--export '"` + odd + `" *(rw)'`,
		`"` + odd + `" *(rw)`:                "",
		plain:                                "",
		plain + " *(rw) 10.0.0.1":            "",
		top + "/missing *(rw)":               "",
		top + "/missing":                     "",
		strings.Replace(odd, " ", `\040`, 2): "",
	} {
		err := unquotedBlank(spec)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", spec, err, want)
		}
	}
}

func TestUnquotedBlankIsAnError(t *testing.T) {
	cfg, dir := testConfig(t)
	odd := dir + " b"
	nfscall.Must(t, os.Rename(dir, odd))
	cfg.Exports, cfg.Export = "", []string{odd}
	if _, err := newServer(cfg, new(logText)); err == nil || !strings.Contains(err.Error(), `--export '"`+odd+`"'`) {
		t.Errorf("New: %v", err)
	}
	cfg.Export = []string{`"` + odd + `"`}
	s, err := newServer(cfg, new(logText))
	nfscall.Must(t, err)
	nfscall.Must(t, s.Shutdown())
}
