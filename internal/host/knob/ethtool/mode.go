package ethtool

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// unknownSpeed is SPEED_UNKNOWN of Linux include/uapi/linux/ethtool.h.
const unknownSpeed = 1<<32 - 1

// isMode distinguishes link modes from the other bits of a link's set, such as TP, Pause and
// Autoneg.
func isMode(name string) bool { return strings.Contains(name, "base") }

// modeText returns the link mode in the form of package knob. While modes are negotiated,
// speed and duplex are a result, shown in the remark.
func modeText(f Fields) string {
	auto := f.Numbers["autoneg"] == 1
	words := []string{"autoneg=" + onOff(auto)}
	var remarks []string
	if supported := strings.Join(f.Sets["ours"].Modes(true), ","); supported != "" {
		remarks = append(remarks, "supported="+supported)
	}
	speed := ""
	if n := f.Numbers["speed"]; n != 0 && n != unknownSpeed {
		speed = strconv.FormatUint(uint64(n), 10)
	}
	duplex, known := map[uint32]string{0: "half", 1: "full"}[f.Numbers["duplex"]]
	switch ours := strings.Join(f.Sets["ours"].Modes(false), ","); {
	case auto && ours != "":
		words = append(words, "advertise="+ours)
		fallthrough
	case auto:
		if speed != "" && known {
			remarks = append(remarks, "now="+speed+"/"+duplex)
		}
	default:
		if speed != "" {
			words = append(words, "speed="+speed)
		}
		if known {
			words = append(words, "duplex="+duplex)
		}
	}
	if len(remarks) > 0 {
		words = append(words, "("+strings.Join(remarks, "; ")+")")
	}
	return strings.Join(words, " ")
}

// modeKnown returns an error if the present link mode is unknown: it could not be restored.
// Drivers report no speed while a forced link is down.
func modeKnown(f Fields) error {
	if now := modeText(f); f.Numbers["autoneg"] == 0 && !strings.Contains(now, "speed=") {
		return fmt.Errorf("the link mode is not known (%s), so that it could not be put back: %w", now, errors.ErrUnsupported)
	}
	return nil
}

// modeChanges parses what modeText writes.
func modeChanges(f Fields, raw string) (Fields, error) {
	value, _, _ := strings.Cut(raw, " (")
	words := map[string]string{}
	for word := range strings.FieldsSeq(value) {
		key, v, ok := strings.Cut(word, "=")
		if !ok {
			return Fields{}, fmt.Errorf("link mode %q: want pairs like autoneg=on", raw)
		}
		words[key] = v
	}
	switch words["autoneg"] {
	case "on":
		ours, err := advertised(f.Sets["ours"], words["advertise"])
		if err != nil {
			return Fields{}, err
		}
		return Fields{Numbers: map[string]uint32{"autoneg": 1}, Sets: map[string]Bits{"ours": ours}}, nil
	case "off":
		speed, err := strconv.ParseUint(words["speed"], 10, 31)
		duplex, ok := map[string]uint32{"half": 0, "full": 1}[words["duplex"]]
		if err != nil || speed == 0 || !ok {
			return Fields{}, fmt.Errorf("link mode %q: without negotiation it needs both nic.media.speed and nic.media.duplex, and the link has none now that could stay", raw)
		}
		return Fields{Numbers: map[string]uint32{"autoneg": 0, "speed": uint32(speed), "duplex": duplex}}, nil
	}
	return Fields{}, fmt.Errorf("link mode %q: want autoneg=on or autoneg=off", raw)
}

// advertised sets every supported mode on or off according to the list.
func advertised(supported Bits, list string) (Bits, error) {
	want := strings.Split(list, ",")
	for _, name := range want {
		if !isMode(name) || !supported.has(name) {
			return nil, fmt.Errorf("mode %q: the device supports %s: %w", name, strings.Join(supported.Modes(true), ","), errors.ErrUnsupported)
		}
	}
	var set Bits
	for _, one := range supported {
		if isMode(one.Name) {
			set = append(set, Bit{Name: one.Name, On: slices.Contains(want, one.Name)})
		}
	}
	return set, nil
}

// wolText lists what wakes the machine, or none.
func wolText(f Fields) (string, error) {
	set, ok := f.Sets["modes"]
	if !ok || len(set) == 0 {
		return "", fmt.Errorf("the device cannot wake the machine: %w", errors.ErrUnsupported)
	}
	var on []string
	for _, one := range set {
		if one.On {
			on = append(on, one.Name)
		}
	}
	if len(on) == 0 {
		return "none", nil
	}
	return strings.Join(on, ","), nil
}

// wolChanges parses what wolText writes.
func wolChanges(f Fields, raw string) (Fields, error) {
	var want []string
	if raw != "none" {
		want = strings.Split(raw, ",")
	}
	set := slices.Clone(f.Sets["modes"])
	for _, name := range want {
		if !set.has(name) {
			return Fields{}, fmt.Errorf("wake on %q: the device has no such event: %w", name, errors.ErrUnsupported)
		}
	}
	if len(set) == 0 {
		return Fields{}, fmt.Errorf("the device cannot wake the machine: %w", errors.ErrUnsupported)
	}
	for i := range set {
		set[i].On = slices.Contains(want, set[i].Name)
	}
	return Fields{Sets: map[string]Bits{"modes": set}}, nil
}
