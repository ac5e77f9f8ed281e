package cli

import (
	"context"
	"fmt"
	"sync"

	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/change"
	"linerate/internal/app/here"
	"linerate/internal/app/reach"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/fault"
)

// bootJob is what is known of the job for the next start of hosts.
type bootJob struct {
	wanted bool // --at-boot
	mu     sync.Mutex
	said   map[string]bool // lines that were printed
}

// bindAtBoot is the flag of commands that change settings.
func (a *console) bindAtBoot(f *pflag.FlagSet) {
	f.BoolVar(&a.boot.wanted, "at-boot", false, "while settings are changed, have a job at the next start of the host put them back, too")
}

// maxBootLines is how many lines of this kind a command prints: there are a few for
// each host, unless an agent means harm.
const maxBootLines = 64

// hostSaid prints a line of a host, each line once: with every run of an experiment
// the job for the next start comes and goes. It is printed also where nobody wants
// to see progress.
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

// noteLastingPlan tells what a restart during a run of a plan would not put back.
func (a *console) noteLastingPlan(e *reach.Ends, p model.Plan) {
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

// undoAtBoot is what the job does: what is open and not confirmed goes back, and
// then the job goes.
func (a *console) undoAtBoot(ctx context.Context, args []string, state string) ([]model.Change, error) {
	if len(args) > 0 {
		return nil, fault.Usagef("--at-boot is for the job of this machine")
	}
	return here.New(a.world(), here.Options{State: state}).RecoverAtStart(ctx)
}
