package serve

import (
	"context"
	"math"
	"runtime/debug"
	"time"

	"linerate/internal/measure/budget"
)

const (
	// besideBudget is what a server may hold beside what its budget gives away:
	// connections, stacks and garbage. With what all anonymous clients get together it keeps
	// a besieged server below 300 MB.
	besideBudget = int64(104 << 20)
	// memoryStep is the least change that is worth the moment for which the
	// runtime stops to be told.
	memoryStep = int64(8 << 20)
	// memoryEvery is how often the budget is looked at.
	memoryEvery = 250 * time.Millisecond
)

// memoryLimit is what the runtime may hold while the budget is used like this.
// What key holders took is added as it is, since it may be anything.
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

// holdMemory keeps the runtime's memory near what the budget gives away, until ctx
// ends. Runs hold garbage collections off (package quiet), so that without a limit
// what bad clients leave behind grows by quiet.MaxGrowth while anybody measures.
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
