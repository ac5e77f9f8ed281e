package live

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/tune"
	"linerate/internal/core/units"
	"linerate/internal/report"
	"linerate/internal/report/term"
)

// Line returns the state of the session in one line of at most width columns. It drops the least
// important parts first: evidence, phase, times, run.
func (t *State) Line(width int) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	parts := []struct {
		text string
		rank int // the highest is dropped first
	}{{t.place(), 0}, {t.turn(), 3}, {t.what(), 1}, {t.pace(), 0}, {t.phase, 5}, {t.times(), 4}, {t.evidence(), 6}}
	for worst := 7; worst >= 0; worst-- {
		var kept []string
		for _, part := range parts {
			if part.text != "" && part.rank < worst {
				kept = append(kept, part.text)
			}
		}
		if line := plain.Line(strings.Join(kept, "  ")); utf8.RuneCountInString(line) <= width {
			return line
		}
	}
	return ""
}

func (t *State) place() string {
	if t.at.MaxBlocks == 0 {
		return ""
	}
	return fmt.Sprintf("%s %s/%d", t.unit(), number(t.at.Block), t.at.MaxBlocks)
}

// unit returns the word for a part of the session: the parts of a check differ, unlike blocks.
func (t *State) unit() string {
	if t.session.Kind == model.KindCheck {
		return "step"
	}
	return "block"
}

func (t *State) turn() string {
	if t.run.RunsInBlock <= 1 {
		return ""
	}
	return fmt.Sprintf("run %d/%d", t.run.Position, t.run.RunsInBlock)
}

func (t *State) what() string {
	if t.runs == 0 {
		return ""
	}
	return strings.TrimSpace(t.run.Setting + " " + t.names.Arrow(t.run.Direction))
}

// pace returns the rate of the last interval.
func (t *State) pace() (text string) {
	for _, l := range t.ways {
		if r, ok := l.rate(); ok && l.running && !l.stale {
			text = r.String()
		}
	}
	return text
}

func (t *State) times() string {
	text := units.FormatDuration(t.now().Sub(t.began).Truncate(time.Second))
	left, _ := t.left()
	if left = left.Round(time.Second); left > 0 {
		text += ", " + t.bound() + units.FormatDuration(left) + " more"
	}
	return text
}

// bound says how certain the session's remaining time is.
func (t *State) bound() string {
	if t.whole > 0 {
		return "about "
	}
	return "at most "
}

func (t *State) evidence() string {
	if t.lead.setting == "" {
		return ""
	}
	return fmt.Sprintf("evidence so far %.3g of %.3g (%s)", t.lead.has, t.lead.decides, t.lead.setting)
}

// News returns the lines that report e to a person, within width columns. A screen shows most of
// it in its own way.
func (t *State) News(e app.Event, screen bool, width int) []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch e := e.(type) {
	case app.RunEnded:
		if r := e.Run; r.State != model.RunValid && r.State != model.RunEqualLoad && t.session.Kind == model.KindRun && !screen { // a test ends with it, and reports it then
			return []string{fmt.Sprintf("block %d: run of %s is %s: %s", r.Block, r.Setting, r.State, r.Reason)}
		}
	case app.Searched:
		return t.searched(e)
	case app.BlockEnded:
		if t.session.Kind == model.KindRun && !screen {
			return t.blockEnded(e, width)
		}
	}
	return nil
}

// first reports whether this is the first call with this key.
func (t *State) first(key string) bool {
	if t.shown[key] {
		return false
	}
	t.shown[key] = true
	return true
}

// searched describes the progress of a search for settings: what was learnt, and what is in play.
func (t *State) searched(e app.Searched) []string {
	lines := term.Searched(e.Step, e.Record, t.names, t.shown)
	left := units.FormatDuration(e.Left.Round(time.Second))
	switch {
	case e.Left > 0 && len(e.Record.Inputs) == 0:
		first := time.Duration(max(1, len(t.session.Plan.Directions))) * t.session.Plan.RunLength()
		lines = append(lines, fmt.Sprintf("about %s in all where a setting helps a lot, %s where there is nothing to gain", left, units.FormatDuration(first.Round(time.Second))))
	case e.Left > 0 && e.Step.Kind != tune.KindLook && t.first(fmt.Sprint("phase ", e.Step.Kind, e.Step.Settings)):
		lines = append(lines, "about "+left+" more in all")
	}
	return lines
}

// blockEnded shows the state of each setting: first those decided by this block, then the
// provisional rest.
func (t *State) blockEnded(e app.BlockEnded, width int) []string {
	all := report.Standings(t.session.Plan, e.Result.Verdicts)
	var open, news []report.Standing
	for _, s := range all {
		if s.Outcome == model.Undecided {
			open = append(open, s)
		} else if t.first(fmt.Sprint("decided ", s.Direction, s.Setting)) {
			news = append(news, s)
		}
	}
	text := fmt.Sprintf("block %d/%d done, %d of %d comparisons decided, %s elapsed",
		e.Block, e.MaxBlocks, len(all)-len(open), len(all), units.FormatDuration(t.now().Sub(t.began).Round(time.Second)))
	if more := e.AtMost.Round(time.Second); more > 0 {
		text += ", at most " + units.FormatDuration(more) + " more"
	}
	lines := []string{text}
	add := func(title string, some []report.Standing) {
		if len(some) > 0 {
			lines = slices.Concat(lines, []string{title}, term.Standings(some, t.names.Arrow, width))
		}
	}
	add(" decided:", news)
	if e.Result.Blocks > 0 {
		add(fmt.Sprintf(" so far, against %s:", t.session.Plan.Baseline), open)
	}
	if e.Result.Hopeless && t.first("hopeless") {
		lines = append(lines, "what is still open is not likely to be decided in the blocks that are left; ctrl-c keeps what there is")
	}
	return lines
}
