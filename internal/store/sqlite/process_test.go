package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3/driver"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/store"
	"linerate/internal/store/sqlite"
	"linerate/internal/store/storetest"
)

// childEnv makes the test binary act as one of children.
const childEnv = "LINERATE_STORE_TEST_CHILD"

// samplesPerRun is the number of samples that a child stores with each run.
const samplesPerRun = 500

func TestMain(m *testing.M) {
	job := os.Getenv(childEnv)
	if job == "" {
		os.Exit(m.Run())
	}
	if err := runChild(context.Background(), job, os.Args[len(os.Args)-1]); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// runChild does job on the store at path.
func runChild(ctx context.Context, job, path string) error {
	switch job {
	case "endless":
		return writeRuns(ctx, path, job, 1<<30)
	case "first", "second":
		return writeRuns(ctx, path, job, 20)
	}
	return runLinuxChild(ctx, job, path)
}

// writeRuns stores a session with so many runs, and prints the number of each after storing it.
func writeRuns(ctx context.Context, path, id string, runs int) error {
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	err = s.CreateSession(ctx, model.Session{ID: id, State: model.SessionRunning})
	for n := 1; err == nil && n <= runs; n++ {
		if err = addRun(ctx, s, id, n); err == nil {
			fmt.Println(n)
		}
	}
	return errors.Join(err, s.Close())
}

func addRun(ctx context.Context, s *sqlite.Store, id string, n int) error {
	samples := make([]model.Sample, samplesPerRun)
	for i := range samples {
		samples[i] = model.Sample{Host: model.Far, Direction: model.To, Metric: model.Goodput, Start: time.Duration(i), Value: float64(n)}
	}
	return s.AddRun(ctx, id, model.Run{Number: n, State: model.RunValid}, samples, []model.Change{{Run: n, Knob: "k"}})
}

// child returns the test binary, ready to do job on the store at path.
func child(t *testing.T, job, path string) *exec.Cmd {
	t.Helper()
	exe := must.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), exe, path)
	cmd.Env = append(os.Environ(), childEnv+"="+job)
	return cmd
}

// TestKilled kills a writer in the middle of its work. Everything it reported as stored must be
// there, whole, and nothing of the run under way.
func TestKilled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.db")
	cmd := child(t, "endless", path)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	stored := 0
	for lines := bufio.NewScanner(out); stored < 5 && lines.Scan(); stored++ {
	}
	must.Do(t, cmd.Process.Kill())
	must.Fail(t, cmd.Wait(), "the writer ended by itself")
	must.Need(t, stored >= 5, "the writer stored %d runs only", stored)
	checkWhole(t, path, "endless", stored)
}

// checkWhole demands at least so many runs of session id, numbered without gaps, each with all
// its samples and its change, in a sound file that accepts another run.
func checkWhole(t *testing.T, path, id string, least int) {
	t.Helper()
	s := open(t, path)
	sess := must.Get(s.Session(t.Context(), id))(t)
	must.True(t, len(sess.Runs) >= least && len(sess.Changes) == len(sess.Runs),
		"%d runs and %d changes, want at least %d of both", len(sess.Runs), len(sess.Changes), least)
	for i, r := range sess.Runs {
		samples := must.Get(s.Samples(t.Context(), id, r.Number))(t)
		must.True(t, r.Number == i+1 && len(samples) == samplesPerRun, "run %d at %d: %d samples", r.Number, i, len(samples))
	}
	must.OK(t, addRun(t.Context(), s, id, len(sess.Runs)+1))
	integrity(t, path)
}

func integrity(t *testing.T, path string) {
	t.Helper()
	db := must.Get(driver.Open(path))(t)
	defer db.Close()
	var verdict string
	err := db.QueryRowContext(t.Context(), "PRAGMA integrity_check").Scan(&verdict)
	must.True(t, err == nil && verdict == "ok", "integrity check: %s, %v", verdict, err)
	var row sql.NullString
	must.Is(t, db.QueryRowContext(t.Context(), "PRAGMA foreign_key_check").Scan(&row), sql.ErrNoRows, "foreign keys: %v", row)
}

// TestTwoProcesses makes two processes create and fill one file at once.
func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.db")
	ids := []string{"first", "second"}
	done := make(chan error, len(ids))
	for _, id := range ids {
		cmd := child(t, id, path)
		go func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				done <- fmt.Errorf("%s: %w: %s", id, err, out)
				return
			}
			done <- nil
		}()
	}
	for range ids {
		must.OK(t, <-done)
	}
	for _, id := range ids {
		checkWhole(t, path, id, 20)
	}
}

// open opens the store at path and closes it when the test ends.
func open(t *testing.T, path string) *sqlite.Store {
	t.Helper()
	s := must.Get(sqlite.Open(t.Context(), path))(t)
	t.Cleanup(func() { must.OK(t, s.Close()) })
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

// TestFirstHour12Stopped distinguishes a session that another process measures, which no
// process may resume, from one whose process was killed, which any process may.
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
		must.True(t, err == nil && berr == nil && sess.State == want && brief.State == want, "%s and %s, want %s; %v, %v", sess.State, brief.State, want, err, berr)
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
	other := open(t, path) // as another process sees it, except for the lock, which this process has
	check(model.SessionRunning, map[model.SessionState]int{model.SessionRunning: 1, model.SessionStopped: 0})
	must.Equal(t, must.Get(other.Session(t.Context(), "endless"))(t).State, model.SessionRunning)
	again.State = model.SessionDone
	must.Do(t, s.UpdateSession(t.Context(), again))
	check(model.SessionDone, map[model.SessionState]int{model.SessionRunning: 0, model.SessionStopped: 0, model.SessionDone: 1})
	must.Len(t, must.Get(os.ReadDir(path+".running"))(t), 0, "left")
}
