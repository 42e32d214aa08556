// Plan of this file: reports of all kinds are served to Chromium, as it is when
// the network is away. A page of our own looks at them in frames, wide and
// narrow, and tells what is there: charts with a size, texts that don't overlap,
// colours that can be seen. What the pages ask for is recorded by the server that
// serves them, and what they complain of by Chromium's console. Pages that
// misbehave on purpose prove that both would tell. Wide frames are light, narrow
// ones dark. All is done with one start of Chromium, which takes seconds.

package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/pkg/bench"
	bench_report "sluice/pkg/bench/report"
	"sluice/test/report/sample"
	"sluice/test/testenv"
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m, nil)) }

//go:embed harness.html
var harness string

// page is what harness.html tells of one page at one width.
type page struct {
	Case, Width, Scheme, Title string
	Sections                   []string
	Scripts                    int
	Overflow                   int // pixels that the page is wider than its window
	Background, Text           string
	Charts                     []struct {
		Section, Class, Label string
		Width, Height         float64
		Texts, Drawn          int
		Outside, Overlapping  []string
		Colours               []string
	}
	Tables []struct {
		Section, Caption string
		Rows             int
		Width            float64
	}
	Legends []struct {
		Section, Text string
		Width         float64
	}
}

// site serves pages, and remembers what else it was asked for.
type site struct {
	*httptest.Server
	pages map[string]string
	mu    sync.Mutex
	asked []string
}

