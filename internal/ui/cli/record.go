package cli

import (
	"context"
	"sync"

	"linerate/internal/core/model"
)

// recordsWaiting is how many results of foreign clients may wait to be written, and recordsKept
// how many are kept: the newest. The server's ledger limits how many arrive.
const (
	recordsWaiting = 64
	recordsKept    = 1000
)

// recordsFile is the database of a server that gave up root, in the server's folder: it can
// reach no other.
const recordsFile = "results.db"

// pruner is a store that can remove old sessions.
type pruner interface {
	KeepNewest(ctx context.Context, kind model.Kind, keep int) error
}

// recorder stores what clients of other programs measured with this server. It writes while
// tests run, and drops results that arrive too fast.
type recorder struct {
	queue chan model.Session
	done  sync.WaitGroup
}

// record opens the results. If it cannot, it reports that once and returns nil. The caller calls
// close after the last session.
func (a *console) record(ctx context.Context, path string) *recorder {
	st, err := openStoreAt(ctx, path)
	if err != nil {
		a.talk("what clients of other programs measure is not kept: %v", err)
		return nil
	}
	r := &recorder{queue: make(chan model.Session, recordsWaiting)}
	ctx = context.WithoutCancel(ctx) // finished sessions are written even when the server ends
	r.done.Go(func() {
		defer func() { _ = st.Close() }()
		warned := false
		for s := range r.queue {
			err := st.CreateSession(ctx, s)
			if p, ok := st.(pruner); ok && err == nil {
				err = p.KeepNewest(ctx, model.KindServed, recordsKept)
			}
			if err != nil && !warned {
				warned = true
				a.talk("a result of a client is not kept: %v", err)
			}
		}
	})
	return r
}

// keep queues a session to write. r may be nil.
func (r *recorder) keep(s model.Session) {
	if r == nil {
		return
	}
	select {
	case r.queue <- s:
	default:
	}
}

// close writes the queued sessions. r may be nil.
func (r *recorder) close() {
	if r != nil {
		close(r.queue)
		r.done.Wait()
	}
}
