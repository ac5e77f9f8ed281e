package ethtool

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// members returns the kernel's features behind a short name (Linux net/ethtool/common.c
// netdev_features_strings). Any other name is itself a feature.
func members(name string) []string {
	switch name {
	case "rx-checksum":
		return []string{"rx-checksum"}
	case "tx-checksum":
		return []string{"tx-checksum-ipv4", "tx-checksum-ip-generic", "tx-checksum-ipv6"}
	case "tso":
		return []string{"tx-tcp-segmentation", "tx-tcp6-segmentation"}
	case "gso":
		return []string{"tx-generic-segmentation"}
	case "gro":
		return []string{"rx-gro"}
	case "gro-hw":
		return []string{"rx-gro-hw"}
	case "lro":
		return []string{"rx-lro"}
	case "rx-vlan":
		return []string{"rx-vlan-hw-parse"}
	case "tx-vlan":
		return []string{"tx-vlan-hw-insert"}
	}
	return []string{name}
}

const (
	fixed    = "(fixed)"
	heldMark = "(held)"
)

// featureText lists the members with their wanted state, which is what can be restored; one
// in another state than wanted is marked as held at the opposite. Features that the driver
// keeps fixed are marked, with their state. The set "hw" has the names of all features of the
// kernel.
func featureText(f Fields, name string) (string, error) {
	var words []string
	for _, m := range members(name) {
		switch {
		case !f.Sets["hw"].has(m):
		case changeable(f, m):
			wanted, mark := f.Sets["wanted"].Is(m), ""
			if f.Sets["active"].Is(m) != wanted {
				mark = heldMark
			}
			words = append(words, m+"="+onOff(wanted)+mark)
		default:
			words = append(words, m+"="+onOff(f.Sets["active"].Is(m))+fixed)
		}
	}
	if len(words) == 0 {
		return "", fmt.Errorf("this kernel has no feature %s: %w", name, errors.ErrUnsupported)
	}
	return strings.Join(words, " "), nil
}

func changeable(f Fields, feature string) bool {
	return f.Sets["hw"].Is(feature) && !f.Sets["nochange"].Is(feature)
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// featureChanges parses what featureText writes.
func featureChanges(f Fields, name, raw string) (Fields, error) {
	var want Bits
	for word := range strings.FieldsSeq(raw) {
		feature, value, ok := strings.Cut(word, "=")
		state, isFixed := strings.CutSuffix(strings.TrimSuffix(value, heldMark), fixed)
		if !ok || state != "on" && state != "off" || !slices.Contains(members(name), feature) {
			return Fields{}, fmt.Errorf("features %q: want %s=on or off", raw, strings.Join(members(name), "=on or off, "))
		}
		switch {
		case isFixed && f.Sets["active"].Is(feature) != (state == "on"):
			return Fields{}, fmt.Errorf("feature %s: the driver holds it fixed: %w", feature, errors.ErrUnsupported)
		case isFixed:
		case !changeable(f, feature):
			return Fields{}, fmt.Errorf("feature %s: the driver holds it fixed: %w", feature, errors.ErrUnsupported)
		default:
			want = append(want, Bit{Name: feature, On: state == "on"})
		}
	}
	if raw == "" {
		return Fields{}, errors.New("features: nothing is named")
	}
	return Fields{Sets: map[string]Bits{"wanted": want}}, nil
}

// inForce compares the wanted with the active state.
func inForce(f Fields, name string) error {
	for _, m := range members(name) {
		if want := f.Sets["wanted"].Is(m); changeable(f, m) && want != f.Sets["active"].Is(m) {
			return fmt.Errorf("feature %s was set to %s and stays %s: another feature that it needs, or the driver, holds it", m, onOff(want), onOff(!want))
		}
	}
	return nil
}
