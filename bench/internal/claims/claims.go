// Package claims holds the benchmarks: what linerate claims, and how each claim
// is compared with the best C program that does the same.
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

// Bench is what every claim works with.
type Bench struct {
	Stand    *stand.Stand
	Self     string        // this program, which is also linerate's side and the observer
	Work     string        // a folder for files of the programs
	Rounds   int           // 0 is each claim's own number
	Duration time.Duration // of a run; 0 is each claim's own
	Quick    bool          // one short round, to try it out
	Talk     io.Writer     // progress
}

// rounds returns how many rounds a claim makes whose own number is usual.
func (b *Bench) rounds(usual int) int {
	switch {
	case b.Rounds > 0:
		return b.Rounds
	case b.Quick:
		return 1
	}
	return usual
}

// duration returns how long a run takes whose own time is usual. Quick ones take
// the shortest that all programs know.
func (b *Bench) duration(usual, quick time.Duration) time.Duration {
	switch {
	case b.Duration > 0:
		return b.Duration
	case b.Quick:
		return quick
	}
	return usual
}

// say tells of progress.
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

// streams counts them.
func streams(n int) string {
	if n == 1 {
		return "1 stream"
	}
	return fmt.Sprintf("%d streams", n)
}
