package selftest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"linerate/internal/app/local"
	"linerate/internal/app/target"
	"linerate/internal/control/runner"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/bulk"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/traffic/packets"
	"linerate/internal/core/traffic/probes"
	"linerate/internal/core/traffic/requests"
	"linerate/internal/core/traffic/sizes"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
	"linerate/internal/host/counters"
	"linerate/internal/panics"
)

const (
	// runTime is how long one engine measures, and runLimit bounds the whole run.
	runTime  = time.Second
	runLimit = 30 * time.Second
	// udpRate is a rate that every machine can send to itself.
	udpRate = 10 * units.BitRate(1e6)
	// copied is the size of the copy, from memory to memory.
	copied units.Bytes = 16 << 20
)

// flows returns one measurement for each engine.
func flows() []model.Flow {
	flow := func(engine string, params model.Params) model.Flow {
		return model.Flow{Engine: engine, Direction: model.To, Streams: 1, Duration: runTime, Interval: runTime / 4, Params: params}
	}
	latency := probes.Over(flow(bulk.Name, ""))
	latency.Lead = runTime / 2
	curve := flow(sizes.Name, "")
	curve.Duration = 50 * time.Millisecond // for each size
	curve = sizes.With(curve, sizes.Params{Sizes: []units.Bytes{1, 1 << 10, 64 << 10}})
	return []model.Flow{
		flow(bulk.Name, ""),
		flow(udp.Name, traffic.Write(udp.Params{Rate: udpRate})),
		curve,
		flow(requests.Name, ""),
		latency,
		{Engine: files.Name, Direction: model.To, Bytes: copied, Interval: runTime},
		{Engine: packets.Name, Direction: model.To, Params: traffic.Write(packets.Params{Most: 1500})},
	}
}

// loopback measures with each engine between two agents of this process, and watches the
// counters meanwhile.
func (t *trial) loopback(ctx context.Context) {
	link := t.host.Interface.Or("")
	counting, err := counters.Open(link)
	if err != nil {
		t.add("counters", "all", Wrong, "%v", err)
	} else {
		end := counting.Run(ctx, model.Near, runTime, time.Now(), func([]model.Sample) {})
		defer func() { t.counters(end(), counting) }()
	}
	self := target.Target{Kind: target.Here, Text: "loopback"}
	e, err := target.New(t.Env, target.Options{}).Open(ctx, self, self)
	if err != nil {
		t.add("loopback", "two agents", Wrong, "%v", err)
		return
	}
	defer e.Close()
	for i, f := range flows() {
		began := time.Now()
		text := ""
		err := panics.Call(func() (err error) { text, err = t.measure(ctx, e, f, i+1); return err })
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			t.timed(began, "loopback", f.Engine, Unseen, "%v", err)
		case err != nil:
			t.timed(began, "loopback", f.Engine, Wrong, "%v", err)
		default:
			t.timed(began, "loopback", f.Engine, OK, "%s", text)
		}
	}
}

// measure does one run, and returns its result as text.
func (t *trial) measure(ctx context.Context, e *target.Ends, f model.Flow, number int) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	run, _, err := e.Runner.Run(ctx, runner.Spec{Number: number, Block: 1, Attempt: 1, Position: number, Setting: model.Setting{Name: "selftest"}, Flow: f}, nil)
	if err != nil {
		return "", err
	}
	if f.Engine == packets.Name {
		v, _ := run.Value(model.To, packets.Passes)
		return fmt.Sprintf("packets of %.0f bytes arrive", v), nil
	}
	var texts []string
	if v, ok := run.Value(model.To, model.Goodput); ok && v > 0 {
		texts = append(texts, units.BitRate(v).String())
	}
	for _, end := range run.Ends {
		if n := len(end.Points); n > 0 {
			p := end.Points[0]
			texts = append(texts, fmt.Sprintf("%d sizes", n))
			if len(p.Trials) > 0 {
				texts = append(texts, fmt.Sprintf("%s for %s", units.FormatDuration(p.Trials[0]), p.Size))
			}
			break
		}
	}
	for _, l := range traffic.Latencies([]model.Run{run}) {
		if l.Times == nil {
			continue
		}
		if middle, ok := l.Times.Quantile(0.5).Get(); ok {
			texts = append(texts, l.Name+" "+units.FormatDuration(middle))
		}
	}
	if len(texts) == 0 {
		return "", errors.New("nothing arrived")
	}
	return strings.Join(texts, ", "), nil
}

// counters reports what the counters showed. If no counter moved in two seconds of traffic,
// they are wrong.
func (t *trial) counters(counted []model.Counter, w *counters.Watcher) {
	moved := lists.Count(counted, func(c model.Counter) bool { return c.Value > 0 })
	state := OK
	if moved == 0 {
		state = Wrong
	}
	t.add("counters", "all", state, "%d read, %d of them moved while linerate measured", len(counted), moved)
	for _, m := range w.Missing() {
		t.add("counters", "left out", Unseen, "%s", m)
	}
	_ = w.Close()
}

// records tests the directories of results and of the journal.
func (t *trial) records(ctx context.Context) {
	began, where := time.Now(), ""
	err := panics.Call(func() (err error) { where, err = t.Results(ctx); return err })
	if err != nil {
		t.timed(began, "records", "results", Wrong, "%v", err)
	} else {
		t.timed(began, "records", "results", OK, "written, read and removed in %s", where)
	}
	var dir string
	dir, err = local.StateDir(t.State)
	if err == nil {
		err = writable(dir)
	}
	if err == nil {
		err = local.JournalFault(t.State)
	}
	if err != nil {
		t.add("records", "journal", Wrong, "%v", err)
		return
	}
	t.add("records", "journal", OK, "can be written in %s, and is whole", dir)
}

// writable writes a file into dir and removes it.
func writable(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "selftest-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString("linerate selftest\n")
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}
