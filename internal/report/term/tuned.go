package term

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/metric"
	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/report"
)

// RenderTuned writes the result of a search for settings.
func RenderTuned(w io.Writer, t report.Tuned, o Options) error {
	p := newPrinter(o)
	p.paragraph(bold, t.Headline, 0)
	p.bars(t.Measured)
	for _, text := range t.Gains {
		p.paragraph(normal, text, 2)
	}
	for _, text := range slices.Concat(t.Queues, t.Short, t.Front, t.Plan, t.Rest) {
		p.paragraph(normal, text, 2)
	}
	p.gap()
	for _, text := range t.Warnings {
		p.paragraph(yellow, text, 2)
	}
	if t.Reason != "" {
		p.paragraph(dim, "the search ended: "+t.Reason, 2)
	}
	p.paragraph(dim, t.Cost, 2)
	if t.Next.Command != "" {
		p.command(t.Next)
	}
	return p.flush(w)
}

// mostBar is the width of the longest bar in columns.
const mostBar = 24

// bars draws a bar for each value, with the value and its interval beside it.
func (p *printer) bars(all []report.Measured) {
	most, label, text := 0.0, 0, 0
	for _, m := range all {
		most, label, text = max(most, m.Median), max(label, columns(m.Label)), max(text, columns(m.Text))
	}
	room := min(mostBar, p.width-2-label-2*separator-text)
	for _, m := range all {
		tone := dim
		switch m.Outcome {
		case model.Better:
			tone = green
		case model.Worse:
			tone = red
		case model.Equivalent, model.Undecided, "":
		}
		if room < mostBar/4 || most <= 0 {
			p.paragraph(normal, m.Label+": "+m.Text, 2)
			continue
		}
		n := max(1, int(math.Round(float64(room)*m.Median/most)))
		bar := p.paint(tone, strings.Repeat("█", n)) + strings.Repeat(" ", room-n+separator)
		p.line("  " + clean(m.Label) + pad(clean(m.Label), label+separator) + bar + m.Text)
	}
}

// Searched returns the news of a search for settings, as lines: the next step, and the results
// of ideas. shown has the lines already returned, and is updated.
func Searched(step tune.Step, rec tune.Record, names model.Names, shown map[string]bool) []string {
	var out []string
	say := func(key, text string) {
		if !shown[key] {
			shown[key] = true
			out = append(out, clean(text))
		}
	}
	for _, f := range rec.Ideas {
		if f.State != tune.Waiting && f.State != tune.Racing && f.State != tune.Undecided {
			say(string(f.State)+f.Setting.Name, report.Fate(f, metric.Describe(rec.Options.Objective)))
		}
	}
	settings := make([]string, len(step.Settings))
	for i, s := range step.Settings {
		settings[i] = s.Name
	}
	list := strings.Join(settings, ", ")
	if n := len(rec.Inputs); n > 0 && rec.Inputs[n-1].Look != nil {
		for _, line := range limits(*rec.Inputs[n-1].Look, names, rec.Options.Objective) {
			say(fmt.Sprintf("limit %d %s", n, line), line)
		}
	}
	switch step.Kind {
	case tune.KindRace:
		say("race"+list, fmt.Sprintf("trying %s: %s", names.Way(step.Direction), strings.Join(settings[1:], ", ")))
		if step.Block > 1 && rec.Inputs[len(rec.Inputs)-1].Look != nil {
			say("again"+list, fmt.Sprintf("trying %s again, since nothing else helps: %s", names.Way(step.Direction), strings.Join(settings[1:], ", ")))
		}
	case tune.KindScreen:
		say("screen"+string(step.Direction), fmt.Sprintf("trying %s what no finding names, several at a time", names.Way(step.Direction)))
	case tune.KindTrim:
		say("trim"+list, "is all of it needed?")
	case tune.KindPlateau:
		say("plateau"+list, "would less do: "+strings.Join(settings[1:], ", "))
	case tune.KindConfirm:
		say("confirm", "proving in fresh blocks: "+settings[1])
	case tune.KindLook, tune.KindAsk, tune.KindEnd:
	}
	return out
}

// limits returns the result of a look for each direction: "to nas, 14 % of the ceiling: held
// back by the receive window of nas: …"; for another objective than the rate the sentence has
// its own numbers.
func limits(l tune.Look, names model.Names, objective model.Metric) []string {
	var out []string
	for _, d := range []model.Direction{model.To, model.From} {
		why := l.Limits[d]
		if why == "" {
			continue
		}
		where := names.Way(d)
		if share, ok := l.Reached[d].Get(); ok && objective == model.Goodput {
			where += fmt.Sprintf(", %.0f %% of the ceiling", 100*share)
		}
		out = append(out, where+": "+why)
	}
	return out
}
