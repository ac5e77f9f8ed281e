package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/change"
	"linerate/internal/app/here"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
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

// atBootFits demands that --at-boot reaches those that it is for.
func (a *console) atBootFits(ends ...target) error {
	if !a.boot.wanted {
		return nil
	}
	for _, t := range ends {
		if t.kind == targetLab {
			return usagef("--at-boot: a lab ends with its command, there is no next start of it")
		}
		if err := a.flagFits("--at-boot", true, t); err != nil {
			return err
		}
	}
	return nil
}

// flagFits demands that a flag for an agent stands in a command that linerate does
// not make.
func (a *console) flagFits(flag string, wanted bool, t target) error {
	if !wanted || t.kind != targetExec || slices.ContainsFunc(t.argv, func(s string) bool { return strings.Contains(s, flag) }) {
		return nil
	}
	return withHint(usagef("%s does not reach the agent of %s, whose command is your own", flag, t.addr),
		"write it into that command: exec:ADDRESS ... linerate agent %s", flag)
}

// agentFlags are what an agent that linerate starts itself is told.
func (a *console) agentFlags() []string {
	var flags []string
	if a.boot.wanted {
		flags = append(flags, "--at-boot")
	}
	if a.acknowledge {
		flags = append(flags, "--acknowledge")
	}
	return flags
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
func (a *console) noteLastingPlan(e *ends, p model.Plan) {
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
		if i < len(e.hosts) {
			change.TellLasting(a.world(), e.hosts[i].Name, e.hosts[i].OS, wanted, 0)
		}
	}
}

// undoAtBoot is what the job does: what is open and not confirmed goes back, and
// then the job goes.
func (a *console) undoAtBoot(ctx context.Context, args []string, state string) ([]model.Change, error) {
	if len(args) > 0 {
		return nil, usagef("--at-boot is for the job of this machine")
	}
	return here.New(a.world(), here.Options{State: state}).RecoverNow(ctx)
}
