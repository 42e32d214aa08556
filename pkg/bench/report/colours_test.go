// Plan of this file: how different the modes' colours look, also to people who
// lack one kind of cones. What they see of a colour is a linear map of its light
// (Machado, Oliveira and Fernandes 2009, full severity); how different two colours
// look is their distance in the space OKLab (Ottosson 2020), where black and
// white are 100 apart.

package report

import (
	"fmt"
	"math"
	"regexp"
	"testing"
)

type vec [3]float64

type mat [3]vec

func (m mat) times(v vec) (out vec) {
	for i, row := range m {
		out[i] = row[0]*v[0] + row[1]*v[1] + row[2]*v[2]
	}
	return out
}

var sight = map[string]mat{
	"with all cones":  {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"without L cones": {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"without M cones": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"without S cones": {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// light undoes the coding of sRGB.
func light(t *testing.T, hex string) (v vec) {
	t.Helper()
	var c [3]int
	if _, err := fmt.Sscanf(hex, "#%02x%02x%02x", &c[0], &c[1], &c[2]); err != nil {
		t.Fatalf("colour %q: %v", hex, err)
	}
	for i := range v {
		if s := float64(c[i]) / 255; s <= 0.04045 {
			v[i] = s / 12.92
		} else {
			v[i] = math.Pow((s+0.055)/1.055, 2.4)
		}
	}
	return v
}

// oklab is a colour where distances are as seen.
func oklab(v vec) vec {
	for i := range v {
		v[i] = min(max(v[i], 0), 1)
	}
	v = mat{{0.4122214708, 0.5363325363, 0.0514459929}, {0.2119034982, 0.6806995451, 0.1073969566}, {0.0883024619, 0.2817188376, 0.6299787005}}.times(v)
	for i := range v {
		v[i] = 100 * math.Cbrt(v[i])
	}
	return mat{{0.2104542553, 0.7936177850, -0.0040720468}, {1.9779984951, -2.4285922050, 0.4505937099}, {0.0259040371, 0.7827717662, -0.8086757660}}.times(v)
}

func distance(a, b vec) float64 {
	return math.Sqrt((a[0]-b[0])*(a[0]-b[0]) + (a[1]-b[1])*(a[1]-b[1]) + (a[2]-b[2])*(a[2]-b[2]))
}

func TestColoursAreToldApart(t *testing.T) {
	if d := distance(oklab(light(t, "#000000")), oklab(light(t, "#ffffff"))); math.Abs(d-100) > 0.1 {
		t.Fatalf("black and white are %v apart", d)
	}
	// One set each for light, dark and print.
	found := regexp.MustCompile(`--m(\d): (#[0-9a-f]{6});`).FindAllStringSubmatch(styleText, -1)
	if len(found) != 3*inks {
		t.Fatalf("%d colours of modes in style.css, want 3 sets of %d", len(found), inks)
	}
	for set := range 3 {
		for who, m := range sight {
			var seen []vec
			for i, f := range found[set*inks : (set+1)*inks] {
				if f[1] != fmt.Sprint(i) {
					t.Fatalf("set %d: m%s in place of m%d", set, f[1], i)
				}
				seen = append(seen, oklab(m.times(light(t, f[2]))))
			}
			for i := range seen {
				for j := range i {
					least := 10.0
					if i < len(known) {
						least = 12
					}
					if d := distance(seen[i], seen[j]); d < least {
						t.Errorf("set %d, %s: m%d and m%d are %.1f apart, want %v", set, who, j, i, d, least)
					}
				}
			}
		}
	}
}
