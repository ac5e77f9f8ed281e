package cli

import (
	"context"
	"sync"

	"linerate/internal/core/model"
)

// How much of what clients of other programs measured waits to be written, and how
// many of them are kept: the newest. How many come is bounded by the server's ledger.
const (
	recordsWaiting = 64
	recordsKept    = 1000
)

// recordsFile is where a server that gave up root keeps them, in its own folder: it
// can reach no other.
const recordsFile = "results.db"

// pruner is a store that forgets.
type pruner interface {
	KeepNewest(ctx context.Context, kind model.Kind, keep int) error
}

// recorder keeps what clients of other programs measured with this server. It writes
// beside the tests, and drops what comes too fast.
type recorder struct {
	queue chan model.Session
	done  sync.WaitGroup
}

// record opens the results. Where there is no place for them it says so, once, and
// returns nil. Whoever calls it calls close, when nothing more comes.
func (a *console) record(ctx context.Context, path string) *recorder {
	st, err := openStoreAt(ctx, path)
	if err != nil {
		a.talk("what clients of other programs measure is not kept: %v", err)
		return nil
	}
	r := &recorder{queue: make(chan model.Session, recordsWaiting)}
	ctx = context.WithoutCancel(ctx) // what is over is written also when the server ends
	r.done.Go(func() {
		defer func() { _ = st.Close() }()
		told := false
		for s := range r.queue {
			err := st.CreateSession(ctx, s)
			if p, ok := st.(pruner); ok && err == nil {
				err = p.KeepNewest(ctx, model.KindServed, recordsKept)
			}
			if err != nil && !told {
				told = true
				a.talk("a result of a client is not kept: %v", err)
			}
		}
	})
	return r
}

// keep takes a session to write. r may be nil.
func (r *recorder) keep(s model.Session) {
	if r == nil {
		return
	}
	select {
	case r.queue <- s:
	default:
	}
}

// close writes what came. r may be nil.
func (r *recorder) close() {
	if r != nil {
		close(r.queue)
		r.done.Wait()
	}
}
