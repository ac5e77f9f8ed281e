package cli

import (
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"linerate/internal/app/serve"
	"linerate/internal/core/units"
)

// registerLimits adds the flags that limit a server's resources.
func registerLimits(fl *pflag.FlagSet, l *serve.Limits) {
	fl.StringVar(&l.All, "limit", "", "what the server gives away, as KEY=VALUE,...: sessions, descriptors, memory, disk, udp, egress, time, records; the last three count by the day, or with /hour by the hour (default: by what is free)")
	fl.StringVar(&l.Anonymous, "limit-anonymous", "", "the share of that for all clients without a key together, in the same form")
	fl.StringVar(&l.Source, "limit-source", "", "the share of one address (IPv6: a /64) without a key, in the same form; also lifetime, of a session")
}

// budgetLine is one kind of resource in the document and in the text at a server's start.
type budgetLine struct {
	Kind         string `json:"kind"`
	Unit         string `json:"unit"`
	Limit        *int64 `json:"limit"`
	AllAnonymous *int64 `json:"anonymous"`
	Source       *int64 `json:"source"`
}

// budgetDoc lists a server's resources, in linerate/serve/v1.
type budgetDoc struct {
	Window   time.Duration `json:"window_ns"`
	Lifetime time.Duration `json:"lifetime_ns"`
	Limits   []budgetLine  `json:"limits"`
}

// budgetWords name a kind of resource: the unit in documents, the words after a granted amount,
// in a table, and after a used amount ("" if it is not shown).
type budgetWords struct {
	unit, after, name, now string
	counted                bool // over a time window
}

func kindWords(k serve.Kind) budgetWords {
	name := k.String()
	switch k {
	case serve.Memory, serve.Disk:
		return budgetWords{"bytes", "of " + name, name, name, false}
	case serve.Egress:
		return budgetWords{"bytes", "sent", "sent", "sent", true}
	case serve.UDP:
		return budgetWords{"bits_per_second", "of UDP", "UDP", "UDP", false}
	case serve.Time:
		return budgetWords{"nanoseconds", "of runs", "runs", "", true}
	case serve.Records:
		return budgetWords{name, "results kept", "results kept", "", true}
	case serve.Sessions, serve.Descriptors:
	}
	return budgetWords{name, name, name, "", false}
}

func (w budgetWords) given(amount string, window time.Duration) string {
	return amount + " " + w.over(w.after, window)
}

// over adds the time window of a kind.
func (w budgetWords) over(text string, window time.Duration) string {
	if w.counted {
		text += " in " + units.FormatDuration(window)
	}
	return text
}

// describeBudget returns the document of a budget.
func describeBudget(u serve.Usage) budgetDoc {
	known := func(n int64) *int64 {
		if n < 0 {
			return nil
		}
		return &n
	}
	d := budgetDoc{Window: u.Window, Lifetime: u.Lifetime, Limits: []budgetLine{}}
	for _, k := range u.Kinds {
		d.Limits = append(d.Limits, budgetLine{k.Kind.String(), kindWords(k.Kind).unit, known(k.Limit), known(k.AllAnonymous), known(k.Source)})
	}
	return d
}

// printBudget prints the limits to stderr.
func (a *console) printBudget(u serve.Usage) {
	line := func(of func(serve.KindUsage) int64) string {
		var parts []string
		for _, k := range u.Kinds {
			if n := of(k); n >= 0 {
				parts = append(parts, kindWords(k.Kind).given(amount(k.Kind, n), u.Window))
			}
		}
		return strings.Join(slices.Compact(parts), ", ")
	}
	a.talk("gives away %s", line(func(k serve.KindUsage) int64 { return k.Limit }))
	if sessions := u.Kinds[serve.Sessions]; sessions.AllAnonymous == 0 {
		a.talk("  to all without a key: nothing")
		return
	}
	a.talk("  to all without a key: %s", line(func(k serve.KindUsage) int64 { return k.AllAnonymous }))
	text := line(func(k serve.KindUsage) int64 { return k.Source })
	if u.Lifetime > 0 {
		text += ", a session lasts " + units.FormatDuration(u.Lifetime)
	}
	a.talk("  to one address without a key: %s", text)
	run := serve.AnonymousRun()
	a.talk("  to one run without a key: %s, %d streams, %s of UDP in each direction; no option raises that, a key does (linerate serve key)", units.FormatDuration(run.Time), run.Streams, run.UDP)
}
