package check

import (
	"context"
	"errors"
	"time"

	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/fact"
	"linerate/internal/core/locate"
	"linerate/internal/core/model"
	"linerate/internal/core/mtu"
	"linerate/internal/core/probe"
	"linerate/internal/core/traffic/packets"
	"linerate/internal/panics"
)

// wayTime bounds the search for the largest packet of a direction.
const wayTime = 6 * time.Second

// betweenTime bounds the same search by datagrams between the agents.
const betweenTime = 8 * time.Second

// errNothing reports a run without a result.
var errNothing = errors.New("nothing was tried")

// ways probes from both ends at once how large packets to the other one may be.
func ways(ctx context.Context, e *target.Ends) []model.Way {
	out := []model.Way{{Direction: model.To}, {Direction: model.From}}
	var both panics.Group
	for i := range out {
		both.Go(func() { out[i] = way(ctx, e, out[i].Direction) })
	}
	both.Wait()
	return out
}

func way(ctx context.Context, e *target.Ends, d model.Direction) model.Way {
	w := model.Way{Direction: d}
	unseen := func(why string) model.Way {
		w.Passes = fact.Unknown[int](why)
		return w
	}
	c := e.Client(d.Sender())
	if c == nil {
		return unseen("not visible: " + e.Foreign() + " does not probe")
	}
	from, to, egress := e.Hosts[0], e.Hosts[1], e.Path().Egress
	if d == model.From {
		from, to, egress = to, from, egress.MarkOnly()
	}
	size := from.LargestPacket()
	if size == 0 || to.Address == "" {
		return unseen("not visible: the interface or the address of an end is not known")
	}
	w.Asked = min(size, mtu.Most)
	target := probe.PathFrom(egress, to.Address, w.Asked)
	got, err := c.Probe(ctx, []string{target}, wayTime, 0)
	if err != nil {
		return unseen("not visible: " + err.Error())
	}
	return wayOf(w, got, target)
}

// wayOf fills in the probe results of target.
func wayOf(w model.Way, got []probe.Result, target string) model.Way {
	p, ok := probe.PathOf(got, target)
	if !ok {
		w.Passes = fact.Unknown[int]("not visible: no answer")
		return w
	}
	w.Passes, w.Exact, w.Reported, w.Router, w.RouterMTU = fact.Known(p.Passes, "probes that must not be cut"), p.Exact, p.Reported, p.Router, p.MTU
	return w
}

// between has both agents probe packet sizes with datagrams to each other, one direction
// after the other.
func between(ctx context.Context, e *target.Ends, ways []model.Way) {
	for i := range ways {
		w := &ways[i]
		if e.Foreign() != "" {
			w.Datagrams = fact.Unknown[int]("not visible: " + e.Foreign() + " does not do that")
			continue
		}
		if w.Asked == 0 {
			w.Datagrams = fact.Unknown[int](w.Passes.Reason())
			continue
		}
		if err := datagrams(ctx, e, w); err != nil {
			w.Datagrams = fact.Unknown[int]("not visible: " + err.Error())
		}
	}
}

// datagrams fills in the largest datagram that passes between the agents in a direction.
func datagrams(ctx context.Context, e *target.Ends, w *model.Way) error {
	ctx, cancel := context.WithTimeout(ctx, betweenTime)
	defer cancel()
	run, err := trial.Packets(ctx, e, w.Direction, w.Asked)
	if err != nil {
		return err
	}
	passes, ok := run.Value(w.Direction, packets.Passes)
	if !ok {
		return errNothing
	}
	for _, end := range run.Ends {
		if end.Trace == nil {
			continue
		}
		if p, ok := locate.Narrow(*end.Trace); ok {
			w.Narrow = &p
		}
	}
	exact, _ := run.Value(w.Direction, packets.Exact)
	w.Datagrams, w.DatagramsExact = fact.Known(int(passes), "datagrams between the agents that must not be cut"), exact > 0
	if marks, reported := run.Value(w.Direction, packets.Marks); reported {
		w.Marks = fact.Known(marks, "datagrams between the agents, marked ECT(0)")
	}
	return nil
}
