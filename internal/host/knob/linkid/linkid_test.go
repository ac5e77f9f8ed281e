package linkid_test

import (
	"errors"
	"testing"

	"linerate/internal/host/knob/linkid"
	"linerate/internal/must"
)

func TestFind(t *testing.T) {
	card := linkid.ID{Name: "eth0", Index: 2, MAC: "02:00:00:00:00:01", Driver: "ixgbe", Bus: "0000:03:00.0"}
	pair := linkid.ID{Name: "veth0", Index: 7, Driver: "veth"}
	renamed, moved, other, twin, vf := card, card, card, card, card
	renamed.Name = "lan0"
	moved.Name, moved.Index, moved.Bus = "eth1", 5, "0000:04:00.0"
	other.MAC = "02:00:00:00:00:02"
	twin.Name, twin.Index, twin.Bus = "eth1", 3, "0000:03:00.1"
	vf.Driver = "ixgbevf"
	again, next := pair, pair
	again.Name = "lan1"
	next.Index = 9
	for name, c := range map[string]struct {
		id      linkid.ID
		links   []linkid.ID
		sameRun bool
		want    string
	}{
		"unchanged":                  {card, []linkid.ID{card}, true, "eth0"},
		"renamed":                    {card, []linkid.ID{renamed, pair}, true, "lan0"},
		"another slot after restart": {card, []linkid.ID{moved}, false, "eth1"},
		"another card":               {card, []linkid.ID{other}, true, ""},
		"another driver":             {card, []linkid.ID{vf}, true, ""},
		"ports with one MAC":         {card, []linkid.ID{twin, card}, false, "eth0"},
		"ports with one MAC, moved":  {card, []linkid.ID{twin, moved}, false, ""},
		"virtual, renamed":           {pair, []linkid.ID{card, again}, true, "lan1"},
		"virtual, made anew":         {pair, []linkid.ID{next}, true, ""},
		"virtual, after a restart":   {pair, []linkid.ID{pair}, false, ""},
		"index of another kind":      {pair, []linkid.ID{{Name: "veth0", Index: 7, Driver: "bridge"}}, true, ""},
		"index of a card now":        {pair, []linkid.ID{{Name: "veth0", Index: 7, MAC: card.MAC, Driver: "veth"}}, true, ""},
		"none":                       {card, nil, true, ""},
	} {
		got, err := c.id.Find(c.links, c.sameRun)
		must.True(t, got.Name == c.want && (err != nil) == (c.want == "") && (err == nil || errors.Is(err, linkid.ErrGone)),
			"%s: %q, %v, want %q", name, got.Name, err, c.want)
	}
}

// TestOf: Of finds each link in the list by its name.
func TestOf(t *testing.T) {
	links, err := linkid.All()
	must.SkipIf(t, err != nil || len(links) == 0, "no interfaces here: %v", err)
	got, err := linkid.Of(links[0].Name)
	must.True(t, err == nil && got == links[0], "Of = %+v, %v, want %+v", got, err, links[0])
}
