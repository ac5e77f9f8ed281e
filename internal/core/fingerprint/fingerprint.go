// Package fingerprint records the conditions under which a setting was proven: the two hosts,
// the drivers of their links, and the path between them. A fingerprint leaves out unknown
// conditions, and a condition that only one of two fingerprints has is not a difference.
package fingerprint

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
)

// Key names one condition: a part of an end such as "far.kernel", or RoundTrip.
type Key string

// RoundTrip is the least round trip of the path, as a Go duration.
const RoundTrip Key = "round_trip"

// The parts of an end.
const (
	HostName  = "host"
	System    = "system" // GOOS
	Kernel    = "kernel"
	Interface = "interface" // toward the other end
	Driver    = "driver"    // with its version, if it has its own
	Firmware  = "firmware"
	MTU       = "mtu"     // of the interface, bytes
	Gateway   = "gateway" // Direct for none
	Way       = "way"     // kinds of the interfaces, "wireguard + device"
)

// Direct is the gateway to a peer on the same link.
const Direct = "none"

// Missing stands for an interface that the host no longer has.
const Missing = "not there"

// MaxText is the most bytes of a condition.
const MaxText = 400

// sameRoundTrip is the ratio from which two round trips belong to different paths (p): queues
// and load change it by less.
const sameRoundTrip = 3

// shortRoundTrip is the round trip below which all belong to one class (p): the hosts
// themselves take as long.
const shortRoundTrip = 300 * time.Microsecond

// Print holds the known conditions.
type Print map[Key]string

// Change is a condition that differs now.
type Change struct {
	Key Key    `json:"key"`
	Was string `json:"was"`
	Now string `json:"now"`
	At  string `json:"-"` // display name of the end; "" for its side
}

// parts returns the parts of an end in the order of display.
func parts() []string {
	return []string{HostName, System, Kernel, Driver, Firmware, Interface, MTU, Gateway, Way}
}

// Keys returns all keys in the order of display.
func Keys() []Key {
	var all []Key
	for _, part := range parts() {
		all = append(all, Of(model.Near, part), Of(model.Far, part))
	}
	return append(all, RoundTrip)
}

// Of returns the key of a part of an end.
func Of(h model.Host, part string) Key {
	if h == model.Far {
		return Key("far." + part)
	}
	return Key("near." + part)
}

// Take returns the conditions that hosts report in a session, and the least round trip of the
// path.
func Take(hosts []model.HostFacts, rtt fact.Of[time.Duration]) Print {
	p := Print{}
	for _, f := range hosts {
		p.machine(f)
		p.link(f, f.Interface.Or(""))
		p.way(f)
	}
	if t, ok := rtt.Get(); ok && t > 0 {
		p[RoundTrip] = t.Round(max(1, t/100)).String()
	}
	return p
}

// TakeAlone returns the conditions that a host reports without a session to the other end. Its
// route there is unknown, so the interface is that of was.
func TakeAlone(f model.HostFacts, was Print) Print {
	p := Print{}
	p.machine(f)
	link := was[Of(f.Host, Interface)]
	if link == "" {
		return p
	}
	p.link(f, link)
	if _, found := nic(f, link); !found && len(f.NICs) > 0 {
		p[Of(f.Host, Interface)] = Missing
	}
	return p
}

func (p Print) machine(f model.HostFacts) {
	p.set(f.Host, HostName, f.Name)
	p.set(f.Host, System, f.OS)
	p.set(f.Host, Kernel, f.Kernel.Or(""))
}

func nic(f model.HostFacts, name string) (model.NIC, bool) {
	i := slices.IndexFunc(f.NICs, func(n model.NIC) bool { return n.Name == name })
	if i < 0 {
		return model.NIC{}, false
	}
	return f.NICs[i], true
}

// link adds an interface of a host.
func (p Print) link(f model.HostFacts, name string) {
	n, found := nic(f, name)
	mtu := n.MTU
	if name == f.Interface.Or("") && f.MTU.IsKnown() {
		mtu = f.MTU
		found = true
	}
	if !found {
		return
	}
	p.set(f.Host, Interface, name)
	if v, ok := mtu.Get(); ok {
		p.set(f.Host, MTU, strconv.Itoa(v))
	}
	driver := n.Driver.Or("")
	if v := n.Version.Or(""); driver != "" && v != f.Kernel.Or("") { // drivers of the kernel share its version
		driver = strings.TrimSpace(driver + " " + v)
	}
	p.set(f.Host, Driver, driver)
	p.set(f.Host, Firmware, n.Firmware.Or(""))
}

