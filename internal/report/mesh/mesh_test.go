package mesh

import (
	"fmt"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

func TestNumbers(t *testing.T) {
	for v, want := range map[float64]string{0: "0.00", 1.234: "1.23", 9.994: "9.99", 9.996: "10.0", 94.85: "94.8", 99.96: "100", 941.4: "941", 12345: "12345"} {
		must.Equal(t, number(v), want, "%v", v)
	}
	for rate, want := range map[float64]string{5e3: "kbit/s", 5e6: "Mbit/s", 9.4e9: "Mbit/s", 94e9: "Gbit/s"} {
		_, unit := scale(rate)
		must.Equal(t, unit, want, "%v", rate)
	}
}

// many returns a mesh of n hosts with a measurement of each direction that rate knows.
func many(n int, rate func(i, j int) float64) *model.Session {
	s := &model.Session{Mesh: &model.Mesh{}}
	for i := range n {
		s.Mesh.Hosts = append(s.Mesh.Hosts, model.MeshHost{Name: fmt.Sprintf("n%d", i)})
		for j := range n {
			if i == j {
				continue
			}
			name := fmt.Sprintf("%d -> %d", i, j)
			s.Mesh.Ways = append(s.Mesh.Ways, model.MeshWay{Name: name, From: i, To: j})
			if v := rate(i, j); v > 0 {
				s.Runs = append(s.Runs, model.Run{Setting: name, State: model.RunValid, Values: []model.Value{{Metric: model.Goodput, Value: v}}})
			}
		}
	}
	return s
}

// TestSection: a mesh too wide for a matrix has a row for each host, and one without a number
// reports no odd hosts.
func TestSection(t *testing.T) {
	for _, c := range []struct {
		hosts   int
		rate    float64
		columns int
		odd     bool
		line    string
	}{{Widest, 1e9, Widest + 1, true, "nothing is odd"}, {Widest + 1, 1e9, 3, true, "nothing is odd"}, {3, 0, 4, false, "nothing is odd"}} {
		s := many(c.hosts, func(int, int) float64 { return c.rate })
		section := Section(s)
		must.True(t, len(section.Blocks[0].Columns) == c.columns && len(section.Blocks[0].Rows) == c.hosts, "%d hosts: %+v", c.hosts, section.Blocks[0])
		says := strings.Contains(fmt.Sprint(section.Blocks[1:]), "nothing is odd: every way")
		must.True(t, says == c.odd && Of(s).Line() == c.line, "%d hosts: %v", c.hosts, section.Blocks[1:])
	}
	slow := many(12, func(i, j int) float64 { return map[bool]float64{true: 4e8, false: 1e9}[i == 4 || j == 4] })
	must.Equal(t, Of(slow).Line(), "odd: n4", "a slow host of twelve")
}
