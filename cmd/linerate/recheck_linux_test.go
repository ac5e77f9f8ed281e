package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// recheckDoc is the document of linerate recheck.
type recheckDoc struct {
	Settings []struct {
		Knob     string `json:"knob"`
		State    string `json:"state"`
		Text     string `json:"text"`
		Measured string `json:"measured"`
	} `json:"settings"`
}

// unwrapped joins lines with those that go on further in.
func unwrapped(text string) string {
	return regexp.MustCompile("\n {4,}").ReplaceAllString(text, " ")
}

// TestRecheckASession measures again in the lab what a session in the lab proved: it is
// still better, and the machine-readable form says the same.
func TestRecheckASession(t *testing.T) {
	t.Parallel()
	needLab(t)
	db := filepath.Join(t.TempDir(), "r.db")
	succeed(t, "run", "lab:rate=50mbit,rtt=10ms", "--factor", "far.tcp.recv_buffer_max=32KiB,1MiB", "--baseline", "32KiB", "--direction", "to", "--guard", "none",
		"-t", "300ms", "--omit", "300ms", "--settle", "0s", "--blocks", "10", "-q", "--db", db)
	look := succeed(t, "recheck", "last", "--look", "--db", db)
	has(t, "the look", unwrapped(look.out), "tcp.recv_buffer_max=1 MiB on far: proven on ", ", against 32 KiB; nothing that is known has changed since")
	r := succeed(t, "recheck", "last", "--json", "-q", "--db", db)
	if err := validate("linerate/recheck/v1", r.out); err != nil {
		t.Error(err)
	}
	if d := decode[recheckDoc](t, r.out); len(d.Settings) != 1 || d.Settings[0].State != "still better" || d.Settings[0].Measured == "" {
		t.Errorf("%+v", d)
	}
	if r := run(t, command(t, "recheck", "last~1", "last", "--db", db)); r.code != 2 || !strings.Contains(r.err, "one HOST or SESSION") {
		t.Errorf("two sessions: exit code %d\n%s", r.code, r.err)
	}
}

// TestRecheckKept: what is kept on this machine stands as its fingerprint says, in
// recheck and in knobs: proven on another kernel, on this one, and by nobody.
func TestRecheckKept(t *testing.T) {
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
echo nobody $code`)
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		t.Fatal(err)
	}
	r.out = unwrapped(r.out)
	has(t, "stdout", r.out, "nothing is kept\n", ": unproven since kernel 2.6.9 -> "+strings.TrimSpace(string(kernel))+" at the near end\n", "old 8\n",
		"  proven on 2026-11-21 in session 20261121T130000-beef\n", "unproven since kernel 2.6.9 -> ", "measure 2\n", ": proven on 2026-11-21\n", "same 0\n",
		": unproven: nobody measured it\n", "nobody 8\n")
	has(t, "stderr", r.err, "nobody noted to which host", "linerate recheck HOST")
	if strings.Count(r.out, "unproven since kernel 2.6.9") != 2 || strings.Count(r.out, "proven on 2026-11-21") < 3 {
		t.Errorf("knobs does not say it too:\n%s", r.out)
	}
}
