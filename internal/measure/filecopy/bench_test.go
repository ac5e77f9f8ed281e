package filecopy

import (
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/measure/enginetest"
)

func BenchmarkCopy(b *testing.B) {
	for name, c := range map[string]model.Copy{
		"network":        {Mode: model.CopyNetwork},
		"memory":         {Mode: model.CopyMemory},
		"memory-memory":  {},
		"memory-plain":   {Plain: true},
		"disk-memory":    {Source: "disk"},
		"disk-disk":      {Source: "disk", Sink: "disk"},
		"disk-disk-sync": {Source: "disk", Sink: "disk", Sync: true},
		"direct":         {Source: "disk", Sink: "disk", Direct: true},
		"read":           {Mode: model.CopyRead, Source: "disk"},
		"read-direct":    {Mode: model.CopyRead, Source: "disk", Direct: true},
		"write":          {Mode: model.CopyWrite, Sink: "disk", Sync: true},
	} {
		b.Run(name, func(b *testing.B) {
			h := newHome(b)
			for b.Loop() {
				near, far := enginetest.Prepare(b, h.Engine, enginetest.NewWire(b), model.Flow{Direction: model.To, Bytes: 256 << 20, Copy: &c})
				enginetest.Succeed(b, near, far, model.To)
				r := far.Report
				if c.Mode == model.CopyRead || c.Mode == model.CopyMemory {
					r = near.Report
				}
				b.ReportMetric(float64(r.Flows[0].Bytes)*8/r.Flows[0].Window.Seconds()/1e9, "Gbit/s")
				b.Log(near.Report.Waiting, "|", far.Report.Waiting, near.Report.Warnings, far.Report.Warnings)
			}
		})
	}
}
