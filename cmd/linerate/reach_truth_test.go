//go:build truth && linux

package main

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/truth"
)

// TestTruthOfFilteredHosts demands of every command that measures, with nothing but ssh open
// at the far host, the answer within 6 s: what is filtered, and what helps.
func TestTruthOfFilteredHosts(t *testing.T) {
	needRoot(t)
	n := newNetns(t)
	s := n.overSSH(t)
	n.firewall(t, "far", "drop")
	for _, line := range []string{
		"test root@far", "test root@far --udp", "test root@far --bidir", "run root@far --factor tcp.sack=on,off --baseline on",
		"run root@far --udp --factor rate=4M,8M --baseline 4M", "sweep root@far", "copy root@far",
	} {
		t.Run(line, func(t *testing.T) {
			truth.Hold(t, truth.Tries, func(try *truth.Try) {
				began := time.Now()
				r := run(try, withSSH(n.inside(try, "near", strings.Fields(line)...), s))
				try.Claim("answer", time.Since(began).Seconds(), 0, 6, "s")
				sayFiltered(try, r)
			})
		})
	}
}
