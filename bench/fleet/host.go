//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/member"
	"linerate/internal/app/serve"
	wirefleet "linerate/internal/control/fleet"
	"linerate/internal/control/session"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// entry is a line of a host's own log: a session that it has opened to another host.
type entry struct {
	Lease    int64     `json:"lease"`
	Began    time.Time `json:"began"`
	Ended    time.Time `json:"ended,omitzero"` // zero in the line of its beginning
	Finished bool      `json:"finished,omitempty"`
}

// auditFile ends the name of the audit log of a host's server: the sessions that others open to it.
const auditFile = ".audit"

// traffic is how long a look of a host sends: linerate's own takes as long.
const traffic = 14 * time.Second

// hosts takes part in a fleet, as one host for each line, until it is killed.
func hosts(ctx context.Context, link string, lines []string) error {
	hub, err := tls.ParseLink(link)
	if err != nil {
		return err
	}
	ended := make(chan error, len(lines))
	for _, line := range lines {
		go func() { ended <- host(ctx, hub, strings.Fields(line)) }()
	}
	return <-ended
}

// host is all of linerate agent but its traffic; about are the name, the port, the folder of the
// state and the log of the host.
func host(ctx context.Context, hub tls.Link, about []string) error {
	name, port, state, log := about[0], about[1], about[2], about[3]
	file, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // each line is written at once
	env := app.Env{Version: "fleet-test", Getenv: os.Getenv, Now: time.Now, Catalogue: knob.NewIndex(), Asker: app.NoUser{}, Observer: printer{}}
	m, err := member.Open(ctx, env, member.Config{
		Hub: hub, Name: name, Limits: fleet.Limits{Share: 1}, Serve: serve.Config{Listen: "127.0.0.1:" + port, Host: "127.0.0.1", State: state, Guest: true, Audit: log + auditFile},
		Simulate: func(ctx context.Context, o wirefleet.Order, far *session.Client) ([]fleet.Run, error) {
			return simulate(ctx, file, o, far)
		},
	})
	if err != nil {
		return err
	}
	return m.Run(ctx)
}

// printer prints what a host tells.
type printer struct{}

// Observe implements app.Observer.
func (printer) Observe(e app.Event) {
	switch e := e.(type) {
	case app.Serving:
		fmt.Println(time.Now().Format(time.TimeOnly), e.Line)
	case app.Trouble:
		fmt.Println(time.Now().Format(time.TimeOnly), "trouble:", e.Err)
	}
}

// simulate logs a session, to whose end the far host answers, and returns its runs: 941 Mbit/s with
// 3 % of noise, 0.2 ms, no loss.
func simulate(ctx context.Context, log *os.File, o wirefleet.Order, far *session.Client) ([]fleet.Run, error) {
	e := entry{Lease: o.Lease.ID, Began: time.Now()}
	write := func() error {
		line, err := json.Marshal(e)
		if err == nil {
			_, err = log.Write(append(line, '\n'))
		}
		return err
	}
	err := write()
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(traffic):
		_, err = far.Facts(ctx, "")
	case <-ctx.Done():
		err = ctx.Err()
	}
	e.Ended, e.Finished = time.Now(), err == nil
	if err = errors.Join(err, write()); err != nil {
		return nil, err
	}
	var runs []fleet.Run
	for _, d := range []model.Direction{model.To, model.From} {
		noise, loss := 1+.03*rand.NormFloat64(), 0.0
		rate, trip := 941e6*noise, 2e-4*noise
		runs = append(runs, fleet.Run{Part: series.Probes, Direction: d, RoundTrip: &trip, Loss: &loss}, fleet.Run{Part: series.Bulk, Direction: d, Goodput: &rate})
	}
	return runs, nil
}
