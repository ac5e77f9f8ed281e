package report

import (
	"fmt"

	"linerate/internal/core/model"
	"linerate/internal/core/search"
	"linerate/internal/core/units"
)

// Search is the result of a search for the highest rate with little loss.
type Search struct {
	search.Result
	Limit float64 `json:"limit"` // of loss, 0…1
	Text  string  `json:"text"`
	Said  string  `json:"-"` // the same without the statistics
}

// search evaluates the trials of a session with a rate search; nil for others.
func (b *builder) search() *Search {
	want := b.s.Plan.Search
	if want == nil || len(b.s.Plan.Directions) == 0 {
		return nil
	}
	d := b.s.Plan.Directions[0]
	trials := search.Trials(b.s.Runs, d)
	r := search.Evaluate(*want, trials)
	out := &Search{Result: r, Limit: want.Limit}
	limit := FormatLoss(want.Limit)
	switch {
	case len(trials) == 0:
		out.Text = fmt.Sprintf("%s: no rate was measured", b.names.Way(d))
	case !r.Found && r.Rate > 0:
		out.Text = fmt.Sprintf("%s: not found: %s passed in %d of %d runs, and %d datagrams are too few to show that at most %s are lost (%d were, so at most %s, with 95 %% confidence): measure for longer (-t)",
			b.names.Way(d), r.Rate, r.Passed, r.Runs, r.Sent, limit, r.Lost, FormatLoss(r.Most))
	case !r.Found:
		out.Text = fmt.Sprintf("%s: even %s loses more than %s", b.names.Way(d), want.Low, limit)
	default:
		out.Text = fmt.Sprintf("%s: %s of payload is the highest rate that passed, with at most %s lost and no queue filling: %d of %d runs did (%d of %d datagrams lost, so at most %s; %s in the worst run), so at least %s of such runs do, with 95 %% confidence",
			b.names.Way(d), r.Rate, limit, r.Passed, r.Runs, r.Lost, r.Sent, FormatLoss(r.Most), FormatLoss(r.Worst), units.FormatShare(r.Sure))
		out.Said = fmt.Sprintf("%s: %s of payload is the highest rate that passed, with at most %s lost and no queue filling, in %d of %d runs",
			b.names.Way(d), r.Rate, limit, r.Passed, r.Runs)
		then := b.above(r, d)
		out.Text, out.Said = out.Text+then, out.Said+then
	}
	if out.Said == "" {
		out.Said = out.Text
	}
	if cut := "; the search was cut short"; !r.Ended {
		out.Text, out.Said = out.Text+cut, out.Said+cut
	}
	return out
}

// concluded returns the setting that a search ended with, "" for none.
func concluded(s *model.Session) string {
	r := search.Evaluate(*s.Plan.Search, search.Trials(s.Runs, s.Plan.Directions[0]))
	if !r.Found {
		return ""
	}
	return r.Rate.String()
}

// above describes the result at the rate above the one that was found.
func (b *builder) above(r search.Result, d model.Direction) string {
	switch {
	case r.Above == 0:
		return "; nothing higher was asked for"
	case r.Short:
		return fmt.Sprintf("; %s does not send %s, so what the path would do with more is unknown", b.names.Of(d.Sender()), r.Above)
	case r.Failed == 0:
		return fmt.Sprintf("; at %s the loss is too near to the limit to be shown to be within it", r.Above)
	}
	return fmt.Sprintf("; at %s %d of %d failed", r.Above, r.Failed, r.Tried)
}
