package sqlite_test

import (
	"bufio"
	"os"
	"path/filepath"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store"
	"linerate/internal/store/sqlite"
	"linerate/internal/store/storetest"
)

// open opens the store at path and closes it when the test ends.
func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s := must.Get(sqlite.Open(t.Context(), path))(t)
	t.Cleanup(func() {
		must.OK(t, s.Close())
	})
	return s
}

func TestMemory(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return open(t, sqlite.Memory) })
}

func TestFile(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store {
		return open(t, filepath.Join(t.TempDir(), "new", "folders", "a b?#%.db"))
	})
}

// TestFirstHour12Stopped tells a session that another process measures from one whose
// process was killed: no process may resume the first one, any process the second one.
func TestFirstHour12Stopped(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.db")
	cmd := child(t, "endless", path)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	must.Need(t, bufio.NewScanner(out).Scan(), "the writer stored no run")
	s := open(t, path)
	check := func(want model.SessionState, listed map[model.SessionState]int) {
		t.Helper()
		sess, err := s.Session(t.Context(), "endless")
		brief, berr := s.Brief(t.Context(), "endless")
		must.True(t, err == nil && berr == nil && sess.State == want && brief.State == want,
			"%s and %s, want %s; %v, %v", sess.State, brief.State, want, err, berr)
		for state, n := range listed {
			items := must.Get(s.Sessions(t.Context(), store.Filter{State: state, Limit: 1}))(t)
			must.True(t, len(items) == n && (n <= 0 || items[0].State == want), "listed as %s: %+v", state, items)
		}
	}
	check(model.SessionRunning, map[model.SessionState]int{"": 1, model.SessionRunning: 1, model.SessionStopped: 0, model.SessionDone: 0})
	again := model.Session{ID: "endless", State: model.SessionRunning}
	must.Is(t, s.UpdateSession(t.Context(), again), store.ErrRunning, "it goes on twice")
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	check(model.SessionStopped, map[model.SessionState]int{"": 1, model.SessionRunning: 0, model.SessionStopped: 1, model.SessionDone: 0})
	must.Do(t, s.UpdateSession(t.Context(), again))
	other := open(t, path) // as another process sees it, but for the lock, which this one has
	check(model.SessionRunning, map[model.SessionState]int{model.SessionRunning: 1, model.SessionStopped: 0})
	must.Equal(t, must.Get(other.Session(t.Context(), "endless"))(t).State, model.SessionRunning)
	again.State = model.SessionDone
	must.Do(t, s.UpdateSession(t.Context(), again))
	check(model.SessionDone, map[model.SessionState]int{model.SessionRunning: 0, model.SessionStopped: 0, model.SessionDone: 1})
	left := must.Get(os.ReadDir(path + ".running"))(t)
	must.True(t, len(left) == 0, "left: %v", left)
}
