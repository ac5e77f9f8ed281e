package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"linerate/internal/app/selftest"
	"linerate/internal/app/trial"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/report/format"
)

// selftestSchema names the document of linerate selftest.
const selftestSchema = "linerate/selftest/v1"

// selftestFlags are those of the command selftest.
type selftestFlags struct {
	request selftest.Request
	output  string
}

func (a *console) selftestCommand() *cobra.Command {
	var f selftestFlags
	c := &cobra.Command{
		Use: "selftest", Short: "try linerate itself on this machine, for a report of what does not work",
		Long: `selftest reads all that linerate reads of a host: facts, counters, every setting
with its value or the reason why there is none. It measures a second of each kind of
traffic over loopback, and tries the places of the results and of the journal. That
takes about ten seconds, and changes nothing.

--settings also sets harmless settings, those that could waste memory or time at
worst, each for a moment, takes them back and reads them again. It asks before that,
and needs the right to change them.

It prints what is wrong and how much is well; --output writes all of it into a new
file, to attach to an issue. Addresses and the names of the machine and of its user
are left out, unless --full is given. The exit code is 8 where something is wrong,
and 7 where a setting did not come back.`,
		Example: "  linerate selftest\n  linerate selftest --output selftest.txt\n  linerate selftest --json",
		Args:    exactArgs(),
		RunE:    func(cmd *cobra.Command, _ []string) error { return a.selftest(cmd.Context(), f) },
	}
	fl := c.Flags()
	fl.BoolVar(&f.request.Settings, "settings", false, "set harmless settings too, and take each back")
	fl.BoolVar(&f.request.Yes, "yes", false, "with --settings: without asking")
	fl.BoolVar(&f.request.Full, "full", false, "leave addresses and names in the report")
	fl.StringVarP(&f.output, "output", "o", "", "write the whole report into this new file, as JSON with --json")
	fl.StringVar(&f.request.State, "state", "", "directory of this machine's journal (default: $LINERATE_STATE, else the system's)")
	return c
}

func (a *console) selftest(ctx context.Context, f selftestFlags) error {
	if _, err := os.Lstat(f.output); f.output != "" && err == nil { // before ten seconds are spent
		return fault.WithHint(fault.Usagef("--output %s: there is such a file", f.output), "nothing was done: choose another name, or move that file away")
	}
	f.request.Results = a.tryResults
	r, err := selftest.Run(ctx, a.world(), f.request)
	if kind := fault.KindOf(err); err != nil && kind != fault.Found && kind != fault.NotUndone {
		return err
	}
	if f.output != "" {
		var b bytes.Buffer
		var writing error
		if a.json {
			writing = format.Envelope(&b, selftestSchema, r)
		} else {
			printSelftest(&b, r, true)
		}
		if writing = errors.Join(writing, writeNew(f.output, b.Bytes())); writing != nil {
			return writing
		}
		a.talk("the whole report is in %s", f.output)
	}
	if a.json {
		return errors.Join(err, a.document(selftestSchema, r))
	}
	printSelftest(a.Out, r, false)
	return err
}

// tryResults writes a session, reads it and removes it.
func (a *console) tryResults(ctx context.Context) (string, error) {
	st, err := a.openStore(ctx)
	if err != nil {
		return "", err
	}
	defer st.Close()
	now := a.Now()
	s := model.Session{ID: trial.NewSessionID(now), Kind: model.KindTest, Title: "linerate selftest", Version: a.Version, State: model.SessionDone, Created: now, Ended: now}
	if err := st.CreateSession(ctx, s); err != nil {
		return "", err
	}
	again, err := st.Session(ctx, s.ID)
	if err == nil && again.Title != s.Title {
		err = fmt.Errorf("a session came back as %q", again.Title)
	}
	return st.Path(), errors.Join(err, st.Remove(context.WithoutCancel(ctx), s.ID))
}

// printSelftest prints a report: all lines, or only the interesting ones and the number of the
// others.
func printSelftest(w io.Writer, r selftest.Report, all bool) {
	fmt.Fprintf(w, "linerate %s on %s, %s\n", r.Version, r.System, r.Began.UTC().Format("2006-01-02 15:04 UTC"))
	marks := map[selftest.State]string{selftest.OK: "ok", selftest.Unseen: "-", selftest.Wrong: "WRONG"}
	brief := map[string]bool{"settings": true, "counters": true} // these parts have too many lines
	part := ""
	for _, l := range r.Lines {
		if l.Part != part {
			part = l.Part
			fmt.Fprintf(w, "\n%s\n", part)
			if !all && brief[part] {
				counts := r.CountOf(part)
				fmt.Fprintf(w, "  %d ok, %d not on this machine or not with these rights, %d wrong\n", counts[selftest.OK], counts[selftest.Unseen], counts[selftest.Wrong])
			}
		}
		if !all && brief[part] && l.State != selftest.Wrong {
			continue
		}
		fmt.Fprintf(w, "  %-5s  %-26s  %s", marks[l.State], l.Name, l.Text)
		if l.Took > 0 {
			fmt.Fprintf(w, " (%.1f s)", l.Took)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\n%d ok, %d not here, %d wrong\n", r.Count(selftest.OK), r.Count(selftest.Unseen), r.Count(selftest.Wrong))
}
