//go:build slow

package main

import (
	"os"
	"testing"
	"time"

	"linerate/internal/must"
)

// hostileVar is how long the hostile suite takes; the default is ten minutes.
const hostileVar = "LINERATE_HOSTILE"

// hostileTime is the time of the suite.
func hostileTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(hostileVar)
	if text == "" {
		return 10 * time.Minute
	}
	return must.Get(time.ParseDuration(text))(t)
}

// TestAbuseHostile attacks a server with each attack of a crowd, one after the other and all at
// once, with a secret, which the greedy clients have, and open, in a cgroup of 512 MiB. make
// truth checks a friend's longest wait.
func TestAbuseHostile(t *testing.T) {
	needRoot(t)
	ways := append(attackNames(), "everything")
	servers := hostileServers()
	each := hostileTime(t) / time.Duration(len(servers)*(len(ways)+4)) // "everything" takes longer
	for name, args := range servers {
		t.Run(name, func(t *testing.T) {
			s := newSiege(t, smallMachine, args...)
			for _, way := range ways {
				d := max(each, 12*time.Second) // the longest timeout of silent clients is 10 s
				if way == "everything" {
					d = max(5*each, 12*time.Second)
				}
				s.under(t, way, d)
			}
			s.stillServes(t)
		})
	}
}
