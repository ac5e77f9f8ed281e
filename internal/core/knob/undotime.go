package knob

import (
	"time"

	"linerate/internal/core/model"
)

// MaxUndoTime bounds what UndoTime returns.
const MaxUndoTime = 15 * time.Minute

const (
	undoBase = 30 * time.Second // a machine that is busy, a driver that is for some seconds, the journal on a slow disk
	undoOne  = time.Second
	// undoBounce is for a driver that resets its link, which is a stall of 1 to 10 s
	// (EffectBounce), and undoReinit for one that starts its card anew.
	undoBounce = 15 * time.Second
	undoReinit = 30 * time.Second
)

// UndoTime is how long taking back settings may take, by their number and kind: the
// one budget of an undo, which controller, agent and watchdog wait for. A setting
// that is not known counts as one that bounces its link.
func UndoTime(ids ...model.KnobID) time.Duration {
	all := undoBase
	for _, id := range ids {
		k, known := ByID(id)
		switch {
		case !known, k.Effect == EffectBounce:
			all += undoBounce
		case k.Effect == EffectReinit:
			all += undoReinit
		default:
			all += undoOne
		}
	}
	return min(all, MaxUndoTime)
}