// way adds how packets leave a host.
func (p Print) way(f model.HostFacts) {
	if f.Route != nil {
		if gateway, ok := f.Route.Gateway.Get(); ok {
			p.set(f.Host, Gateway, cmp.Or(gateway, Direct))
		}
	}
	var kinds []string
	for _, h := range f.Path {
		if h.Kind != model.HopNeighbour && h.Kind != model.HopNetwork {
			kinds = append(kinds, string(h.Kind))
		}
	}
	p.set(f.Host, Way, strings.Join(kinds, " + "))
}

// set adds text, unless it is empty, as one line of printable text.
func (p Print) set(h model.Host, part, text string) {
	if text = plain.Brief(text, MaxText); text != "" {
		p[Of(h, part)] = text
	}
}

// Without returns p without the given conditions, which have another explanation.
func (p Print) Without(keys ...Key) Print {
	out := maps.Clone(p)
	for _, k := range keys {
		delete(out, k)
	}
	return out
}

// Turned returns p with the ends swapped.
func (p Print) Turned() Print {
	out := Print{}
	for k, text := range p {
		end, part, _ := strings.Cut(string(k), ".")
		switch end {
		case "near":
			k = Of(model.Far, part)
		case "far":
			k = Of(model.Near, part)
		}
		out[k] = text
	}
	return out
}

// Changes returns the differences among conditions that both have. A round trip differs if it
// belongs to a different path.
func (p Print) Changes(now Print) []Change {
	var all []Change
	for _, k := range Keys() {
		was, known := p[k]
		is, seen := now[k]
		if !known || !seen || was == is || k == RoundTrip && sameTrip(was, is) {
			continue
		}
		all = append(all, Change{Key: k, Was: was, Now: is})
	}
	return all
}

// AddSettings adds the known settings of hosts, which Differences compares.
func (p Print) AddSettings(hosts []model.HostFacts) {
	for _, f := range hosts {
		for id, v := range f.Knobs {
			if id != "link.mtu" { // a condition already
				p.set(f.Host, string(id), v.Or(""))
			}
		}
	}
}

// Differences returns Changes, and the settings that have another value now.
func (p Print) Differences(now Print) []Change {
	all, conditions := p.Changes(now), Keys()
	for _, k := range slices.Sorted(maps.Keys(p)) {
		if is, seen := now[k]; seen && is != p[k] && !slices.Contains(conditions, k) {
			all = append(all, Change{Key: k, Was: p[k], Now: is})
		}
	}
	return all
}

// Settings returns the settings of a host that have another value now, of those that are known
// then and now.
func Settings(was, now model.HostFacts) []Change {
	var all []Change
	for _, id := range slices.Sorted(maps.Keys(was.Knobs)) {
		before, known := was.Knobs[id].Get()
		after, seen := now.Knobs[id].Get()
		if known && seen && before != after {
			all = append(all, Change{Key: Of(now.Host, string(id)), Was: before, Now: after})
		}
	}
	return all
}

// sameTrip reports whether two round trips are of one class.
func sameTrip(was, is string) bool {
	a, errA := time.ParseDuration(was)
	b, errB := time.ParseDuration(is)
	if errA != nil || errB != nil {
		return true // an unreadable value is not evidence
	}
	a, b = max(a, shortRoundTrip), max(b, shortRoundTrip)
	return max(a, b) < sameRoundTrip*min(a, b)
}

// String formats a change: "kernel 6.19 -> 7.0 at the far end".
func (c Change) String() string {
	end, part, _ := strings.Cut(string(c.Key), ".")
	if c.Key == RoundTrip {
		return fmt.Sprintf("round trip %s -> %s", c.Was, c.Now)
	}
	return fmt.Sprintf("%s %s -> %s at %s", strings.ReplaceAll(part, "mtu", "MTU"), c.Was, c.Now, cmp.Or(c.At, "the "+end+" end"))
}

// Name sets the display names of the ends of changes.
func Name(changes []Change, n model.Names) {
	for i := range changes {
		side, _, _ := strings.Cut(string(changes[i].Key), ".")
		changes[i].At = n.Of(model.Host(side))
	}
}

// Since formats changes in one line, "" for none.
func Since(changes []Change) string {
	words := lists.Each(changes, func(c Change) string { return c.String() })
	return strings.Join(words, ", ")
}

// ErrInvalid reports that a text is not a fingerprint.
var ErrInvalid = errors.New("not a valid fingerprint")

// Validate reports every invalid condition, joined; each error wraps ErrInvalid.
func (p Print) Validate() error {
	known := Keys()
	var errs []error
	for _, k := range slices.Sorted(maps.Keys(p)) {
		text := p[k]
		switch {
		case !slices.Contains(known, k):
			errs = append(errs, fmt.Errorf("condition %.40q is not known: %w", string(k), ErrInvalid))
		case text == "" || len(text) > MaxText || !plain.Printable(text):
			errs = append(errs, fmt.Errorf("condition %s is empty, longer than %d bytes or not plain text: %w", k, MaxText, ErrInvalid))
		}
	}
	return errors.Join(errs...)
}
