package agent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

func TestWithoutPath(t *testing.T) {
	for in, want := range map[string]string{
		"create /var/lib/linerate/copies/x: no space left": "create a file of this server: no space left",
		`open "/etc/shadow": denied`:                       `open "a file of this server": denied`,
		`open C:\Users\anna\x: denied`:                     `open a file of this server: denied`,
		"1.2 GiB/s to 10.0.0.1/24, 3 of 4 and/or more":     "1.2 GiB/s to 10.0.0.1/24, 3 of 4 and/or more",
	} {
		must.Equal(t, withoutPath(in), want, "%q became", in)
	}
}

func TestPublicReport(t *testing.T) {
	r := publicReport(model.EndReport{
		Counters: []model.Counter{
			{Name: "nic_rx_bytes", Of: "eth7", Value: 1}, {Name: "nic_driver", Of: "rx_secret_errors", Value: 2},
			{Name: "nic_rx_missed", Of: "eth7", Value: 3}, {Name: "softnet_dropped", Of: "cpu1", Value: 4}, {Name: "softnet_dropped", Of: "cpu2", Value: 5},
			{Name: "udp_receive_buffer_errors", Of: "IPv6", Value: 6}, {Name: "counters_read", Of: "nic", Value: 7},
		},
		Points:   []model.Point{{Size: 1, Log: []string{"eth7: link down"}}},
		Warnings: []string{"read /sys/class/net/eth7/x: denied"},
	})
	text := fmt.Sprintf("%+v", r)
	for _, secret := range []string{"eth7", "rx_bytes", "rx_secret", "link down", "/sys"} {
		must.True(t, !strings.Contains(text, secret), "%s is told: %s", secret, text)
	}
	want := []model.Counter{{Name: "nic_rx_missed", Value: 3}, {Name: "softnet_dropped", Value: 9}, {Name: "udp_receive_buffer_errors", Of: "IPv6", Value: 6}, {Name: "counters_read", Of: "nic", Value: 7}}
	must.True(t, slices.Equal(r.Counters, want), "counters %+v", r.Counters)
}

// broken is an engine with a bug in one phase.
type broken struct{ at string }

func (b broken) Name() string              { return "broken" }
func (b broken) Kind() traffic.Kind        { return traffic.Kind{Name: "broken"} }
func (b broken) Validate(model.Flow) error { return nil }
func (b broken) Measured() <-chan struct{} { return nil }
func (b broken) Stop()                     {}
func (b broken) Close() error {
	if b.at == "close" {
		panic("oh")
	}
	return nil
}

func (b broken) Prepare(context.Context, engine.Env, model.Flow) (engine.Test, error) {
	if b.at == "prepare" {
		panic("oh")
	}
	return b, nil
}

func (b broken) Run(context.Context, func([]model.Sample)) (model.EndReport, error) {
	if b.at == "run" {
		panic("oh")
	}
	return model.EndReport{Host: model.Far}, nil
}

// TestEngineThatPanics: a bug of an engine costs its run and nothing else, least of all the
// process.
func TestEngineThatPanics(t *testing.T) {
	for _, at := range []string{"prepare", "run", "close"} {
		peer := wire.Pipe(t.Context(), "far", "127.0.0.1", func(ctx context.Context, conn net.Conn) error {
			return Serve(ctx, conn, Config{Version: "v", Engines: []engine.Engine{broken{at}}})
		})
		c, err := session.Open(t.Context(), peer, session.Options{Host: model.Far, Version: "v"})
		must.Do(t, err)
		for n := range uint64(2) { // the next run fails independently
			_, err = c.Prepare(t.Context(), session.Preparation{Run: n + 1, Flow: model.Flow{Engine: "broken", Direction: model.To, Duration: time.Second}})
			if err == nil {
				err = c.Run(t.Context(), n+1, func(e session.Event) {
					if e.Kind == session.Ready {
						must.OK(t, c.Start(t.Context(), n+1))
					}
				})
			}
			must.True(t, at == "close" || err != nil && strings.Contains(err.Error(), "a bug in the agent: oh"), "%s: %v", at, err)
			must.True(t, at != "close" || err == nil, "%s: %v", at, err)
		}
		must.OK(t, must.Err(c.Close(t.Context())), "%s: the session ended", at)
	}
}

// An anonymous client gets the kind of error, and no path.
func TestDiscreetErrors(t *testing.T) {
	a := &agent{Config: Config{Discreet: true}}
	err := a.tell(&fs.PathError{Op: "open", Path: "/var/lib/linerate/x", Err: fs.ErrPermission})
	must.True(t, errors.Is(err, fs.ErrPermission) && !strings.Contains(err.Error(), "/var"), "%v", err)
}
