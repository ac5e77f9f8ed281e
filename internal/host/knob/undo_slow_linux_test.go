//go:build linux && slow

package knob_test

// storyChecks is how many random stories TestUndoIsIdentity runs for each kind of interface.
const storyChecks = "1000"
