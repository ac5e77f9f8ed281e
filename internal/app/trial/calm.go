package trial

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/control/runner"
	"linerate/internal/core/health"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/units"
)

const (
	// idleTime is how long to watch the CPUs of both ends during idleRate requests a second,
	// which use almost none of them: 300 ms are 30 ticks (proc_stat(5), USER_HZ 100).
	idleTime = 300 * time.Millisecond
	idleRate = 20
	// idleEvery is the interval between two checks.
	idleEvery = time.Second
)

// Calm waits, at most env.Calm, until other programs leave both hosts of e enough CPU to
// measure with. It reports what it waits for, and what is still busy at the end; the report
// names the runs measured meanwhile. A foreign far end cannot be watched: Calm warns of that,
// and waits for the near end only, if that far end can be reached.
func Calm(ctx context.Context, env app.Env, e *target.Ends) error {
	if env.Calm <= 0 {
		return nil
	}
	if e.Far == nil {
		if err := e.Listening(ctx); err != nil {
			return err
		}
		env.Observe(app.Warning{Text: "the far end cannot be asked how busy it is: only " + e.Names().Of(model.Near) + " is watched"})
	}
	began, last := time.Now(), ""
	for {
		busy, err := crowded(ctx, e)
		left := env.Calm - time.Since(began)
		switch took := units.FormatDuration(time.Since(began).Round(time.Second)); {
		case err != nil:
			return err
		case busy == "" && last != "":
			env.Observe(app.Warning{Text: "the hosts have processors free again, after " + took})
			return nil
		case busy == "":
			return nil
		case left <= 0:
			env.Observe(app.Warning{Text: fmt.Sprintf("measuring all the same after %s: %s, and what is slow may be slow for that", took, busy)})
			return nil
		case last == "":
			env.Observe(app.Warning{Text: fmt.Sprintf("waiting up to %s before the first run: %s (--wait 0s measures at once)", units.FormatDuration(env.Calm), busy)})
		}
		last = busy
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(idleEvery, left)):
		}
	}
}

// crowded names the hosts of e on which other programs leave too little CPU, "" for none or
// if that cannot be seen.
func crowded(ctx context.Context, e *target.Ends) (string, error) {
	flow := model.Flow{Engine: requests.Name, Direction: model.To, Streams: 1, Block: 64, Duration: idleTime, Interval: idleTime, Params: traffic.Write(requests.Params{Rate: idleRate})}
	alone := e.Far == nil // run from the near end to itself
	by := e.Idle
	if !alone {
		by = e.Runner
	}
	run, _, err := by.Run(ctx, runner.Spec{Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: model.Setting{Name: "idle"}, Flow: flow}, func(model.Host, []model.Sample) {})
	switch {
	case errors.Is(err, runner.ErrInvalid), err != nil && alone && ctx.Err() == nil:
		return "", nil
	case err != nil:
		return "", err
	}
	s := model.Session{Near: e.NearText, Far: e.FarText, Hosts: e.Hosts}
	oneMachine := health.OneMachine(&s)
	var out []string
	for _, end := range run.Ends {
		f, _ := s.Facts(end.Host)
		others, of, ok := health.Others(f, run, end, alone || oneMachine)
		if !ok || !health.Crowded(others, of) || alone && end.Host == model.Far {
			continue
		}
		name := e.Names().Of(end.Host)
		if oneMachine {
			name = app.ThisMachine
		}
		if text := fmt.Sprintf("other programs keep %.1f of the %s of %s busy", others, plain.Count(of, "processor"), name); len(out) == 0 || name != app.ThisMachine {
			out = append(out, text)
		}
	}
	return strings.Join(out, ", "), nil
}