func newSite(t *testing.T) *site {
	s := &site{pages: map[string]string{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, ok := s.pages[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, text)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked = append(s.asked, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(s.Close)
	return s
}

func write(t *testing.T, r *bench.Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := bench_report.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// testCase is a report; charts is the number that each must show at either width, legends
// that of the entries in each legend.
type testCase struct {
	name            string
	report          func(leak string) *bench.Report
	charts, legends int
}

var cases = []testCase{
	{"single", func(string) *bench.Report { return sample.Single() }, 4, 0},
	{"mixed", func(string) *bench.Report { return sample.Mixed() }, 5, 0},
	{"four", func(string) *bench.Report { return sample.Comparison(5, "buffered", "dontcache", "direct", "auto") }, 5, 4},
	{"sixteen", func(string) *bench.Report { return sample.Many(16) }, 5, 16},
	{"empty", func(string) *bench.Report { return sample.Empty() }, 0, 0},
	{"bare", func(string) *bench.Report { return sample.Bare() }, 1, 0},
	{"broken", func(string) *bench.Report { return sample.Broken() }, 5, 4},
	{"long", func(string) *bench.Report { return sample.Long() }, 4, 0},
	{"hostile", sample.Hostile, 5, 6},
}

// look shows the cases at both widths, and two pages that misbehave.
func look(t *testing.T) (*site, *shown, []page) {
	t.Helper()
	web := newSite(t)
	type frame struct {
		Path, Case, Scheme string
		Width              int
	}
	var frames []frame
	for _, c := range cases {
		path := "/" + c.name + ".html"
		web.pages[path] = write(t, c.report(web.URL+"/leak"))
		frames = append(frames, frame{path, c.name, "light", 1200}, frame{path, c.name, "dark", 400})
	}
	// A page that does what no report may.
	bad := `<img src="` + web.URL + `/control"><p onclick="x">` + "<script>document.title = 'ran'</script>"
	web.pages["/control.html"] = strings.Replace(write(t, sample.Empty()), "<main>", "<main>"+bad, 1)
	web.pages["/open.html"] = strings.Replace(web.pages["/control.html"], "Content-Security-Policy", "none", 1)
	frames = append(frames, frame{"/control.html", "control", "light", 400}, frame{"/open.html", "open", "light", 400})
	var b bytes.Buffer
	if err := template.Must(template.New("").Parse(harness)).Execute(&b, frames); err != nil {
		t.Fatal(err)
	}
	web.pages["/"] = b.String()
	shown, err := show(t.Context(), t.TempDir(), web.URL+"/", 1200, 900)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?s)<pre id="result">(.*?)</pre>`).FindStringSubmatch(shown.document)
	if m == nil {
		t.Fatalf("no result in the document:\n%.2000s", shown.document)
	}
	var pages []page
	if err := json.Unmarshal([]byte(html.UnescapeString(m[1])), &pages); err != nil {
		t.Fatalf("%v in %.500q; the console said %v", err, m[1], shown.console)
	}
	if len(pages) != len(frames) {
		t.Fatalf("%d pages, want %d", len(pages), len(frames))
	}
	return web, shown, pages
}

func TestReportsRender(t *testing.T) {
	testenv.Sandboxed(t)
	testenv.Commands(t, "chromium")
	web, shown, pages := look(t)
	control, open := pages[len(pages)-2], pages[len(pages)-1]
	pages = pages[:len(pages)-2]

	// What was asked for, and what was complained of: only by the bad pages.
	web.mu.Lock()
	asked := slices.DeleteFunc(web.asked, func(path string) bool { return path == "/favicon.ico" })
	web.mu.Unlock()
	if !slices.Equal(asked, []string{"/control"}) {
		t.Errorf("the pages asked for %q; want /control once, by the page without a policy", asked)
	}
	complained := 0
	for _, m := range shown.console {
		if strings.HasSuffix(m.source, "/control.html") && strings.Contains(m.text, "Content Security Policy") {
			complained++
			continue
		}
		t.Errorf("console: %s (%s)", m.text, m.source)
	}
	if complained < 3 { // a picture, a script, a script in an attribute
		t.Errorf("the console shows %d complaints of the page that breaks its policy three times", complained)
	}
	if open.Title != "ran" || control.Title == "ran" {
		t.Errorf("titles %q without a policy, %q with one", open.Title, control.Title)
	}

	for _, p := range pages {
		c := cases[slices.IndexFunc(cases, func(c testCase) bool { return c.name == p.Case })]
		t.Run(p.Case+" "+p.Width, func(t *testing.T) { checkPage(t, p, c.charts, c.legends) })
	}
	checkPicture(t, shown)
	checkSchemes(t, pages)
}

func checkPage(t *testing.T, p page, charts, legends int) {
	if p.Scripts != 0 || !strings.HasPrefix(p.Title, "sluice bench: ") {
		t.Errorf("%d scripts, title %q", p.Scripts, p.Title)
	}
	if p.Overflow > 0 {
		t.Errorf("the page is %d pixels wider than its window", p.Overflow)
	}
	if len(p.Charts) != charts {
		t.Errorf("%d charts are shown, want %d", len(p.Charts), charts)
	}
	colours := map[string]bool{}
	for _, c := range p.Charts {
		want := "chart wide"
		if p.Width == "400" {
			want = "chart narrow"
		}
		if c.Class != want || c.Width < 300 || c.Height < 80 {
			t.Errorf("%s: a %q of %v x %v", c.Section, c.Class, c.Width, c.Height)
		}
		if len(c.Label) < 20 || c.Texts < 4 || c.Drawn == 0 {
			t.Errorf("%s: %d texts, %d shapes, described as %q", c.Section, c.Texts, c.Drawn, c.Label)
		}
		if len(c.Outside) > 0 {
			t.Errorf("%s: outside of the drawing: %q", c.Section, c.Outside)
		}
		if len(c.Overlapping) > 0 {
			t.Errorf("%s: overlapping: %q", c.Section, c.Overlapping)
		}
		for _, k := range c.Colours {
			colours[k] = true
		}
	}
	// One colour for one name.
	if want := min(max(legends, p.names()), 8); len(colours) != want && charts > 0 {
		t.Errorf("the modes have the colours %v, want %d", colours, want)
	}
	entries := map[string]int{}
	for _, l := range p.Legends {
		entries[l.Section]++
		if l.Text == "" || l.Width <= 0 {
			t.Errorf("%s: a legend's entry %q of width %v", l.Section, l.Text, l.Width)
		}
	}
	for section, n := range entries {
		if n != legends {
			t.Errorf("%s: %d entries in the legend, want %d", section, n, legends)
		}
	}
	if (len(entries) > 0) != (legends > 0) {
		t.Errorf("legends in %v", entries)
	}
	// Each chart's figures are in a table too: those of bandwidth in the summary.
	tables := map[string]bool{}
	for _, table := range p.Tables {
		if table.Rows > 0 && table.Caption != "" {
			tables[table.Section] = true
		}
	}
	for _, c := range p.Charts {
		if section := strings.Replace(c.Section, "bandwidth", "summary", 1); !tables[section] {
			t.Errorf("no table beside the chart %s", c.Section)
		}
	}
}

// names is how many modes the summary has.
func (p page) names() int {
	for _, table := range p.Tables {
		if table.Section == "summary" {
			return table.Rows
		}
	}
	return 0
}

// checkPicture looks for the first page's parts in the picture of the window.
func checkPicture(t *testing.T, s *shown) {
	t.Helper()
	b := s.picture.Bounds()
	if b.Dx() != 1200 || b.Dy() < 600 {
		t.Fatalf("a picture of %v", b)
	}
	seen := map[[3]uint32]int{}
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			r, g, b, _ := s.picture.At(x, y).RGBA()
			seen[[3]uint32{r >> 8, g >> 8, b >> 8}]++
		}
	}
	// The page itself, its text, and the line of the first mode.
	for name, want := range map[string][3]uint32{"page": {255, 255, 255}, "text": {0x1b, 0x22, 0x30}, "first mode": {0x23, 0x3f, 0xac}} {
		if seen[want] < 50 {
			t.Errorf("only %d pixels have the colour of the %s", seen[want], name)
		}
	}
}

// checkSchemes looks at the pages with all colours, by day and by night.
// WCAG 2.2, 1.4.3 and 1.4.11: a contrast of 4.5 for text, of 3 for charts' parts.
func checkSchemes(t *testing.T, pages []page) {
	t.Helper()
	backgrounds := map[string]string{}
	for _, p := range pages {
		if p.Case != "sixteen" {
			continue
		}
		backgrounds[p.Background] = p.Scheme
		if c := contrast(t, p.Text, p.Background); c < 4.5 {
			t.Errorf("%s: text %s on %s has a contrast of %.1f", p.Scheme, p.Text, p.Background, c)
		}
		for _, k := range p.Charts[0].Colours {
			name, colour, _ := strings.Cut(k, "=")
			if c := contrast(t, colour, p.Background); c < 3 {
				t.Errorf("%s: %s, %s, on %s has a contrast of %.1f", p.Scheme, name, colour, p.Background, c)
			}
		}
	}
	if len(backgrounds) != 2 {
		t.Errorf("backgrounds %v, want one by day and one by night", backgrounds)
	}
}

// contrast is the ratio of two colours' luminances as WCAG defines it.
func contrast(t *testing.T, a, b string) float64 {
	t.Helper()
	x, y := luminance(t, a), luminance(t, b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	var c [3]float64
	if _, err := fmt.Sscanf(colour, "rgb(%f, %f, %f)", &c[0], &c[1], &c[2]); err != nil {
		t.Fatalf("colour %q: %v", colour, err)
	}
	for i, v := range c {
		if v /= 255; v <= 0.04045 {
			c[i] = v / 12.92
		} else {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
}
