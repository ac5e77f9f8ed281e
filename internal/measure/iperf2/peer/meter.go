package peer

import (
	"cmp"
	"context"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/run"
	"linerate/internal/panics"
)

// meter starts to emit the samples of a direction of datagrams, whose counters count reads;
// stop ends that with the last interval.
func (u *udpClient) meter(d model.Direction, role model.Role, count func(*run.Reading)) (stop func()) {
	emit, end := u.sink.begin()
	p := part(d, role, u.flow, len(u.streams), count)
	p.Datagrams = true
	r := run.Run{Meter: run.Meter{Host: model.Near, Spec: p.Spec, Emit: emit}, Life: engine.NewLife(), Parts: []*run.Part{p}, Halt: func() {}}
	r.Launch()
	var running panics.Group
	running.Go(func() { r.Loop(context.Background()) })
	return func() {
		r.Stop()
		running.Wait()
		end()
	}
}

// part returns a direction of n streams at this end that another goroutine ends.
func part(d model.Direction, role model.Role, spec model.Flow, n int, count func(*run.Reading)) *run.Part {
	spec.Interval = cmp.Or(spec.Interval, time.Second)
	p := &run.Part{Direction: d, Role: role, Spec: spec, Count: count, Endless: true}
	p.Prepare(n)
	return p
}
