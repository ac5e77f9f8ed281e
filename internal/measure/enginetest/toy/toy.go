// Package toy is an engine for tests: it bounces a byte a number of times. It shows all that a
// new engine needs: this folder and a line in a list of engines.
package toy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/fault"
	"linerate/internal/measure/engine"
)

// Name is the engine's name.
const Name = "toy"

// Rounds is the metric that decides: the number of times that the byte came back.
const Rounds model.Metric = "toy_rounds"

// Params are the engine's own parameters.
type Params struct {
	Rounds int  `json:"rounds,omitempty"` // 1 to 1000; 0 is 3
	Shout  bool `json:"shout,omitempty"`  // warn of each round
}

// Kind returns the engine's metadata.
func Kind() traffic.Kind {
	return traffic.Kind{
		Name: Name, Title: "the toy",
		Options: []traffic.Option{
			traffic.Param(traffic.Option{Name: "rounds", Usage: "how often the byte goes to and fro"},
				rounds, func(p *Params) *int { return &p.Rounds }),
			traffic.Param(traffic.Option{Name: "shout", Usage: "warn of each round", Switch: true, Fixed: true},
				traffic.Switch, func(p *Params) *bool { return &p.Shout }),
		},
		Judge: func(f model.Flow, ends []model.EndReport) string {
			want, _ := read(f)
			for _, e := range ends {
				for _, v := range e.Values {
					if v.Metric == Rounds && v.Value == float64(want.Rounds) {
						return ""
					}
				}
			}
			return "the byte did not come back"
		},
		Lines: func(_ model.Flow, runs []model.Run) []string {
			var out []string
			for _, r := range runs {
				if n, ok := r.Value(r.Flow.Direction, Rounds); ok {
					out = append(out, fmt.Sprintf("the byte came back %.0f times", n))
				}
			}
			return out
		},
		Section: section,
	}
}

// Table is the toy's part of a session report.
type Table struct {
	Rounds []float64 `json:"rounds"` // of each run
}

func section(t traffic.Measured) *traffic.Section {
	var d Table
	table := traffic.Block{Columns: []traffic.Column{{Title: "run", Right: true}, {Title: "rounds", Right: true}}}
	for _, r := range t.Runs {
		if n, ok := r.Value(r.Flow.Direction, Rounds); ok {
			d.Rounds = append(d.Rounds, n)
			table.Rows = append(table.Rows, []traffic.Cell{{Text: fmt.Sprint(r.Number)}, {Text: fmt.Sprint(n)}})
		}
	}
	if len(d.Rounds) == 0 {
		return nil
	}
	title := traffic.Block{Tone: traffic.Heading, Text: "the toy " + t.Label(t.Session.Plan.Flow.Direction)}
	return &traffic.Section{Key: "toy", Data: d, Blocks: []traffic.Block{title, table}}
}

// rounds parses a number of rounds. The engine checks the range.
func rounds(text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fault.New(fault.Usage, fmt.Errorf("%q is not a number of rounds", text), "write it like 3")
	}
	return n, nil
}

// read returns the parameters of f with defaults filled in.
func read(f model.Flow) (Params, error) {
	p, err := traffic.Read[Params](f.Params)
	p.Rounds = cmp.Or(p.Rounds, 3)
	return p, err
}

// Engine is the toy.
type Engine struct{}

// Name returns "toy".
func (Engine) Name() string { return Name }

// Kind returns the engine's metadata.
func (Engine) Kind() traffic.Kind { return Kind() }

// Validate reports what is wrong with f.
func (Engine) Validate(f model.Flow) error {
	var faults engine.Faults
	faults.Engine(f, Name)
	p, err := read(f)
	faults.Unless(err == nil, "%v", err)
	faults.Unless(p.Rounds >= 1 && p.Rounds <= 1000, "%d rounds: not between 1 and 1000", p.Rounds)
	return faults.Err()
}

// Prepare opens one connection.
func (e Engine) Prepare(ctx context.Context, env engine.Env, f model.Flow) (engine.Test, error) {
	if err := e.Validate(f); err != nil {
		return nil, err
	}
	opened, err := env.Open(ctx, 1, engine.SocketOptions{NoDelay: true})
	if err != nil {
		return nil, err
	}
	p, _ := read(f)
	return &test{Life: engine.NewLife(), host: env.Host, flow: f, p: p, conn: opened.Conns[0]}, nil
}

type test struct {
	*engine.Life
	host model.Host
	flow model.Flow
	p    Params
	conn *net.TCPConn
}

// Run sends the byte, or sends it back.
func (t *test) Run(ctx context.Context, _ func([]model.Sample)) (report model.EndReport, err error) {
	ctx, end, err := t.Begin(ctx)
	if err != nil {
		return report, err
	}
	defer end(&err)
	defer context.AfterFunc(ctx, func() { _ = t.conn.SetDeadline(time.Unix(1, 0)) })()
	report.Host = t.host
	b := []byte{1}
	for i := range t.p.Rounds {
		if t.host == model.Near {
			_, err = t.conn.Write(b)
		}
		if err == nil {
			_, err = t.conn.Read(b)
		}
		if err == nil && t.host == model.Far {
			_, err = t.conn.Write(b)
		}
		if err != nil {
			return report, errors.Join(context.Cause(ctx), err)
		}
		if t.p.Shout {
			report.Warnings = append(report.Warnings, fmt.Sprintf("round %d!", i+1))
		}
	}
	if t.host == model.Near {
		report.Values = []model.Value{{Direction: t.flow.Direction, Metric: Rounds, Value: float64(t.p.Rounds)}}
	}
	return report, nil
}

// Close ends the test.
func (t *test) Close() error { return t.End(t.conn.Close) }
