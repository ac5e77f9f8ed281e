package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/change"
	"linerate/internal/app/local"
	"linerate/internal/app/target"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
)

// bootJob is the state of the jobs for the next start of hosts.
type bootJob struct {
	wanted bool // --at-boot
	mu     sync.Mutex
	said   map[string]bool // lines already printed
}

// bindAtBoot adds the flag of commands that change settings.
func (a *console) bindAtBoot(f *pflag.FlagSet) {
	f.BoolVar(&a.boot.wanted, "at-boot", false, "while settings are changed, have a job at the next start of the host put them back, too")
}

// maxBootLines is how many lines of this kind a command prints: there are a few per host, unless
// an agent is malicious.
const maxBootLines = 64

// hostSaid prints a host's line, each line once: the job for the next start comes and goes with
// every run of an experiment. It prints even with --quiet.
func (a *console) hostSaid(e app.HostSaid) {
	line := e.Line + "\n"
	if e.Host != "" {
		line = e.Host + ": " + line
	}
	b, text := &a.boot, plain.Text(line)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.said[text] && len(b.said) < maxBootLines {
		if b.said == nil {
			b.said = map[string]bool{}
		}
		b.said[text] = true
		fmt.Fprint(a.Err, text)
	}
}

// noteLastingPlan warns about settings of a plan that a restart during a run would not undo.
func (a *console) noteLastingPlan(e *target.Ends, p model.Plan) {
	if a.boot.wanted {
		return
	}
	for i, host := range []model.Host{model.Near, model.Far} {
		var wanted []model.Assignment
		for _, s := range p.Settings {
			for _, as := range s.Assignments {
				if as.Host == host {
					wanted = append(wanted, as)
				}
			}
		}
		if i < len(e.Hosts) {
			change.TellLasting(a.world(), e.Hosts[i].Name, e.Hosts[i].OS, wanted, 0)
		}
	}
}

// undoAtBoot is the work of the job: it undoes open changes that are not confirmed, then removes
// the job.
func (a *console) undoAtBoot(ctx context.Context, args []string, state string) ([]model.Change, error) {
	if len(args) > 0 {
		return nil, fault.Usagef("--at-boot is for the job of this machine")
	}
	return local.New(a.world(), local.Options{State: state}).RecoverAtStart(ctx)
}
