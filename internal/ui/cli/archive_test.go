package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestArchiveAndNotes carries sessions from one machine to another: as they are, with
// notes and samples, once; what is there stays; of a damaged file nothing is kept.
func TestArchiveAndNotes(t *testing.T) {
	here, there := newWorld(t), newWorld(t)
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	there.Now = func() time.Time { return now }
	st := must.Get(openStoreAt(t.Context(), here.vars["LINERATE_DB"]))(t)
	for i := range 3 {
		s := model.Session{ID: fmt.Sprintf("s%d", i), Kind: model.KindTest, Near: "desk", Far: "nas", State: model.SessionDone, Created: now.Add(-time.Duration(i) * time.Hour)}
		must.Do(t, st.CreateSession(t.Context(), s))
		run := model.Run{Number: 1, State: model.RunValid, Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: 9e8}}}
		must.Do(t, st.AddRun(t.Context(), s.ID, run, []model.Sample{{Host: model.Far, Metric: model.Goodput, Value: 0.1 + float64(i)}}, nil))
	}
	must.Do(t, st.Close())
	dir := t.TempDir()
	all, one, damaged := filepath.Join(dir, "all.linerate"), filepath.Join(dir, "one.linerate"), filepath.Join(dir, "damaged.linerate")
	do := func(w *world, code int, says string, args ...string) {
		t.Helper()
		must.Equal(t, w.main(t, args...), code, "%q: exit code", args)
		must.Contain(t, w.out.String()+w.err.String(), says, "%q", args)
	}
	do(here, 0, "note: after the new cable", "annotate", "s1", "after the new cable")
	do(here, 0, "  note: after the new cable", "show", "s1")
	do(here, 0, `"note": "after the new cable"`, "show", "s1", "--json")
	do(here, 0, "| after the new cable", "report", "s1", "--format", "markdown")
	do(here, 0, "s1 ", "list", "--text", "NEW cable")
	do(here, 0, "no such sessions", "list", "--text", "no such text")
	do(here, 2, "at most 4096 bytes", "annotate", "s1", strings.Repeat("x", 4097))
	do(here, 0, "wrote 3 sessions to ", "export", "--archive", all)
	do(here, 0, `"sessions":`, "export", "--archive", one, "s2", "--json")
	do(here, 1, "move that file away", "export", "--archive", all)
	do(here, 6, "not found", "export", "--archive", filepath.Join(dir, "none"), "nosuch")
	do(there, 0, "1 session of 1 from ", "import", one)
	whole := must.Get(os.ReadFile(all))(t)
	changed := bytes.Clone(whole)
	changed[len(changed)-20] ^= 1
	must.Do(t, os.WriteFile(damaged, changed, 0o600))
	do(there, 2, "the archive is damaged", "import", damaged)
	do(there, 0, "s2 ", "list")
	must.True(t, !strings.Contains(there.out.String(), "s0 "), "of a damaged archive is kept:\n%s", there.out.String())
	do(there, 2, "import it alone", "import", all, "--title", "x")
	do(there, 0, "s2 is here already, and was left as it is\n2 sessions of 3 from ", "import", all)
	do(there, 0, "0 sessions of 3 from ", "import", all)
	for _, id := range []string{"s0", "s1", "s2"} {
		for _, more := range [][]string{{"--json=full", "--samples"}, nil} {
			args := append([]string{"show", id}, more...)
			do(here, 0, "", args...)
			do(there, 0, "", args...)
			must.True(t, here.out.String() == there.out.String() && here.out.Len() != 0, "%q is here\n%s\nand there\n%s", args, here.out.String(), there.out.String())
		}
	}
	do(here, 0, "removed 1 session", "delete", "s1", "--yes")
	do(here, 0, "1 session of 3", "import", all) // as from a copy that was kept
	do(here, 0, "  note: after the new cable", "show", "s1")
	do(here, 0, "s1 ", "annotate", "s1", "")
	do(here, 0, "no such sessions", "list", "--text", "new cable")
}
