package serve

import (
	"context"
	"math"
	"runtime/debug"
	"time"

	"linerate/internal/measure/budget"
)

const (
	// besideBudget is what a server may hold besides its budget: connections, stacks and
	// garbage. With the share of all anonymous clients it keeps a server under attack below
	// 300 MB.
	besideBudget = int64(104 << 20)
	// memoryStep is the least change of the limit that is worth the short stop of the
	// runtime.
	memoryStep = int64(8 << 20)
	// memoryEvery is how often to check the budget.
	memoryEvery = 250 * time.Millisecond
)

// memoryLimit returns what the runtime may hold at this usage of the budget. It adds what key
// holders use as it is, since that may be anything.
func memoryLimit(u budget.Usage) int64 {
	limit := besideBudget
	for _, k := range u.Kinds {
		if k.Kind != budget.Memory {
			continue
		}
		if k.AllAnonymous >= 0 {
			limit += k.AllAnonymous
		} else {
			limit += k.Anonymous
		}
		limit += k.Keyed
	}
	return limit
}

// holdMemory keeps the runtime's memory near the budget until ctx ends. Runs hold off garbage
// collections (package goruntime), so without a limit the garbage of bad clients would grow by
// goruntime.MaxGrowth during every measurement.
func holdMemory(ctx context.Context, b *budget.Budget) {
	tick := time.NewTicker(memoryEvery)
	defer tick.Stop()
	now := int64(math.MaxInt64)
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	for {
		if want := memoryLimit(b.Usage()); want > now || now-want >= memoryStep {
			now = want
			debug.SetMemoryLimit(now)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
