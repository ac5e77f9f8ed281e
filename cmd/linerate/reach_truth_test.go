//go:build truth && linux

package main

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/control/wire/ssh/sshtest"
	"linerate/internal/must"
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

// TestTruthOfTheFirstSentence: where the far host is behind 10 Mbit/s and has nothing but
// ssh, the first sentence about the path comes within 10 s: the copy is small.
func TestTruthOfTheFirstSentence(t *testing.T) {
	needRoot(t)
	n := routed(t)
	for _, end := range []string{"va", "vb"} {
		ip(t, "netns", "exec", n.m, "tc", "qdisc", "add", "dev", end, "root", "tbf", "rate", "10mbit", "burst", "16kb", "latency", "50ms")
	}
	s := sshtest.Start(t, sshtest.Options{Namespace: n.far, HostName: farAddr, Listener: listenIn(t, n.far), Env: map[string]string{"LINERATE_STATE": n.state("far")}})
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		cmd := withSSH(n.inside(try, "near", "test", "root@far", "--to", "-t", "1s", "--idle", "0s"), s)
		first := make(chan time.Duration, 1)
		began := time.Now()
		told := once(func() { first <- time.Since(began) })
		cmd.Stdout = &told
		must.Do(try, cmd.Run())
		try.Claim("first sentence", (<-first).Seconds(), 0, 10, "s")
	})
}

// once calls itself at the first write.
type once func()

// Write implements io.Writer.
func (f *once) Write(b []byte) (int, error) {
	if *f != nil {
		(*f)()
		*f = nil
	}
	return len(b), nil
}
