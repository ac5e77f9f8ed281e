package watchdog

import (
	"context"
	"strconv"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// members plans the MTUs of the other interfaces that depend on c, the MTU of a bridge, a
// bond, a VLAN or of what these are built on: the steps before c, and those after it. An
// interface that an earlier setting of the transaction changed, and c does not, gets its old
// MTU back.
func (t *transaction) members(ctx context.Context, c model.Assignment) (before, after []step, err error) {
	_, p, err := t.m.host.Place(c.Knob)
	mtu, bad := strconv.Atoi(c.Value)
	if err != nil || bad != nil || c.Knob != "link.mtu" || p.Mechanism != knob.Link || t.m.sys.around == nil {
		return nil, nil, err
	}
	was := make(map[string]int)
	for _, h := range t.held {
		if old, err := strconv.Atoi(h.old); err == nil && h.place.Native == p.Native {
			was[h.place.Target] = old
		}
	}
	first, last, err := t.m.sys.around(p.Target, mtu, was)
	if err != nil {
		return nil, nil, &knob.Error{Op: "set", Knob: c.Knob, Place: p.String(), Err: err}
	}
	taken := make(map[string]bool)
	plan := func(steps *[]step, link string, mtu int) error {
		taken[link] = true
		host := t.m.host
		host.Interface = link
		_, h, err := t.hold(ctx, host, c.Knob)
		if err != nil {
			return err
		}
		h.member = true
		one, err := t.planOne(host, model.Assignment{Host: c.Host, Knob: c.Knob, Value: strconv.Itoa(mtu)})
		*steps = append(*steps, one)
		return err
	}
	for _, m := range first {
		if err := plan(&before, m.Link, m.MTU); err != nil {
			return nil, nil, err
		}
	}
	for _, m := range last {
		if err := plan(&after, m.Link, m.MTU); err != nil {
			return nil, nil, err
		}
	}
	for _, h := range t.held {
		if link := h.place.Target; h.member && !taken[link] {
			if err := plan(&after, link, was[link]); err != nil {
				return nil, nil, err
			}
		}
	}
	return before, after, nil
}
