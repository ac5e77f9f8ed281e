package reporttest

import (
	"time"

	"linerate/internal/core/bottleneck"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
)

// CopySession returns a session of kind copy from desk to nas whose settings had these rates in
// bit/s, in so many blocks. Settings without a rate did not run.
func CopySession(blocks int, rates map[string]float64) model.Session {
	p, err := bottleneck.Plan(bottleneck.PlanOptions{
		Source: "disk", Sink: "/srv/share", Blocks: blocks, Seed: 1,
		Flow: model.Flow{Engine: "filecopy", Direction: model.To, Bytes: 256 << 20, Params: traffic.Write(files.Params{Sync: true})},
	})
	if err != nil {
		panic(err) // the options are constants
	}
	s := base("20261121T050000-c3p0", model.KindCopy, p)
	for b, order := range p.Order {
		for i, name := range order {
			if rates[name] == 0 {
				continue
			}
			s.Runs = append(s.Runs, copyRun(len(s.Runs)+1, b+1, i+1, name, rates[name]*(1+noise(3*b+i))))
		}
	}
	return s
}

// copyRun returns one valid run of a setting.
func copyRun(n, block, position int, setting string, rate float64) model.Run {
	at := began().Add(time.Duration(n) * 30 * time.Second)
	const size = units.Bytes(256 << 20)
	window := time.Duration(float64(size) * 8 / rate * 1e9)
	host, how := model.Far, "sink: file on ext4 in /srv/share, received and written in blocks, flushed within the time"
	if setting == bottleneck.Read || setting == bottleneck.Memory {
		host, how = model.Near, "source: file on ext4 in /home/u/.cache, page cache emptied before"
	}
	return model.Run{
		Number: n, Block: block, Attempt: 1, Position: position, Setting: setting, Started: at, Ended: at.Add(20 * time.Second),
		State: model.RunValid, Values: []model.Value{{Direction: model.To, Metric: model.Goodput, Value: rate}},
		Ends: []model.EndReport{{
			Host: host, CPUUser: window / 20, CPUSystem: window / 5, CPUWindow: window, Waiting: how, SystemBusy: fact.Known(0.4, "procfs"),
			Flows: []model.FlowReport{{Direction: model.To, Role: model.Receiver, Bytes: size, Window: window}},
		}},
	}
}
