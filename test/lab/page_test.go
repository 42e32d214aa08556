// The page for administrators, as it is committed: its tables are those of the
// committed results, and the figures of its text stand in a table.

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docs is the directory with the page and the results.
const docs = "../../docs"

// A table that is older than the results, or was changed by hand, is no evidence.
func TestPageIsOfTheResults(t *testing.T) {
	text := pageText(t)
	made, err := page(docs, text)
	if err != nil {
		t.Fatal(err)
	}
	was, is := strings.Split(text, "\n"), strings.Split(made, "\n")
	for i := range is {
		if i >= len(was) || was[i] != is[i] {
			t.Fatalf("line %d of docs/%s is not of the results: run make lab-page, then look whether the text still holds; it should be\n%s", i+1, pageName, is[i])
		}
	}
	if len(was) != len(is) {
		t.Errorf("docs/%s has %d lines, of the results %d: run make lab-page", pageName, len(was), len(is))
	}
	for _, e := range extracts {
		if !strings.Contains(text, tableBegin+e.name+" -->") {
			t.Errorf("docs/%s has no place for the table %s", pageName, e.name)
		}
	}
}

// When results are measured again, sentences that quote the old ones are found here.
func TestPageFigures(t *testing.T) {
	claims := claimsOf(pageText(t))
	if len(claims) < 20 {
		t.Errorf("only %d figures found in the text", len(claims))
	}
	for _, c := range claims {
		if !c.backed(t) {
			t.Errorf("docs/%s says %q, which is in none of its tables and in no page that the paragraph links to; write it anew:\n%s", pageName, c.figure, c.where)
		}
	}
}

// The test above can fail: a figure that was made up is seen in text, list and table.
func TestPageFiguresAreSeen(t *testing.T) {
	table := "| `direct` | 0.987 (0.9 to 1) |"
	for text, backed := range map[string]bool{
		"It takes 0.987 ms.":                   true,
		"It takes 0.986 ms.":                   false,
		"- One item.\n- Another, of 77 ms.":    false,
		"| direct | 61.5 |":                    false,
		"A call of 1 MiB, 3 times `0.12`.":     true,
		"Of [this](benchmarks/nfsv3.md), 7.12": true,
	} {
		ok := true
		for _, c := range claimsOf(text + "\n\n" + tableBegin + "x -->\n" + table + "\n" + tableEnd + "\n") {
			ok = ok && c.backed(t)
		}
		if ok != backed {
			t.Errorf("%q: backed %v", text, ok)
		}
	}
}

func pageText(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(docs, pageName))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// claim is a figure in the page's own text.
type claim struct {
	figure string
	where  string // its paragraph or row
	tables map[string]bool
}

var (
	// A measured figure has a decimal point or a unit of measurement; sizes of the work have neither.
	figures  = regexp.MustCompile(`\b(\d+\.\d+)\b|\b(\d+)(?: (?:ms|s/GB|[GM]B/s|READs/s)\b| ?%)`)
	numbers  = regexp.MustCompile(`\b\d+(?:\.\d+)?\b`)
	others   = regexp.MustCompile("`[^`]*`|Linux [0-9.]+")
	evidence = regexp.MustCompile(`\]\((benchmarks/[\w.-]+\.md)`)
)

// claimsOf collects the figures outside of the lab's tables, of blocks between
// empty lines, items of lists and rows. What is after "Measure yours" is no result.
func claimsOf(text string) []claim {
	tables := map[string]bool{}
	var blocks []string
	inside, fenced, begin := false, false, true
	text, _, _ = strings.Cut(text, "\n## Measure yours\n")
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case strings.HasPrefix(line, tableBegin), line == tableEnd:
			inside, begin = line != tableEnd, true
		case strings.HasPrefix(line, "```"):
			fenced = !fenced
		case inside:
			for _, n := range numbers.FindAllString(line, -1) {
				tables[n] = true
			}
		case line == "" || fenced:
			begin = true
		case begin || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "- "):
			blocks, begin = append(blocks, line), false
		default:
			blocks[len(blocks)-1] += "\n" + line
		}
	}
	var out []claim
	for _, b := range blocks {
		for _, m := range figures.FindAllStringSubmatch(others.ReplaceAllString(b, ""), -1) {
			out = append(out, claim{m[1] + m[2], b, tables})
		}
	}
	return out
}

// backed looks for the figure in the page's tables and the pages linked beside it.
func (c claim) backed(t *testing.T) bool {
	t.Helper()
	if c.tables[c.figure] {
		return true
	}
	for _, m := range evidence.FindAllStringSubmatch(c.where, -1) {
		text, err := os.ReadFile(filepath.Join(docs, m[1]))
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range numbers.FindAllString(string(text), -1) {
			if n == c.figure {
				return true
			}
		}
	}
	return false
}
