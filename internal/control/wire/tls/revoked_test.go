package tls_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/control/wire/data"
	"linerate/internal/control/wire/tls"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/must"
)

// TestRevokedKeyIsTold: the holder of a key that is revoked during a run reads so, gets
// nothing more, and does not go on without a key on a server that lets everybody measure.
func TestRevokedKeyIsTold(t *testing.T) {
	over, ended := make(chan struct{}), make(chan error, 1)
	c := tls.Config{
		Open: true,
		Find: func(secret []byte) (tls.Key, bool) {
			select {
			case <-over:
				return tls.Key{}, false
			default:
				return tls.Key{Name: "ci", Over: over}, string(secret) == "secret of ci"
			}
		},
		Ended: func(_ tls.Visitor, _ time.Duration, err error) { ended <- err },
	}
	l := serve(t, c)
	l.Secret = "c2VjcmV0IG9mIGNp" // "secret of ci", base64url
	s := wiretest.Open(t, dial(t, l), model.Far)
	must.Get(s.Prepare(t.Context(), session.Preparation{Run: 1, Flow: wiretest.Flow(model.To), Token: data.Token{1}}))(t)
	for i := range wiretest.Flow(model.To).Streams {
		conn, _, err := data.Dial(t.Context(), l.Addr, data.Token{1}, i, engine.SocketOptions{})
		must.Do(t, err)
		defer func() { _ = conn.Close() }()
	}
	result := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		result <- s.Run(t.Context(), 1, func(e session.Event) {
			if e.Kind == session.Ready {
				close(ready)
			}
		})
	}()
	select {
	case <-ready:
	case err := <-result:
		t.Fatalf("the run ended before it was ready: %v", err)
	case <-time.After(time.Minute):
		t.Fatal("the run is not ready")
	}
	close(over)
	told := func(what string, err error) {
		t.Helper()
		must.Say(t, err, "the key was revoked or has expired", "%s", what)
	}
	told("the run", <-result)
	_, err := s.Prepare(t.Context(), session.Preparation{Run: 2, Flow: wiretest.Flow(model.To), Token: data.Token{2}})
	told("another run", err)
	_, err = s.Facts(t.Context(), "")
	told("facts", err)
	must.Is(t, <-ended, tls.ErrKeyOver, "the session ended with")
	if _, err := open(t, l); !errors.Is(err, session.ErrRefused) || !strings.Contains(err.Error(), "its key was revoked") {
		t.Errorf("the same secret again, on an open server: %v", err)
	}
	l.Secret = ""
	wiretest.Open(t, dial(t, l), model.Far) // without a key everybody may
}
