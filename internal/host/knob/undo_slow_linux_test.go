//go:build linux && slow

package knob_test

// storyChecks is how many random stories TestUndoIsIdentity tells of each kind
// of interface.
const storyChecks = "1000"
