package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

// choosing is an engine that sets the flow's congestion control, as the sending end of the TCP
// engines does.
type choosing struct{ patient }

func (choosing) Name() string       { return "choosing" }
func (choosing) Kind() traffic.Kind { return traffic.Kind{Name: "choosing"} }

func (choosing) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	opened, err := env.Open(ctx, 1, engine.SocketOptions{Congestion: f.Congestion})
	if err != nil {
		return nil, err
	}
	for _, c := range opened.Conns {
		err = errors.Join(err, c.Close())
	}
	return nil, errors.Join(errors.New("opened"), err)
}

// TestCongestionOfWhoMeasures: a client that may only measure chooses among the congestion
// controls that every program may use; the kernel is not even asked for another name, since for
// root it would load a module. A client over ssh, or one that may tune, is not restricted.
func TestCongestionOfWhoMeasures(t *testing.T) {
	const refused = "every program of this server's host may choose"
	for _, c := range []struct {
		what             string
		admitted, tuning bool
		name             string
		held             bool
	}{
		{"an anonymous client or a measuring key", true, false, "nosuch", true},
		{"the same, two names", true, false, "reno cubic", true},
		{"the same, one that is allowed", true, false, "reno", false},
		{"the same, none", true, false, "", false},
		{"a tuning key", true, true, "nosuch", false},
		{"over ssh", false, false, "nosuch", false},
		{"over ssh with rights", false, true, "nosuch", false},
	} {
		conf := granted(nil)
		conf.Engines = append(conf.Engines, choosing{})
		if !c.admitted {
			conf.Admit = nil
		}
		if c.tuning {
			conf.Knobs = agenttest.NewKnobs(model.Far, nil)
		}
		s, _, _ := far(t, conf)
		// The name is set before the connection is attempted, which always fails.
		f := model.Flow{Engine: "choosing", Direction: model.From, Duration: time.Second, Congestion: c.name}
		_, err := s.Prepare(t.Context(), session.Preparation{Run: 1, Connect: "127.0.0.1:1", Flow: f})
		if err == nil {
			err = s.Run(t.Context(), 1, func(session.Event) {})
		}
		must.Need(t, err != nil, "%s: no error", c.what)
		held := strings.Contains(err.Error(), refused)
		must.True(t, held == c.held && (!held || errors.Is(err, session.ErrRefused)), "%s: %q: %v", c.what, c.name, err)
	}
}
