package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/app/target"
	"linerate/internal/core/diagnose"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// world returns the environment of the use cases.
func (a *console) world() app.Env {
	return app.Env{
		Version: a.Version, Self: a.Self, Getenv: a.Getenv, Now: a.Now, AfterStep: a.AfterStep, Root: a.Root, Timeout: a.timeout, Calm: a.calm, Engines: a.Engines, Programs: a.Programs, Catalogue: a.knobs, Asker: a, Observer: a, Between: a.between,
	}
}

// kinds returns the kinds of traffic that this program generates.
func (a *console) kinds() traffic.Kinds { return a.world().Kinds() }

// here returns this machine. It prints the journal's warnings once per process.
func (a *console) here(state, link string) *local.Machine {
	a.tellJournal(state)
	return local.New(a.world(), a.hereOptions(state, link))
}

func (a *console) hereOptions(state, link string) local.Options {
	return local.Options{State: state, Link: link, AtBoot: a.boot.wanted}
}

func (a *console) tellJournal(state string) {
	a.journalOnce.Do(func() { local.TellJournal(a.world(), state) })
}

// reach returns an opener of hosts with the flags' options.
func (a *console) reach() *target.Opener { return target.New(a.world(), a.reaching()) }

func (a *console) reaching() target.Options {
	return target.Options{
		Sudo: a.ssh.sudo, Keep: a.ssh.keeping(), TrustFar: a.ssh.trust, AtBoot: a.boot.wanted, Acknowledge: a.acknowledge, Path: a.path, Contract: a.contract, Commands: a.commands,
	}
}

// Ask implements app.Asker on the terminal.
func (a *console) Ask(ctx context.Context, q app.Question) (app.Answer, error) {
	defer a.hideScreen()()
	if q.Kind == app.Password { // from the terminal itself, whatever stdin is
		secret, err := a.askPassword(ctx, "password of sudo on "+q.Host+": ")
		return app.Answer{Secret: secret}, err
	}
	if !a.InTerminal || !a.ErrTerminal {
		return app.Answer{}, app.ErrNoTerminal
	}
	switch q.Kind {
	case app.KeepChange:
		return a.agreed(ctx, fmt.Sprintf("keep it? [y/N] (goes back by itself in %s) ", units.FormatDuration(q.Within)))
	case app.KeepProgram:
		return a.agreed(ctx, fmt.Sprintf("leave linerate (%s) in ~/.cache of %s, so that it need not be copied again? [y/N] ", units.Bytes(q.Count), q.Host))
	case app.WriteFiles:
		return a.agreed(ctx, fmt.Sprintf("write these files on %s? [y/N] ", q.Host))
	case app.TryRisky:
		return a.agreed(ctx, fmt.Sprintf("try %s? it %s, and is undone after its run [y/N] ", plain.Line(q.What), plain.Line(q.Why)))
	case app.TrySettings:
		return a.agreed(ctx, "set and take back harmless settings of "+q.Host+", each for a moment? [y/N] ")
	case app.KeepTuned:
		question := "keep it? "
		if q.Why != "" {
			question = plain.Line(q.Why) + "\nkeep it all the same? "
		}
		answer, err := a.answered(ctx, question+"[n]o, until the next [s]tart, [p]ermanently, as a pro[f]ile [N/s/p/f] ")
		return app.Answer{Choice: map[string]string{"s": "reboot", "p": "permanent", "f": "profile"}[answer]}, err
	case app.Password:
	}
	return app.Answer{}, app.ErrNoTerminal
}

// agreed asks a yes-or-no question on the terminal.
func (a *console) agreed(ctx context.Context, question string) (app.Answer, error) {
	answer, err := a.answered(ctx, question)
	return app.Answer{Yes: answer == "y" || answer == "yes"}, err
}

// answered asks a question on the terminal. Its goroutine may stay in the read until the process
// ends: not every system can interrupt that read for every terminal.
func (a *console) answered(ctx context.Context, question string) (string, error) {
	fmt.Fprint(a.Err, question)
	answers := make(chan string, 1)
	go func() {
		line, err := bufio.NewReader(io.LimitReader(a.In, 1<<10)).ReadString('\n')
		if err != nil {
			line = ""
		}
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answers:
		return answer, nil
	case <-ctx.Done():
		fmt.Fprintln(a.Err)
		return "", ctx.Err()
	}
}

// Observe implements app.Observer: it prints events.
func (a *console) Observe(e app.Event) {
	switch e := e.(type) {
	case app.Trouble:
		a.talk("linerate: %v", e.Err)
	case app.Waiting:
		if e.Most == 0 { // the cursor may be behind a prompt
			a.talk("\nstill waiting for the %s host; if ssh asks above, type the answer; ctrl-c stops", e.Side)
			return
		}
		a.talk("waiting for the %s host, at most %s in all; ctrl-c stops", e.Side, units.FormatDuration(e.Most))
	case app.Warning:
		a.talk("%s", e.Text)
	case app.Recovered:
		a.talk("%s", e.String())
	case app.HostSaid:
		a.hostSaid(e)
	case app.Serving:
		if !e.Visit || a.serving == nil || !a.serving.keep(e.Line) {
			a.talk("%s", e.Line)
		}
	case app.VisitBegan, app.VisitRuns, app.VisitSampled, app.VisitRan, app.VisitEnded, app.VisitRefused:
		if a.serving != nil {
			a.serving.state.Observe(e)
		}
	case app.ServerSaid:
		a.talk("server: %s", e.Line)
	case app.LabSaid:
		fmt.Fprintln(a.Err, plain.Line(e.Line))
	case app.Copying:
		a.copying(e)
	case app.SweptUp:
		a.talk("%s", e.String())
	case app.Located:
		a.talk("%s: %s", e.Names.Way(e.Place.Direction), diagnose.PlaceText(e.Place))
	case app.Looking:
		a.talk("looking at %s", e.At)
	case app.FolderProgress:
		a.folderProgress(e)
	case app.TrialBegan:
		a.live = a.newLive(e.Session)
		a.watch(e.Session)
	case app.TrialEnded:
		a.unwatch()
		a.live.close()
		a.live = nil
	default:
		if a.live != nil {
			a.live.observe(e)
		}
		a.observeChange(e)
	}
}
