// Plan of this file: as much of Markdown as the documents here use: headings,
// code blocks (fenced or indented), tables, code spans and links.

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// block is a block of code: its place, its language if it is fenced.
type block struct {
	file  string
	line  int // of the first of lines
	lang  string
	lines []string
}

// text returns a document of this project without its code blocks, and those.
func parse(t testing.TB, file string) (text []string, blocks []block) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root(t), file))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	for i := 0; i < len(lines); i++ {
		switch {
		case strings.HasPrefix(lines[i], "```"):
			b := block{file: file, line: i + 2, lang: strings.TrimPrefix(lines[i], "```")}
			if b.lang == "" {
				b.lang = "text"
			}
			for i++; i < len(lines) && lines[i] != "```"; i++ {
				b.lines = append(b.lines, lines[i])
			}
			if i == len(lines) {
				t.Fatalf("%s:%d: a fence that is not closed", file, b.line-1)
			}
			blocks = append(blocks, b)
		case indented(lines[i]) && (i == 0 || lines[i-1] == ""):
			b := block{file: file, line: i + 1}
			for ; i < len(lines) && (indented(lines[i]) || lines[i] == "" && i+1 < len(lines) && indented(lines[i+1])); i++ {
				b.lines = append(b.lines, strings.TrimPrefix(lines[i], "    "))
			}
			i--
			blocks = append(blocks, b)
		default:
			text = append(text, lines[i])
		}
	}
	return text, blocks
}

func indented(line string) bool { return strings.HasPrefix(line, "    ") }

// section returns the lines below a heading, up to the next one of its rank or
// a higher one; "" is the whole document.
func section(t testing.TB, text []string, heading string) []string {
	t.Helper()
	if heading == "" {
		return text
	}
	rank := strings.IndexByte(heading, ' ')
	for i, line := range text {
		if line != heading {
			continue
		}
		end := i + 1
		for end < len(text) && !(strings.HasPrefix(text[end], "#") && strings.IndexByte(text[end], ' ') <= rank) {
			end++
		}
		return text[i+1 : end]
	}
	t.Fatalf("no heading %q", heading)
	return nil
}

// table returns the cells of the first table whose first heading is name.
func table(t testing.TB, text []string, name string) (rows [][]string) {
	t.Helper()
	for i, line := range text {
		if !strings.HasPrefix(line, "| "+name+" |") {
			continue
		}
		for i += 2; i < len(text) && strings.HasPrefix(text[i], "|"); i++ {
			cells := strings.Split(strings.Trim(text[i], "|"), "|")
			for j := range cells {
				cells[j] = strings.TrimSpace(cells[j])
			}
			rows = append(rows, cells)
		}
		return rows
	}
	t.Fatalf("no table of %s", name)
	return nil
}

var codeSpan = regexp.MustCompile("`([^`]+)`")

// spans returns the code spans of a text.
func spans(text string) (list []string) {
	for _, m := range codeSpan.FindAllStringSubmatch(text, -1) {
		list = append(list, m[1])
	}
	return list
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// anchors returns the names that links may point at in a document.
func anchors(text []string) map[string]bool {
	names := map[string]bool{}
	drop := regexp.MustCompile(`[^\pL\pN _-]`)
	for _, line := range text {
		if strings.HasPrefix(line, "#") {
			name := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
			names[strings.ReplaceAll(drop.ReplaceAllString(name, ""), " ", "-")] = true
		}
	}
	return names
}
