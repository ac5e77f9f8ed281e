package udpflow

import (
	"fmt"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/measure/run"
)

// progress moves the flow to its next state if its streams are ready.
func (f *flow) progress(at time.Duration) {
	switch {
	case f.State == run.Done || f.halted: // the function that halted it reports why
	case f.threadsOver():
		f.Finish(f.ending())
	case f.Role == model.Sender:
	case f.counted(at):
		if f.State < run.Winding {
			if f.early() {
				f.Finish("the peer ended it")
				return
			}
			f.Close()
		}
		f.State = run.Done
	case f.State == run.Winding && at-f.Shut.At > f.bounds.linger:
		if f.Prev.Datagrams == 0 && !f.heard() {
			f.Fault = fmt.Errorf("%s receiver: no datagram came: something on the way lets none through", f.Direction)
		}
		f.State = run.Done
	case f.State < run.Winding && f.quietFor(at) > f.bounds.silence:
		f.Finish(fmt.Sprintf("nothing came for %v", f.bounds.silence))
	}
}

func (f *flow) threadsOver() bool {
	for _, s := range f.out {
		if !s.over.Load() {
			return false
		}
	}
	return !slices.ContainsFunc(f.in, func(s *inbound) bool { return !s.over.Load() })
}

// counted reports whether the receiver has the counts of all streams, and all of their datagrams,
// or has waited long enough for late ones. Before the window is over that matters only if the
// sender ended early.
func (f *flow) counted(at time.Duration) bool {
	for _, s := range f.in {
		end := time.Duration(s.endAt.Load())
		switch {
		case end == 0:
			return false
		case f.State < run.Winding && f.Spec.Bytes == 0 && !s.early.Load():
			return false
		case !s.complete.Load() && at-max(end, f.Shut.At) < f.bounds.drain:
			return false
		}
	}
	return f.Role == model.Receiver
}

// early reports whether a sender ended early.
func (f *flow) early() bool {
	return slices.ContainsFunc(f.in, func(s *inbound) bool { return s.early.Load() })
}

// heard reports whether anything has ever arrived.
func (f *flow) heard() bool {
	return slices.ContainsFunc(f.in, func(s *inbound) bool { return s.heard.Load() != 0 })
}

// quietFor returns the time without a datagram on any stream.
func (f *flow) quietFor(at time.Duration) time.Duration {
	least := at
	for _, s := range f.in {
		least = min(least, s.quietFor())
	}
	return least
}

// ending returns why the streams ended, once all threads have ended.
func (f *flow) ending() string {
	for _, s := range f.out {
		if s.reason != nil {
			return s.reason.Error()
		}
	}
	for _, s := range f.in {
		if s.reason != nil {
			return s.reason.Error()
		}
	}
	return "stopped"
}
