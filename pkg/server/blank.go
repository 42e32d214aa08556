// A mistake that is easily made: --export '/srv/my data', where the blank ends
// the path and "data" is a client.

package server

import (
	"fmt"
	"os"
	"strings"

	"sluice/exports"
)

// unquotedBlank returns an error when an inline export begins with the path of
// a directory whose blanks are not quoted, and what stands before the first
// blank is no directory.
func unquotedBlank(spec string) error {
	word, _, blank := strings.Cut(spec, " ")
	if !blank || strings.Contains(word, `"`) || isDir(word) {
		return nil
	}
	for end := len(spec); end > len(word); end = strings.LastIndexByte(spec[:end], ' ') {
		path, rest := spec[:end], spec[end:]
		if isDir(path) {
			quoted := `"` + path + `"`
			if strings.ContainsAny(path, `"\\'`) {
				quoted = exports.Quote(path)
			}
			return fmt.Errorf("export: %s is a directory, but a path with blanks needs double quotes: --export '%s%s'", path, quoted, rest)
		}
	}
	return nil
}

func isDir(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.IsDir()
}
