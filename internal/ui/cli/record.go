package cli

import (
	"context"
	"net/netip"
	"os"
	"sync"
	"time"

	"linerate/internal/app/serve"
	"linerate/internal/app/trial"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
)

// What anonymous clients may have kept by running a client of another program: so many tests
// of one address and of all in an hour, and so many in all, of which the newest stay.
// One takes some 4 KiB.
const (
	recordsOfSource = 60
	recordsAnHour   = 600
	recordsKept     = 1000
	recordsWaiting  = 64
)

// recordsFile is where a server that gave up root keeps them, in its own folder: it
// can reach no other.
const recordsFile = "results.db"

// pruner is a store that forgets.
type pruner interface {
	KeepNewest(ctx context.Context, kind model.Kind, keep int) error
}

// recorder keeps what clients of other programs measured with this server. It writes
// beside the tests, and drops what comes too fast.
type recorder struct {
	app   *console
	queue chan model.Session

	mu    sync.Mutex
	hour  time.Time
	tests map[netip.Addr]int // since hour
	all   int
}

// record opens the results and keeps what comes until ctx ends; the returned function
// waits for that. Where there is no place for results it says so, once.
func (a *console) record(ctx context.Context, path string) (*recorder, func()) {
	st, err := openStoreAt(ctx, path)
	if err != nil {
		a.talk("results of iperf clients are not kept: %v", err)
		return nil, func() {}
	}
	r := &recorder{app: a, queue: make(chan model.Session, recordsWaiting)}
	var done sync.WaitGroup
	done.Go(func() {
		defer func() { _ = st.Close() }()
		told := false
		for {
			select {
			case s := <-r.queue:
				err := st.CreateSession(context.WithoutCancel(ctx), s)
				if p, ok := st.(pruner); ok && err == nil {
					err = p.KeepNewest(context.WithoutCancel(ctx), model.KindServed, recordsKept)
				}
				if err != nil && !told {
					told = true
					a.talk("a result of a client is not kept: %v", err)
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return r, done.Wait
}

// mayKeep counts a test of from in, and reports whether it is not one too many.
func (r *recorder) mayKeep(from netip.Addr, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.hour) >= time.Hour || r.tests == nil {
		r.hour, r.tests, r.all = now, map[netip.Addr]int{}, 0
	}
	if r.all >= recordsAnHour || r.tests[from] >= recordsOfSource {
		return false
	}
	r.all++
	r.tests[from]++
	return true
}

// keep records a test, whose client is the near end. r may be nil.
func (r *recorder) keep(one serve.Served) {
	now := time.Now()
	if r == nil || !r.mayKeep(one.From, now) {
		return
	}
	flow, ends := served(one.Datagrams, one.Took, one.Ends[0]), one.Ends
	run := model.Run{
		Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: trial.Current, Flow: flow,
		Started: now.Add(-one.Took), Ended: now, State: model.RunValid, Ends: ends,
	}
	seen := map[model.Direction]bool{}
	for _, e := range ends {
		for _, f := range e.Flows {
			if f.Role == model.Receiver && f.Window > 0 && f.Bytes > 0 && !seen[f.Direction] {
				seen[f.Direction] = true
				run.Values = append(run.Values, model.Value{Direction: f.Direction, Metric: model.Goodput, Value: float64(f.Bytes) * 8 / f.Window.Seconds()})
			}
		}
	}
	name, err := os.Hostname()
	if err != nil {
		name = "this host"
	}
	s := model.Session{
		ID: trial.NewSessionID(now), Kind: model.KindServed, Title: one.Program + " client", Near: one.From.String(), Far: name, Version: r.app.Version,
		Created: run.Started, Ended: now, State: model.SessionDone, Reason: "its client ended it", Runs: []model.Run{run},
		Plan: trial.Repeated(flow, []model.Direction{flow.Direction}, 1),
	}
	select {
	case r.queue <- s:
	default:
	}
}

// served is the flow of a client's test, by what its server saw.
func served(datagrams bool, took time.Duration, own model.EndReport) model.Flow {
	f := model.Flow{Engine: "tcpbulk", Duration: took, Direction: model.To}
	if datagrams {
		f.Engine = udp.Name
	}
	for i, one := range own.Flows {
		if f.Streams = max(f.Streams, len(one.Streams)); i > 0 && one.Direction != f.Direction {
			f.Direction = model.Both
			break
		}
		f.Direction = one.Direction
		f.Duration = max(one.Window, time.Millisecond)
	}
	return f
}
