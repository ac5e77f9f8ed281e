package agent_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"linerate/internal/control/agent/agenttest"
	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

// keeper is a Keeper that knows one transaction.
type keeper struct {
	asked  []string
	broken error // of Revert, which undoes one change before it
}

func (*keeper) Pending() string { return "one" }

func (k *keeper) Confirm(_ context.Context, id string) error {
	k.asked = append(k.asked, id)
	if id != "one" {
		return fmt.Errorf("%s: %w", id, session.ErrState)
	}
	return nil
}

func (k *keeper) Revert(_ context.Context, id string) ([]model.Change, error) {
	k.asked = append(k.asked, "revert"+id)
	return []model.Change{{Knob: "link.mtu", Old: "1500", New: "9000", State: model.ChangeUndone}}, k.broken
}

func TestKeeping(t *testing.T) {
	c := agenttest.Config(agenttest.NewKnobs(model.Far, agenttest.Values()))
	k := &keeper{}
	c.Keeper = k
	c.Origins = func(_ context.Context, ids []model.KnobID) (map[model.KnobID]model.FileLine, error) {
		return map[model.KnobID]model.FileLine{ids[0]: {File: "/etc/x", Number: 3, Text: "9"}}, nil
	}
	s, _, _ := far(t, c)
	ctx := t.Context()
	if id, err := s.Pending(ctx); id != "" || err != nil {
		t.Errorf("before Apply: %q, %v", id, err)
	}
	must.Get(s.Apply(ctx, []model.Assignment{{Host: model.Far, Knob: "link.mtu", Value: "9000"}}, time.Minute))(t)
	if id, err := s.Pending(ctx); id != "one" || err != nil {
		t.Errorf("after Apply: %q, %v", id, err)
	}
	must.OK(t, s.Confirm(ctx, "one"))
	must.Is(t, s.Confirm(ctx, "two"), session.ErrState, "Confirm of what is gone")
	for _, id := range []string{"", strings.Repeat("x", 200), "a\x00"} {
		must.Is(t, s.Confirm(ctx, id), session.ErrInvalid, "Confirm of %.5q", id)
		if id == "" {
			continue // all of it
		}
		must.Is(t, must.Err(s.Revert(ctx, id)), session.ErrInvalid, "Revert of %.5q", id)
	}
	if changes, err := s.Revert(ctx, ""); len(changes) != 1 || changes[0].Host != model.Far || changes[0].Knob != "link.mtu" || err != nil {
		t.Errorf("Revert = %+v, %v", changes, err)
	}
	k.broken = errors.New("the journal's disk is full")
	changes, err := s.Revert(ctx, "one")
	must.True(t, len(changes) == 1 && err != nil && strings.HasSuffix(err.Error(), k.broken.Error()),
		"Revert that ends half way = %+v, %v: want what was undone, and why not all", changes, err)
	must.Equal(t, strings.Join(k.asked, " "), "one two revert revertone", "the keeper was asked %q", k.asked)
	if found, err := s.Origins(ctx, []model.KnobID{"tcp.sack"}); len(found) != 1 || found["tcp.sack"] != (model.FileLine{File: "/etc/x", Number: 3, Text: "9"}) || err != nil {
		t.Errorf("Origins = %+v, %v", found, err)
	}
}

func TestProbe(t *testing.T) {
	s, _, _ := far(t, agenttest.Config(agenttest.NewKnobs(model.Far, agenttest.Values())))
	ctx := t.Context()
	got := must.Get(s.Probe(ctx, []string{"127.0.0.1", "127.0.0.1:1"}, time.Second, 0))(t)
	must.True(t, len(got) == 3 && got[0].OK && got[1].OK && got[1].Full && !got[2].OK && got[2].Target == "127.0.0.1:1", "Probe = %+v", got)
	for _, bad := range [][]string{nil, {"a b"}, {"gopher://x"}, make([]string, 17)} {
		must.Is(t, must.Err(s.Probe(ctx, bad, time.Second, 0)), session.ErrInvalid, "Probe of %q", bad)
	}
	must.Is(t, must.Err(s.Probe(ctx, []string{"127.0.0.1"}, time.Hour, 0)), session.ErrInvalid, "Probe for an hour")
}

// TestOnlyMeasuring: who may only measure neither keeps nor has this host talk to
// others.
func TestOnlyMeasuring(t *testing.T) {
	c := agenttest.Config(nil)
	c.Keeper = &keeper{}
	s, _, _ := far(t, c)
	ctx := t.Context()
	_, pending := s.Pending(ctx)
	_, revert := s.Revert(ctx, "")
	_, probe := s.Probe(ctx, []string{"127.0.0.1"}, time.Second, 0)
	for name, err := range map[string]error{"pending": pending, "confirm": s.Confirm(ctx, "one"), "revert": revert, "probe": probe} {
		must.Is(t, err, session.ErrRefused, "%s", name)
	}
	must.Is(t, must.Err(s.Origins(ctx, []model.KnobID{"tcp.sack"})), errors.ErrUnsupported, "origins")
	s2, _, _ := far(t, agenttest.Config(agenttest.NewKnobs(model.Far, agenttest.Values())))
	must.Is(t, s2.Confirm(ctx, "one"), errors.ErrUnsupported, "without a keeper")
}
