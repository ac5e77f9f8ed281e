package session

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"

	"linerate/internal/control/session/sessionpb"
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

	c = olderThan(t, sessionpbconnect.UnimplementedSettingsServiceHandler{})
	_, err = c.Keep(t.Context(), Keep{Settings: []model.Assignment{{Knob: "tcp.sack", Value: "1"}}})
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}

// olderThan is a client of an agent whose part for settings is that.
func olderThan(t *testing.T, settings sessionpbconnect.SettingsServiceHandler) *Client {
	t.Helper()
	a := &adapter{service: stub{}, version: "v-agent", timeouts: short(), hangUp: func(time.Duration) {}}
	mux := http.NewServeMux()
	mux.Handle(sessionpbconnect.NewSessionServiceHandler(a))
	mux.Handle(sessionpbconnect.NewSettingsServiceHandler(settings))
	near, far := net.Pipe()
	go func() {
		if _, _, err := a.greeted(t.Context(), far); err != nil {
			return
		}
		_ = serveHTTP(context.WithoutCancel(t.Context()), track(far), mux, short().orDefaults())
	}()
	t.Cleanup(func() { _ = near.Close() })
	return mustOpen(t, near)
}

// beforeRenew is an agent that does not know of renewing: it takes it for a dry run of no
// settings. As they were released, such agents refuse that; others might do it.
type beforeRenew struct {
	sessionpbconnect.UnimplementedSettingsServiceHandler
	refuses bool
}

func (a beforeRenew) Keep(_ context.Context, p *sessionpb.KeepRequest) (*sessionpb.KeepResponse, error) {
	var c check
	if decodeAssignments(&c, p.GetSettings(), model.Near); a.refuses {
		return nil, connect.NewError(connect.CodeInvalidArgument, c.err)
	}
	return encodeKeeping(Keeping{Format: model.FormatLinuxSysctl}, model.Near), nil
}

// TestRenewOlderAgent asks agents to renew a proof that lack only that: they are told to be
// older, whatever they make of it.
func TestRenewOlderAgent(t *testing.T) {
	for _, refuses := range []bool{true, false} {
		c := olderThan(t, beforeRenew{refuses: refuses})
		olderSays(t, c.Renew(t.Context(), "000001", "proof"))
	}
}

func olderSays(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, errors.ErrUnsupported) || errors.Is(err, ErrLost) || !strings.Contains(err.Error(), "the linerate over there (v-agent) is older than this one (v-controller)") {
		t.Errorf("%v", err)
	}
}
