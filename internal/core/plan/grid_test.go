package plan

import (
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// cell is one combination of a grid.
func cell(name string, assignments ...model.Assignment) model.Setting {
	return model.Setting{Name: name, Assignments: assignments}
}

func on(h model.Host, k model.KnobID, v string) model.Assignment {
	return model.Assignment{Host: h, Knob: k, Value: v}
}

// Issue 10, item 7: the combinations of a grid have short names, and the factors
// behind them are found again from those.
func TestGridOfShortNames(t *testing.T) {
	both := func(v string) []model.Assignment {
		return []model.Assignment{on(model.Near, "x", v), on(model.Far, "x", v)}
	}
	grid := []model.Setting{
		{Name: "current"},
		cell("A1B1", append(both("1"), on("", "window", "9"))...), cell("A1B2", append(both("1"), on("", "window", "8"))...),
		cell("A2B1", append(both("2"), on("", "window", "9"))...), cell("A2B2", append(both("2"), on("", "window", "8"))...),
		{Name: "current" + TwinSuffix},
	}
	factors, cells := Grid(grid)
	if len(factors) != 2 || len(cells) != 4 || factors[0].Host != "" || factors[0].Knob != "x" || factors[1].Levels[1] != "8" {
		t.Errorf("%+v of %q", factors, cells)
	}
	ends := []model.Setting{
		cell("A1B1", on(model.Near, "x", "1"), on(model.Far, "x", "1")), cell("A1B2", on(model.Near, "x", "1"), on(model.Far, "x", "2")),
		cell("A2B1", on(model.Near, "x", "2"), on(model.Far, "x", "1")), cell("A2B2", on(model.Near, "x", "2"), on(model.Far, "x", "2")),
	}
	if factors, _ := Grid(ends); len(factors) != 2 || factors[0].Host != model.Near || factors[1].Host != model.Far {
		t.Errorf("the knob of each end: %+v", factors)
	}
	for name, settings := range map[string][]model.Setting{
		"a part of it": ends[:3], "nothing": nil, "names of a person": {cell("a", on("", "x", "1")), cell("b", on("", "x", "2"))},
		"one factor": {cell("A1", on("", "x", "1")), cell("A2", on("", "x", "2"))},
	} {
		if factors, cells := Grid(settings); factors != nil || cells != nil {
			t.Errorf("%s: %+v", name, factors)
		}
	}
	must.Equal(t, Letter(25)+Letter(26)+Code(1, 2), "ZAAB3")
}

// Issue 10, item 4: max_blocks of a large grid was rounded up to three times as many.
func TestGridKeepsCompleteBlocks(t *testing.T) {
	o := Options{Blocks: 10, Flow: model.Flow{Engine: "tcpbulk", Direction: model.To, Duration: time.Second}, Settings: []model.Setting{{Name: "current"}}}
	for _, a := range []string{"1", "2", "3"} {
		for _, b := range []string{"1", "2", "3"} {
			o.Settings = append(o.Settings, cell("A"+a+"B"+b, on("", "block", a), on("", "window", b)))
		}
	}
	p, err := New(o)
	if err != nil || p.MaxBlocks != 10 || len(p.Order) != 10 || len(p.Order[0]) != 11 {
		t.Errorf("%d blocks of %d, %v", len(p.Order), len(p.Order[0]), err)
	}
}
