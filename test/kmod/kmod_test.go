package kmod

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const dep = `kernel/net/sunrpc/sunrpc.ko:
kernel/fs/lockd/lockd.ko: kernel/fs/nfs_common/grace.ko kernel/net/sunrpc/sunrpc.ko
kernel/fs/nfs_common/grace.ko:
kernel/fs/nfsd/nfsd.ko: kernel/fs/lockd/lockd.ko kernel/fs/nfs_common/grace.ko kernel/net/sunrpc/sunrpc.ko
kernel/fs/xnfsd/xnfsd.ko:
kernel/drivers/packed.ko.xz: kernel/net/sunrpc/sunrpc.ko
`

func TestOrder(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"modules.dep": dep, "modules.builtin": "kernel/fs/ext4/ext4.ko\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const chain = "kernel/net/sunrpc/sunrpc.ko kernel/fs/nfs_common/grace.ko kernel/fs/lockd/lockd.ko kernel/fs/nfsd/nfsd.ko"
	for names, want := range map[string]string{
		"sunrpc":      "kernel/net/sunrpc/sunrpc.ko",
		"nfsd":        chain,
		"nfsd lockd":  chain,
		"nfsd packed": chain + " kernel/drivers/packed.ko.xz",
		"ext4":        "",
	} {
		got, err := Order(dir, strings.Fields(names)...)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, want %q", names, got, err, want)
		}
	}
	if got, err := Order(dir, "sunrpc", "nonsense"); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown module: %q, %v", got, err)
	}
	if err := os.Remove(filepath.Join(dir, "modules.builtin")); err != nil {
		t.Fatal(err)
	}
	if got, err := Order(dir, "ext4"); !errors.Is(err, ErrUnknown) {
		t.Errorf("no list of what is built in: %q, %v", got, err)
	}
	if got, err := Order(t.TempDir(), "nfsd"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no modules.dep: %q, %v", got, err)
	}
}
