package report

import (
	"fmt"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// Changes summarises the changes on one host and their states.
type Changes struct {
	Host  model.Host     `json:"host"`
	Name  string         `json:"name"`
	Text  string         `json:"text"`  // "3 changes on nas, all undone, verified"
	Open  []string       `json:"open"`  // one sentence per change that is not undone
	Knobs []model.KnobID `json:"knobs"` // changed ones, each once
}

func (b *builder) changes() []Changes {
	out := []Changes{}
	for _, h := range []model.Host{model.Near, model.Far} {
		c := Changes{Host: h, Name: b.names.Of(h), Open: []string{}}
		counts := map[model.ChangeState]int{}
		seen := map[model.KnobID]bool{}
		total := 0
		for _, x := range b.s.Changes {
			if x.Host != h {
				continue
			}
			total++
			counts[x.State]++
			if !seen[x.Knob] {
				seen[x.Knob] = true
				c.Knobs = append(c.Knobs, x.Knob)
			}
			if text := openChange(x); text != "" {
				c.Open = append(c.Open, text)
			}
		}
		if total == 0 {
			continue
		}
		c.Text = fmt.Sprintf("%s on %s%s", plain.Count(total, "change"), c.Name, fate(total, counts))
		out = append(out, c)
	}
	return out
}

// fate summarises the states of so many changes. A change counts as undone only if the old
// value was read back.
func fate(total int, counts map[model.ChangeState]int) string {
	if counts[model.ChangeUndone] == total {
		if total == 1 {
			return ", undone, verified"
		}
		return ", all undone, verified"
	}
	var parts []string
	for _, s := range []struct {
		state model.ChangeState
		words string
	}{
		{model.ChangeUndone, "undone (verified)"},
		{model.ChangeApplied, "still in force"},
		{model.ChangeForeign, "left alone"},
		{model.ChangeFailed, "failed"},
	} {
		if n := counts[s.state]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s.words))
		}
	}
	return ": " + strings.Join(parts, ", ")
}

// openChange describes a change that is not undone.
func openChange(c model.Change) string {
	what := string(c.Knob)
	if c.Native != "" {
		what = c.Native
	}
	var text string
	switch c.State {
	case model.ChangeUndone:
		return ""
	case model.ChangeApplied:
		text = fmt.Sprintf("%s is still %q (was %q)", what, c.New, c.Old)
	case model.ChangeForeign:
		text = fmt.Sprintf("%s was changed by another program meanwhile and left alone (was %q)", what, c.Old)
	case model.ChangeFailed:
		text = fmt.Sprintf("%s could not be set from %q to %q", what, c.Old, c.New)
	}
	if c.Detail != "" {
		text += ": " + c.Detail
	}
	return text
}
