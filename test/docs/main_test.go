// Package docs holds the documents to the program: their commands are run,
// their tables compared with the code, their links followed.
//
// commands_test.go runs the commands, in namespaces of the package's own where
// the places that the documents name (/etc/exports, /srv/data, port 2049, the
// admin socket) can be had without touching the machine's. api_test.go and
// reference_test.go compare what is listed with what there is.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, testenv.BuildSluice)) }

// root is the folder of the source tree.
func root(t testing.TB) string {
	t.Helper()
	dir, err := testenv.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// guides are the documents for people who use the program.
func guides(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root(t), "docs", "*.md"))
	if err != nil || len(names) < 4 {
		t.Fatalf("%d documents in docs/, %v", len(names), err)
	}
	list := []string{"README.md"}
	for _, name := range names {
		list = append(list, filepath.Join("docs", filepath.Base(name)))
	}
	return list
}

// documents are all documents of the tree.
func documents(t testing.TB) (list []string) {
	t.Helper()
	top := root(t)
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != top && (d.Name() == "build" || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(path, ".md") {
			rel, _ := filepath.Rel(top, path)
			list = append(list, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
