package cli

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store"
)

// TestRetention: only what is older than $LINERATE_RETENTION goes, and says so; what has
// a note or a proof stays, and without the variable, or with a slip in it, everything.
func TestRetention(t *testing.T) {
	const day = 24 * time.Hour
	for text, c := range map[string]struct{ left, says string }{
		"":    {"better noted test0 test1 test2 worse", ""},
		"30d": {"better noted test0 test1", "removed 2 sessions older than 30d (LINERATE_RETENTION)"},
		"2w":  {"better noted test0", "removed 3 sessions"},
		"0":   {"better noted test0 test1 test2 worse", "nothing is removed"},
		"30":  {"better noted test0 test1 test2 worse", "nothing is removed"},
		"odd": {"better noted test0 test1 test2 worse", `"odd" is no time of at least a day`},
	} {
		t.Run(text, func(t *testing.T) {
			w := newWorld(t)
			w.vars["LINERATE_RETENTION"] = text
			now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
			w.Now = func() time.Time { return now }
			st := must.Get(openStoreAt(t.Context(), w.vars["LINERATE_DB"]))(t)
			defer func() { _ = st.Close() }()
			add := func(id string, kind model.Kind, age time.Duration, verdicts ...model.Verdict) {
				s := model.Session{ID: id, Kind: kind, Far: "nas", State: model.SessionDone, Created: now.Add(-age)}
				must.Do(t, st.CreateSession(t.Context(), s))
				s.Verdicts = verdicts
				must.Do(t, st.UpdateSession(t.Context(), s))
			}
			for i, age := range []time.Duration{day, 20 * day, 100 * day} {
				add(fmt.Sprintf("test%d", i), model.KindTest, age)
			}
			add("better", model.KindRun, 100*day, model.Verdict{Setting: "tall", Outcome: model.Better, Metric: model.Goodput})
			add("worse", model.KindRun, 100*day, model.Verdict{Setting: "tall", Outcome: model.Worse, Metric: model.Goodput})
			add("noted", model.KindTest, 100*day)
			must.Do(t, st.SetNote(t.Context(), "noted", "before the new cable"))
			(&console{Env: w.Env}).retain(t.Context(), st)
			said := w.err.String()
			must.True(t, strings.Contains(said, c.says) && (c.says != "" || said == ""), "says %q, want %q", said, c.says)
			all := must.Get(st.Sessions(t.Context(), store.Filter{}))(t)
			left := map[string]bool{}
			for _, i := range all {
				left[i.ID] = true
			}
			for id := range strings.FieldsSeq("better noted test0 test1 test2 worse") {
				must.Equal(t, left[id], strings.Contains(" "+c.left+" ", " "+id+" "), "%s is left", id)
			}
		})
	}
}
