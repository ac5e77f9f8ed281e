// Package claims holds the benchmarks: linerate's claims, and how each is compared with the
// best C program for the same task.
package claims

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"linerate/bench/internal/results"
	"linerate/bench/internal/stand"
)

// Claim is one benchmark.
type Claim struct {
	Name string
	Run  func(ctx context.Context, b *Bench) (results.Section, error)
}

// All returns the claims in the order of the document.
func All() []Claim {
	return []Claim{
		{"tcp", runTCP}, {"udp", runUDP}, {"pacing", runPacing},
		{"latency", runLatency}, {"sweep", runSweep}, {"sampling", runSampling},
	}
}

// Bench is the environment of every claim.
type Bench struct {
	Stand    *stand.Stand
	Self     string        // this program, which also plays linerate's side and the observer
	Work     string        // a folder for the programs' files
	Rounds   int           // 0 is each claim's default
	Duration time.Duration // of a run; 0 is each claim's default
	Quick    bool          // one short round, for a trial
	Talk     io.Writer     // progress
}

// rounds returns the number of rounds of a claim whose default is usual.
func (b *Bench) rounds(usual int) int {
	switch {
	case b.Rounds > 0:
		return b.Rounds
	case b.Quick:
		return 1
	}
	return usual
}

// duration returns the duration of a run whose default is usual. Quick runs take the shortest
// that all programs support.
func (b *Bench) duration(usual, quick time.Duration) time.Duration {
	switch {
	case b.Duration > 0:
		return b.Duration
	case b.Quick:
		return quick
	}
	return usual
}

// say reports progress.
func (b *Bench) say(format string, args ...any) { fmt.Fprintf(b.Talk, format+"\n", args...) }

// table returns a Markdown table.
func table(head []string, rows [][]string) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(head)
	fmt.Fprintf(&b, "|%s\n", strings.Repeat("---|", len(head)))
	for _, r := range rows {
		line(r)
	}
	return b.String()
}

// list returns a Markdown list.
func list(items ...string) string {
	var b strings.Builder
	for _, i := range items {
		fmt.Fprintf(&b, "- %s\n", i)
	}
	return b.String() + "\n"
}

// kibi prints a block size.
func kibi(n int) string { return fmt.Sprintf("%d KiB", n>>10) }

// streams formats a number of streams.
func streams(n int) string {
	if n == 1 {
		return "1 stream"
	}
	return fmt.Sprintf("%d streams", n)
}
