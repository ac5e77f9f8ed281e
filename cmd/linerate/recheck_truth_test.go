//go:build truth && linux

package main

import (
	"strings"
	"testing"

	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestRecheckRenews: a setting of a far host, reached by an agent of its own, is proven,
// kept there, and its MTU becomes another one: the fingerprint tells. A recheck measures
// that it is still better, and the host keeps that as its proof: the next look, and knobs
// on that host itself, compare with the fingerprint of today. An agent that runs under the
// name of the near host is told apart by its side, and the fingerprint tells the name.
func TestRecheckRenews(t *testing.T) {
	truth.Hold(t, truth.Tries, func(try *truth.Try) { recheckRenews(try) })
}

const recheckScript = `
say() { code=0; "$@" --db $DIR/r.db >$DIR/out 2>&1 || code=$?; gone; }
told() { sed "s/^/$1: /" $DIR/out; echo "$1 exits $code"; }
say $LR run --from "$near" "$far" --factor far.tcp.recv_buffer_max=32KiB,1MiB --baseline 32KiB --direction to -t 300ms --omit 300ms --settle 0s --blocks 10 -q
[ $code = 0 ] || told run
say $LR keep last "$far" --role receiver --yes; [ $code = 0 ] || told keep
say $LR recheck --from "$near" "$far" --look; told first
$there ip link set eth0 mtu 1400
say $LR recheck --from "$near" "$far" --look; told changed
say $LR recheck --from "$near" "$far" -q; told measured
say $LR recheck --from "$near" "$far" --look; told after
say $LR recheck --from "$near" "exec:10.99.0.2 ${there% --uts=*} $agent --state $DIR/b" --look; told namesake
LINERATE_STATE=$DIR/b $there $LR knobs --match tcp.recv_buffer_max | sed 's/^/knobs: /'
show end
`

func recheckRenews(t testing.TB) {
	r := run(t, pairInLab(t, "rate=50mbit,rtt=10ms", recheckScript))
	var text strings.Builder // lines joined with those that go on further in
	for line := range strings.Lines(r.out) {
		if phase, rest, _ := strings.Cut(line, ": "); strings.HasPrefix(rest, "    ") && phase != "knobs" {
			line = rest
		}
		text.WriteString(line)
	}
	out := strings.Join(strings.Fields(text.String()), " ")
	for _, want := range []string{
		"first: tcp.recv_buffer_max=1 MiB on 10.99.0.2: proven on ", "first exits 0", "unproven since MTU 1500 -> 1400 at 10.99.0.2", "changed exits 8",
		"measured: tcp.recv_buffer_max=1 MiB on 10.99.0.2: still better", "measured: its fingerprint is renewed", "measured exits 0",
		"after: tcp.recv_buffer_max=1 MiB on 10.99.0.2: proven on ", "after exits 0",
		"namesake: tcp.recv_buffer_max=1 MiB on 10.99.0.2: unproven since ", "namesake exits 8",
	} {
		must.Contain(t, out, want, "not said")
	}
	knobs := ""
	for line := range strings.Lines(r.out) {
		if strings.HasPrefix(line, "knobs: ") {
			knobs += line
		}
	}
	must.True(t, strings.Contains(knobs, "proven on ") && !strings.Contains(knobs, "unproven"), "knobs on that host: %q", knobs)
	must.Contain(t, r.out, "end: near 4194304 far 33554432", "a host is changed")
	if t.Failed() {
		t.Log(r.out + r.err)
	}
}
