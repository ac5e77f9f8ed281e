//go:build unix

package command_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"linerate/internal/host/command"
	"linerate/internal/must"
)

// TestRun: the outcome of a command that works, fails, lasts, prints or leaves something
// behind.
func TestRun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text   string
		limit  time.Duration
		status int    // of an error; 0 for none
		says   string // part of the error
	}{
		"works":               {text: "exit 0"},
		"fails":               {text: "echo of no use >&2; exit 3", status: 3, says: "exit status 3: of no use"},
		"not there":           {text: "/of/tomorrow --help", status: 127, says: "exit status 127"},
		"lasts":               {text: "echo begun; sleep 600", limit: 2 * time.Second, status: -1, says: "ended after its limit of 2 s: begun"},
		"its child lasts":     {text: "sleep 600 | cat", limit: 300 * time.Millisecond, status: -1, says: "limit"},
		"in the background":   {text: "sleep 3 & exit 0"},
		"prints without end":  {text: "yes of no use | head -c 200000; exit 4", status: 4, says: "use of no"},
		"prints what is dark": {text: `printf 'a\033[31mb\n\377'; exit 5`, status: 5, says: "exit status 5: a"},
		"with its variable":   {text: `test "$LINERATE_RUN" = 7`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			limit := c.limit
			if limit == 0 {
				limit = 2 * time.Minute
			}
			begin := time.Now()
			err := command.Run(t.Context(), c.text, limit, "LINERATE_RUN=7")
			took := time.Since(begin)
			must.True(t, took <= 3*time.Minute, "took %s", took)
			e, failed := errors.AsType[*command.Error](err)
			must.Need(t, failed == (c.status != 0) && (!failed || e.Status == c.status), "%#v", err)
			must.True(t, !failed || strings.Contains(e.Error(), c.says) && len(e.Output) <= 2<<10 && !strings.Contains(e.Error(), "\033"),
				"says %q, want %q", e, c.says)
		})
	}
}

// TestRunInterrupted: the end of the context ends the whole process group.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "begun")
	ctx, stop := context.WithCancel(t.Context())
	go func() {
		for ctx.Err() == nil {
			if _, err := os.Stat(mark); err == nil {
				stop()
			}
			time.Sleep(time.Millisecond) // until the other process is there
		}
	}()
	err := command.Run(ctx, "sleep 60 & : >"+mark+"; wait", time.Minute)
	e, ok := errors.AsType[*command.Error](err)
	must.True(t, ok && e.Why == "interrupted", "%v", err)
}
