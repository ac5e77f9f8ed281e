//go:build slow && linux

package deploy_test

import "testing"

// rounds is how many agents start while another process swaps their programs.
const rounds = 20

// TestRootRunsWhatWasCheckedAtEveryMoment is TestRootRunsWhatWasChecked with more rounds.
func TestRootRunsWhatWasCheckedAtEveryMoment(t *testing.T) { TestRootRunsWhatWasChecked(t) }
