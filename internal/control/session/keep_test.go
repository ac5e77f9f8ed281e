package session

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/session/sessionpb/sessionpbconnect"
	"linerate/internal/core/model"
)

// TestOlderAgent asks an agent that lacks the whole service, and one that lacks
// the calls for files: both are told to be older.
func TestOlderAgent(t *testing.T) {
	conn, _ := serving(t, stub{}, short())
	c := mustOpen(t, conn)
	_, err := c.Kept(t.Context())
	olderSays(t, err)

	a := &adapter{service: stub{}, version: "v-agent", timeouts: short(), hangUp: func(time.Duration) {}}
	mux := http.NewServeMux()
	mux.Handle(sessionpbconnect.NewSessionServiceHandler(a))
	mux.Handle(sessionpbconnect.NewSettingsServiceHandler(sessionpbconnect.UnimplementedSettingsServiceHandler{}))
	near, far := net.Pipe()
	go func() {
		if _, err := a.greeted(t.Context(), far); err != nil {
			return
		}
		_ = serveHTTP(context.WithoutCancel(t.Context()), track(far), mux, short().orDefaults())
	}()
	t.Cleanup(func() { _ = near.Close() })
	c = mustOpen(t, near)
	_, err = c.Keep(t.Context(), Keep{Settings: []model.Assignment{{Knob: "tcp.sack", Value: "1"}}})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

func olderSays(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "the linerate over there (v-agent) is older than this one (v-controller)") {
		t.Errorf("%v", err)
	}
}
