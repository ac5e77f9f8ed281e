package peer

import (
	"context"
	"net"
	"strings"
	"syscall"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/measure/enginetest"
	"linerate/internal/must"
)

// TestServerOutlivesAcceptErrors: accepting that fails costs time, not the server,
// and is told once.
func TestServerOutlivesAcceptErrors(t *testing.T) {
	e := newEvents()
	addr := serveOn(t, enginetest.Failing(listenHere(t), 5, syscall.EMFILE), ServerConfig{Event: e.add})
	for range 2 {
		_, _, err := (Client{}).Run(t.Context(), addr, model.Flow{Direction: model.To, Bytes: 1 << 20}, func([]model.Sample) {})
		must.True(t, err == nil, "%v", err)
	}
	told := 0
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.all {
		if strings.Contains(one.Note, "too many open files") {
			told++
		}
	}
	must.Equal(t, told, 1, "events %+v", e.all)
}

// TestServeEndsWhenItsListenerIsClosed by somebody else, and says so.
func TestServeEndsWhenItsListenerIsClosed(t *testing.T) {
	l := listenHere(t)
	_ = l.Close()
	must.Is(t, Serve(context.Background(), l, ServerConfig{}), net.ErrClosed)
}
