package tcpbulk

import (
	"errors"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/measure/enginetest"
	"linerate/internal/rescue"
)

// bugged is a plane with a worker that has a bug.
type bugged struct{ plane }

func (b bugged) move(w *work) error {
	w.worker(func() { panic("boom") })
	return b.plane.move(w)
}

// TestBugInAWorker: the run ends at once, for the bug, at either end.
func TestBugInAWorker(t *testing.T) {
	for name, e := range everyPlane() {
		for _, sender := range []bool{true, false} {
			near, far := enginetest.Prepare(t, e, enginetest.NewWire(t), timed(model.To, 2))
			at := far
			if sender {
				at = near
			}
			own := at.Test.(*test)
			own.plane = bugged{own.plane}
			_ = enginetest.Conduct(t, near, far, model.To)
			if _, ok := errors.AsType[*rescue.Panic](at.Err); !ok {
				t.Errorf("%s, sender %t: %v", name, sender, at.Err)
			}
		}
	}
}
