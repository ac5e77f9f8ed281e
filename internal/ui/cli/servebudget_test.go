package cli

import (
	"bytes"
	"testing"

	"linerate/internal/measure/budget"
	"linerate/internal/must"
)

// TestFixedLimitIsNamed: a server whose --limit-source gives one address more than a run
// without a key ever gets says at its start that no option raises the latter.
func TestFixedLimitIsNamed(t *testing.T) {
	b := budget.New(budget.Config{
		Server: budget.Limits{Sessions: 8}, AllAnonymous: budget.Limits{Sessions: 4, UDP: 2e9},
		Anonymous: budget.Part{Source: budget.Limits{UDP: 1e9}},
	})
	var out bytes.Buffer
	(&console{Env: Env{Err: &out}}).printBudget(b.Usage())
	must.Contain(t, out.String(), "to one address without a key: 1 Gbit/s of UDP")
	must.Contain(t, out.String(), "to one run without a key: 1 min, 16 streams, 100 Mbit/s of UDP in each direction; no option raises that")
}
