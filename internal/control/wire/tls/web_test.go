package tls_test

import (
	"crypto/ecdsa"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/wire/tls"
	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestWeb: one port carries sessions and HTTPS. Both ends prove their keys: a client finds only
// the server of its pin, and the handler learns the pin of the client. Until the handler knows a
// client, that client can send a few KiB.
func TestWeb(t *testing.T) {
	agenttest.NoLeaks(t)
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "yes" {
			must.OK(t, tls.Admit(r))
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprintf(w, "%s %d %v", tls.PeerPin(r), n, err == nil)
	})
	l := serve(t, tls.Config{Web: handler})
	own := must.Get(tls.LoadKey(t.TempDir()))(t)
	var public *ecdsa.PublicKey
	post := func(l tls.Link, own tls.Identity, authorization string, bytes int) (string, error) {
		c := tls.Web(l, own, func(k *ecdsa.PublicKey) { public = k })
		defer c.CloseIdleConnections()
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://hub/x", strings.NewReader(strings.Repeat("x", bytes))))(t)
		r.Header.Set("Authorization", authorization)
		res, err := c.Do(r)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		b, err := io.ReadAll(res.Body)
		return string(b), err
	}
	must.Equal(t, must.Get(post(l, own, "yes", 1<<20))(t), own.Pin()+" 1048576 true", "a known client")
	must.True(t, public != nil, "the client does not learn the server's key")
	must.Equal(t, must.Get(post(l, tls.Identity{}, "", 100))(t), " 100 true", "an anonymous client")
	answer, err := post(l, tls.Identity{}, "", 1<<20)
	must.True(t, err != nil || !strings.Contains(answer, "1048576"), "an anonymous client sends a MiB: %s", answer)
	other := l
	other.Pin = own.Pin()
	must.Is(t, must.Err(post(other, own, "yes", 1)), tls.ErrPin, "another server")
	wiretest.Open(t, dial(t, l), model.Far) // and a session
}
