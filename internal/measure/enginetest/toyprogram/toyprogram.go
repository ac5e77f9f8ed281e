// Package toyprogram is a foreign program for tests: its client writes the number of rounds in
// a line, and its server returns that many bytes. It shows all that a new one needs: this
// folder and a line in a list of programs.
package toyprogram

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/measure/accept"
	"linerate/internal/measure/budget"
	"linerate/internal/measure/program"
)

// Name is the program's name.
const Name = "toy"

// kindName is its kind of traffic, which no engine makes.
const kindName = "toybytes"

// mostRounds is the largest number that its server accepts.
const mostRounds = 1000

// Program is the toy.
func Program() program.Program {
	p := program.Program{
		Name: Name, Server: "a toy server", Port: "5999", Kinds: []traffic.Kind{kind()},
		Start:       func(port string) string { return "linerate serve --toy" + program.At("=:", port) },
		Flags:       []program.Flag{{Name: "toy-rounds", Usage: "how many bytes come back"}},
		ServerFlags: []program.Flag{{Name: "toy-mute", Usage: "return nothing", Switch: true}},
		Help:        "The toy returns at most 1000 bytes.",
		Fit: func(f model.Flow, given program.Values) (model.Flow, error) {
			if f.Bytes > 0 {
				return f, fault.New(fault.Usage, errors.New("HOST counts no bytes"), "leave out --bytes")
			}
			if _, err := strconv.Atoi(cmp.Or(given["toy-rounds"], "3")); err != nil {
				return f, fault.Usagef("--toy-rounds: %q is not a number", given["toy-rounds"])
			}
			f.Engine, f.Params = kindName, ""
			return f, nil
		},
	}
	p.New = func(addr string, given program.Values, _ func(string) string) (program.Client, error) {
		n, err := strconv.Atoi(cmp.Or(given["toy-rounds"], "3"))
		return client{p, addr, n}, err
	}
	p.Serve = listen
	return p
}

// kind returns the program's metadata.
func kind() traffic.Kind {
	return traffic.Kind{
		Name: kindName, Title: "the toy program", Command: "test toy://HOST", Why: "only the toy program makes it",
		Judge: func(_ model.Flow, ends []model.EndReport) string {
			for _, e := range ends {
				if len(e.Values) > 0 {
					return ""
				}
			}
			return "no byte came back"
		},
		Lines: func(_ model.Flow, runs []model.Run) (lines []string) {
			for _, r := range runs {
				for _, v := range r.Values {
					if v.Metric == model.Goodput {
						lines = append(lines, fmt.Sprintf("%.0f toy bytes came back", v.Value))
					}
				}
			}
			return lines
		},
	}
}

type client struct {
	program program.Program
	addr    string
	rounds  int
}

// Run implements program.Client.
func (c client) Run(ctx context.Context, f model.Flow, near program.Near, _ func([]model.Sample)) (a, b model.EndReport, err error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", c.addr)
	if err != nil {
		return a, b, c.program.Unreachable(ctx, err, c.addr)
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := fmt.Fprintln(conn, c.rounds); err != nil {
		return a, b, err
	}
	got, err := io.ReadAll(io.LimitReader(conn, mostRounds))
	near.Met()
	near.Said(fmt.Sprintf("%d bytes", len(got)))
	if err != nil || len(got) == 0 {
		return a, b, c.program.Unreachable(ctx, errors.Join(err, errors.New("nothing came back")), c.addr)
	}
	a.Values = []model.Value{{Direction: f.Direction, Metric: model.Goodput, Value: float64(len(got))}}
	return a, b, nil
}

// listen implements program.Program.Serve.
func listen(_ context.Context, at program.Sockets, h program.Host) (func(context.Context) error, error) {
	return func(ctx context.Context) error {
		defer context.AfterFunc(ctx, func() { at.Close() })()
		return accept.Loop(ctx, at.TCP, h.Note, func(c net.Conn) { serve(c, h) })
	}, nil
}

// serve answers one client.
func serve(c net.Conn, h program.Host) {
	defer func() { _ = c.Close() }()
	began := time.Now()
	at, _ := netip.ParseAddrPort(c.RemoteAddr().String())
	e := program.Event{Test: program.Test{From: at.Addr(), Flow: model.Flow{Engine: kindName, Direction: model.From}}}
	share, err := h.Budget.Open(at.Addr(), "")
	rounds := 0
	if err == nil {
		defer share.Close()
		_ = c.SetDeadline(began.Add(budget.AnonymousRun().Time))
		var line string
		if line, err = bufio.NewReader(io.LimitReader(c, 10)).ReadString('\n'); err == nil {
			rounds, err = strconv.Atoi(line[:len(line)-1])
		}
	}
	if err == nil && (rounds < 1 || rounds > mostRounds) {
		err = fmt.Errorf("%d rounds: not between 1 and %d", rounds, mostRounds)
	}
	if e.Err, e.Over = err, true; err != nil {
		h.Tell(e)
		return
	}
	e.Began = true
	h.Tell(program.Event{Test: e.Test, Began: true})
	if h.Given.On("toy-mute") {
		rounds, e.Err = 0, errors.New("the toy is mute")
	}
	_, err = c.Write(make([]byte, rounds))
	e.Took, e.Err = time.Since(began), errors.Join(e.Err, err, share.Spend(units.Bytes(rounds)))
	e.Ends = []model.EndReport{{
		Host:   model.Far,
		Flows:  []model.FlowReport{{Direction: model.From, Role: model.Sender, Bytes: units.Bytes(rounds), Window: e.Took}},
		Values: []model.Value{{Direction: model.From, Metric: model.Goodput, Value: float64(rounds)}},
	}}
	h.Keep(e.Test)
	h.Tell(e)
}
