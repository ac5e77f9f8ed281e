package cli

import (
	"context"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/store"
)

// leastRetention is the shortest automatic retention: a shorter one is more likely a typing
// error.
const leastRetention = 24 * time.Hour

// retain removes sessions older than $LINERATE_RETENTION after a new one was stored, and prints
// how many. Without that variable sessions are never removed automatically. It keeps running
// sessions, those with a note, and those in which a setting proved better, which recheck needs.
func (a *console) retain(ctx context.Context, st results) {
	text := a.Getenv("LINERATE_RETENTION")
	if text == "" {
		return
	}
	span, err := units.ParseSpan(text)
	if err != nil || span < leastRetention {
		a.talk("LINERATE_RETENTION: %q is no time of at least a day, like 90d or 26w: nothing is removed", text)
		return
	}
	all, err := st.Sessions(ctx, store.Filter{})
	var ids []string
	for _, i := range old(all, a.Now().Add(-span), 0, false) {
		if i.Note == "" && !proved(ctx, st, i) {
			ids = append(ids, i.ID)
		}
	}
	if err == nil && len(ids) > 0 {
		err = st.Remove(ctx, ids...)
	}
	switch {
	case err != nil: // the session just measured is kept anyway
		a.talk("LINERATE_RETENTION: nothing is removed: %v", err)
	case len(ids) > 0:
		a.talk("removed %s older than %s (LINERATE_RETENTION) from %s", plain.Count(len(ids), "session"), text, st.Path())
	}
}

// proved reports whether a setting of a session proved better, or whether that is unknown.
func proved(ctx context.Context, st results, i model.Item) bool {
	if i.Kind != model.KindRun && i.Kind != model.KindTune {
		return false
	}
	s, err := st.Brief(ctx, i.ID)
	return err != nil || slices.ContainsFunc(s.Verdicts, func(v model.Verdict) bool { return !v.IsTwin && v.Outcome == model.Better })
}
