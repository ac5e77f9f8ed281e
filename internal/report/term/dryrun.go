package term

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/report"
)

// mostOrder is how many runs of the order are shown after the first block.
const mostOrder = 30

// RenderDryRun writes what an experiment would do.
func RenderDryRun(w io.Writer, d report.DryRun, o Options) error {
	p := newPrinter(o)
	p.paragraph(bold, "dry run: nothing is measured, changed or kept", 0)
	most := "at most "
	if d.Mode == model.FixedBlocks {
		most = ""
	}
	text := fmt.Sprintf("%d settings, %s%d blocks, %s%d runs", len(d.Settings), most, d.Blocks, most, d.Runs)
	if untimed := d.Untimed(); untimed != "" {
		text += "; " + untimed
	} else {
		text += fmt.Sprintf(", %s%s without the time that changes take", most, units.FormatDuration(d.Time.Or(0).Round(time.Second)))
	}
	p.paragraph(normal, text+fmt.Sprintf(" (seed %d)", d.Seed), 0)
	if b, ok := d.Bytes.Get(); ok {
		p.paragraph(normal, fmt.Sprintf("%s%s of payload: %s", most, b.Decimal(), d.Bytes.Source()), 0)
	} else {
		p.paragraph(normal, "payload unknown: "+d.Bytes.Reason(), 0)
	}
	for _, l := range d.Outlook {
		p.paragraph(normal, l, 0)
	}
	p.gap()
	if len(d.Factors) > 0 {
		p.line("every combination of:")
		for _, f := range d.Factors {
			p.paragraph(normal, f, 2)
		}
		p.paragraph(normal, "compared with "+d.Baseline, 0)
	} else {
		p.line("settings:")
		for _, s := range d.Settings {
			p.paragraph(normal, s.Name+": "+cmp.Or(strings.Join(s.Values, " "), "as it is"), 2)
		}
	}
	p.gap()
	p.line("order of the first blocks:")
	shown := 0
	for i, b := range d.First {
		if shown += len(b); i > 0 && shown > mostOrder {
			break
		}
		p.hanging(fmt.Sprintf("%3d  ", i+1), 5, strings.Join(b, ", "))
	}
	p.gap()
	if len(d.Changes) == 0 {
		p.line("no setting of a host is changed")
		return p.flush(w)
	}
	during := "changed during a run, and undone after it:"
	if d.Held != nil {
		during = fmt.Sprintf("changed during a run, and undone after it; %s during a group:", d.Held.Knob)
	}
	p.paragraph(normal, during, 0)
	for _, c := range d.Changes {
		what := c.What
		if len(c.Values) > 0 {
			what += "=" + strings.Join(c.Values, ",")
		}
		if c.Undo != "" {
			what = fmt.Sprintf("command %q, then %q", c.What, c.Undo)
		}
		p.hanging(fmt.Sprintf("  %-5s ", string(c.Host)), 8, what+": "+c.Risk)
	}
	return p.flush(w)
}
