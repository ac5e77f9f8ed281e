//go:build truth && linux

package tls_test

import (
	"context"
	"testing"
	"time"

	"linerate/internal/control/wire/wiretest"
	"linerate/internal/core/model"
	"linerate/internal/truth"
)

// TestSoonWithoutDescriptors takes all descriptors of a server: a session's data connections
// still open within 2 s, with those of anonymous clients at its door. Without any of those, an
// anonymous client is turned away at once.
func TestSoonWithoutDescriptors(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		child := startChild(try)
		c := wiretest.Open(try, dial(try, child.link), model.Far)
		ctx, cancel := context.WithCancel(try.Context())
		defer silent(ctx, try, child.link.Addr, 300)()
		defer cancel()
		token := prepared(try, c)
		child.ask(try, "seize")
		began := time.Now()
		connect(try, child.link.Addr, token)
		try.Claim("four data connections", time.Since(began).Seconds(), 0, 2, "s")
	})
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		child := startChild(try)
		prepared(try, wiretest.Open(try, dial(try, child.link), model.Far))
		child.ask(try, "seize")
		try.Claim("turned away after", turnedAway(try, child).Seconds(), 0, 1, "s")
	})
}
