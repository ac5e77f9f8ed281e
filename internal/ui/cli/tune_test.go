package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	apptune "linerate/internal/app/tune"
	"linerate/internal/core/model"
	"linerate/internal/core/tune"
	"linerate/internal/must"
	"linerate/internal/report"
)

// A search that tried nothing says why.
func TestTuneVerdict(t *testing.T) {
	t.Parallel()
	waiting, tried := tune.Fate{State: tune.Waiting}, tune.Fate{State: tune.NoEffect}
	for want, rec := range map[string]tune.Record{
		"no setting was tried: " + tune.BudgetSpent:                       {Reason: tune.BudgetSpent},
		"no setting was tried: " + tune.NoneAllowed:                       {Reason: tune.NoneAllowed, Ideas: []tune.Fate{waiting}},
		"no setting is known to make the path better, and none was tried": {Reason: tune.NothingLeft},
		"no setting that was tried makes the path better":                 {Reason: tune.BudgetSpent, Ideas: []tune.Fate{waiting, tried}},
	} {
		must.Equal(t, tuneVerdict(apptune.Outcome{Record: rec}).Error(), want)
	}
}

// The commands that keep a result are whole on a narrow terminal, so that they can be copied.
func TestTuneKeepCommands(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	a := &console{Env: Env{Err: &out, ErrTerminal: true, Width: func() int { return 40 }, Getenv: os.Getenv}}
	next := []string{"linerate set far.tcp.recv_buffer_max=524288 --both root@nas", "linerate keep 20261130T025043-spq7 root@nas --both"}
	must.Do(t, a.keepTuned(t.Context(), model.Setting{}, report.Tuned{}, searched{host: "root@nas"}, next))
	for _, command := range next {
		must.True(t, strings.Contains(out.String(), "\n"+command+"\n"), "%q is not a line of:\n%s", command, out.String())
	}
}

// A stored search, which may be another person's, runs its command only if the user wants that.
func TestTuneResumesNoCommand(t *testing.T) {
	t.Parallel()
	w, ran := newWorld(t), filepath.Join(t.TempDir(), "ran")
	st := must.Get(openStoreAt(t.Context(), w.vars["LINERATE_DB"]))(t)
	must.Do(t, st.CreateSession(t.Context(), model.Session{ID: "s1", Kind: model.KindTune, Near: model.ThisMachine, Far: "exec:10.0.0.2 touch " + ran, State: model.SessionInterrupted}))
	must.Do(t, st.Close())
	code := w.main(t, "tune", "--resume", "s1")
	must.True(t, code == exitUsage && strings.Contains(w.err.String(), "add --allow-exec"), "exit code %d\n%s", code, &w.err)
	_, err := os.Stat(ran)
	must.True(t, os.IsNotExist(err), "the command ran: %v", err)
}

// An unknown value of --allow is refused with the one that there is.
func TestAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, command := range []string{"tune", "recheck"} {
		code := w.main(t, command, "--allow", "everything")
		must.True(t, code == exitUsage && strings.Contains(w.err.String(), `--allow: value "everything": the only value is risky`), "%s: exit code %d\n%s", command, code, &w.err)
	}
}
