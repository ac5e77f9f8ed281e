package main

import (
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/plan"
	"linerate/internal/store/sqlite"
)

// TestTuneData: a search and its confirmation together send no more than was allowed,
// but for the block in which it is reached; where that is too little for a proof,
// nothing is tried.
func TestTuneData(t *testing.T) {
	needLab(t)
	t.Parallel()
	for _, c := range []struct {
		data     string
		most     float64 // bytes, with a block
		sessions int
	}{{"30MB", 30e6, 1}, {"90MB", 90e6 + 2*9.5e6, 2}} {
		t.Run(c.data, func(t *testing.T) {
			db := filepath.Join(t.TempDir(), "results.db")
			r := run(t, command(t, "tune", "lab:rate=50mbit,rtt=20ms,far.tcp.recv_buffer_max=32KiB", "--db", db, "-t", "1s", "--omit", "500ms", "--settle", "0s", "--direction", "to", "--seed", "5",
				"--guard", "none", "--quick", "--only", "far.tcp.recv_buffer_max", "--data", c.data))
			list := decode[struct {
				Sessions []struct{ ID string }
			}](t, succeed(t, "list", "--json", "--db", db).out)
			sent := 0.0
			st, err := sqlite.Open(t.Context(), db)
			if err != nil {
				t.Fatal(err)
			}
			defer st.Close()
			for _, one := range list.Sessions {
				s, err := st.Session(t.Context(), one.ID)
				if err != nil {
					t.Fatal(err)
				}
				sent += float64(plan.Payload(s.Runs))
				if s.Kind != model.KindTune {
					continue
				}
				if err := validate("linerate/tune/v2", succeed(t, "show", one.ID, "--json", "--db", db).out); err != nil || s.Plan.Data == 0 || !strings.Contains(string(s.Tuning), `"runs":`) {
					t.Errorf("%v: %s", err, s.Tuning)
				}
			}
			if len(list.Sessions) != c.sessions || sent > c.most || c.sessions == 1 && !strings.Contains(r.out+r.err, "the budget is spent") {
				t.Errorf("%d sessions sent %.1f MB\n%s%s", len(list.Sessions), sent/1e6, r.out, r.err)
			}
			t.Logf("%d sessions sent %.1f MB of %s", len(list.Sessions), sent/1e6, c.data)
		})
	}
}
