package runner

import (
	"strings"
	"testing"
	"testing/synctest"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestLastWordsAreHeard: what the end that is left counted is told each time, also where
// the wait for the one that is lost, which comes first, takes all the time there is.
func TestLastWordsAreHeard(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			lost := &end{client: &session.Client{}, done: make(chan struct{})}
			left := &end{client: &session.Client{}, done: make(chan struct{}), report: model.EndReport{Host: model.Near, Counters: []model.Counter{
				{Name: "counters_read", Of: "nic", Value: 1}, {Name: "nic_carrier_down", Of: "eth0", Value: 1},
			}}}
			close(left.done)
			err := cutOff(t.Context(), ErrContact, []*end{lost, left})
			must.Need(t, strings.Contains(err.Error(), "the link was lost once"), "%v", err)
		})
	}
}
