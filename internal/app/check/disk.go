package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/target"
	"linerate/internal/control/runner"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
)

const (
	// diskBytes is how much to move each way: enough to show what a disk does, and little
	// enough for a slow one.
	diskBytes units.Bytes = 32 << 20
	// diskTime bounds one measurement of a disk.
	diskTime = 30 * time.Second
)

// disks has each host write and read a file, without the network.
func disks(ctx context.Context, env app.Env, e *target.Ends) []model.Disk {
	var out []model.Disk
	for _, h := range []model.Host{model.Near, model.Far} {
		d := model.Disk{Host: h}
		if e.Client(h) == nil {
			d.Read = fact.Unknown[units.BitRate]("not visible: " + e.Foreign() + " does not do that")
			d.Write = d.Read
			out = append(out, d)
			continue
		}
		env.Observe(app.Looking{At: "the disk of " + e.Names().Of(h)})
		d.Write = disk(ctx, e, h, files.Params{Mode: files.Write, Sink: files.OnDisk, Direct: true, Sync: true})
		d.Read = disk(ctx, e, h, files.Params{Mode: files.Read, Source: files.OnDisk, Direct: true})
		out = append(out, d)
	}
	return out
}

// disk measures one half of a copy alone: the receiver of the direction writes, the sender
// reads.
func disk(ctx context.Context, e *target.Ends, h model.Host, p files.Params) fact.Of[units.BitRate] {
	ctx, cancel := context.WithTimeout(ctx, diskTime)
	defer cancel()
	d := model.From
	if (h == model.Far) == (p.Mode == files.Write) {
		d = model.To
	}
	run, _, err := e.Runner.Run(ctx, runner.Spec{
		Number: 1, Block: 1, Attempt: 1, Position: 1, Setting: model.Setting{Name: "disk"},
		Flow: model.Flow{Engine: files.Name, Direction: d, Bytes: diskBytes, Interval: time.Second, Params: traffic.Write(p)},
	}, nil)
	switch v, ok := run.Value(d, model.Goodput); {
	case errors.Is(err, context.DeadlineExceeded):
		return fact.Unknown[units.BitRate](fmt.Sprintf("not visible: %s took more than %s", diskBytes.Binary(), diskTime))
	case err != nil:
		return fact.Unknown[units.BitRate]("not visible: " + err.Error())
	case !ok:
		return fact.Unknown[units.BitRate]("not visible: nothing was moved")
	default:
		return fact.Known(units.BitRate(v), diskBytes.Binary()+" past the page cache")
	}
}
