package main

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"linerate/internal/must"
)

// unwrapped joins lines with those that go on further in.
func unwrapped(text string) string {
	return regexp.MustCompile("\n {4,}").ReplaceAllString(text, " ")
}

// TestRecheckKept: what is kept on this machine stands as its fingerprint says, in
// recheck and in knobs: proven on another kernel, on this one, and not measured.
func TestRecheckKept(t *testing.T) {
	t.Parallel()
	_, r := keptHere(t, `
proven() {
cat > $W/$1.yaml <<END
profile: 2
hosts: [{role: near, knobs: {tcp.sack: off}}]
evidence:
  session: 20261121T130000-beef
  setting: off
  date: 2026-11-21
  fingerprint: {near.kernel: "$2"}
  verdicts: [{outcome: better, direction: to, metric: goodput, blocks: 6, estimate: 0.1, low: 0.05, high: 0.15, confidence: 0.95}]
END
linerate keep $W/$1.yaml --yes > /dev/null
code=0; linerate recheck --look || code=$?
echo $1 $code
linerate knobs --match tcp.sack
}
linerate recheck --look
proven old 2.6.9
linerate recheck --look --json > $W/json || true
code=0; linerate recheck || code=$?
echo measure $code
linerate undo --kept > /dev/null
proven same $(uname -r)
linerate undo --kept > /dev/null
linerate keep $W/tall.yaml --role receiver --yes > /dev/null
code=0; linerate recheck tcp.sack --look || code=$?
echo unmeasured $code`)
	kernel := must.Get(os.ReadFile("/proc/sys/kernel/osrelease"))(t)
	r.out = unwrapped(r.out)
	has(t, "stdout", r.out, "nothing is kept\n", ": unproven since kernel 2.6.9 -> "+strings.TrimSpace(string(kernel))+" at "+must.Get(os.Hostname())(t)+"\n", "old 8\n",
		"  proven on 2026-11-21 in session 20261121T130000-beef\n", "unproven since kernel 2.6.9 -> ", "measure 2\n", ": proven on 2026-11-21\n", "same 0\n",
		": unproven: not measured\n", "unmeasured 8\n")
	has(t, "stderr", r.err, "no note says to which host", "linerate recheck HOST")
	must.True(t, strings.Count(r.out, "unproven since kernel 2.6.9") == 2 && strings.Count(r.out, "proven on 2026-11-21") >= 3, "knobs does not say it too:\n%s", r.out)
}
