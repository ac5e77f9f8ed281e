package knob_test

import (
	"testing"

	"linerate/internal/core/knob"
	"linerate/internal/must"
)

func BenchmarkByID(b *testing.B) {
	x := knob.NewIndex()
	for name, byID := range map[string]func() bool{
		"index": func() bool { _, ok := x.ByID("link.mtu"); return ok },
		"anew":  func() bool { _, ok := (*knob.Index)(nil).ByID("link.mtu"); return ok },
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				must.Need(b, byID(), "no link.mtu")
			}
		})
	}
	b.Run("building the index", func(b *testing.B) {
		for b.Loop() {
			knob.NewIndex()
		}
	})
}
