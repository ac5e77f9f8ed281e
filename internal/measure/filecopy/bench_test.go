package filecopy

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/measure/enginetest"
)

func BenchmarkCopy(b *testing.B) {
	for name, c := range map[string]files.Params{
		"network":        {Mode: files.Network},
		"memory":         {Mode: files.Memory},
		"memory-memory":  {},
		"memory-plain":   {Plain: true},
		"disk-memory":    {Source: "disk"},
		"disk-disk":      {Source: "disk", Sink: "disk"},
		"disk-disk-sync": {Source: "disk", Sink: "disk", Sync: true},
		"direct":         {Source: "disk", Sink: "disk", Direct: true},
		"read":           {Mode: files.Read, Source: "disk"},
		"read-direct":    {Mode: files.Read, Source: "disk", Direct: true},
		"write":          {Mode: files.Write, Sink: "disk", Sync: true},
	} {
		b.Run(name, func(b *testing.B) {
			h := newHome(b)
			for b.Loop() {
				near, far := enginetest.Prepare(b, h.Engine, enginetest.NewWire(b), model.Flow{Direction: model.To, Bytes: 256 << 20, Params: traffic.Write(c)})
				enginetest.Succeed(b, near, far, model.To)
				r := far.Report
				if c.Mode == files.Read || c.Mode == files.Memory {
					r = near.Report
				}
				b.ReportMetric(float64(r.Flows[0].Bytes)*8/r.Flows[0].Window.Seconds()/1e9, "Gbit/s")
				b.Log(near.Report.Waiting, "|", far.Report.Waiting, near.Report.Warnings, far.Report.Warnings)
			}
		})
	}
}
