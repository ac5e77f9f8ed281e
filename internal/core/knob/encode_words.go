package knob

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/lists"
)

// frameHeader is how much a Windows frame keyword exceeds the IP packet: the Ethernet header
// without VLAN tag and checksum (knobs.md section 5.3, C-08).
const frameHeader = 14

// levels are the autotuning levels of Windows with the window that the scale of each allows:
// 65535 << scale ([W net-sub-performance-tuning-nics]).
func levels() []struct {
	word   string
	window int64
} {
	return []struct {
		word   string
		window int64
	}{
		{"Disabled", 65535}, {"HighlyRestricted", 65535 << 2}, {"Restricted", 65535 << 4},
		{"Normal", 65535 << 8}, {"Experimental", 65535 << 14},
	}
}

// wordsOf returns pairs of native and canonical words; the first match wins.
func wordsOf(e Encoding) [][2]string {
	switch e {
	case Inverted:
		return [][2]string{{"0", "1"}, {"1", "0"}}
	case NewReno:
		return [][2]string{{"0", "cubic"}, {"1", "newreno"}}
	case Enabled:
		return [][2]string{{"Enabled", "1"}, {"Disabled", "0"}}
	case TrueFalse:
		return [][2]string{{"True", "1"}, {"False", "0"}}
	default:
		return nil
	}
}

// encodeWord is encode for encodings by table or formula.
func encodeWord(e Encoding, raw, canonical string) (string, error) {
	for _, w := range wordsOf(e) {
		if w[1] == canonical {
			return w[0], nil
		}
	}
	switch e {
	case ScaleBit, StampsBit:
		return encodeRFC1323(e, raw, canonical)
	case FlowRx, FlowTx:
		return encodeFlow(e, raw, canonical)
	case Frame, Level:
		n, err := strconv.ParseInt(canonical, 10, 64)
		if err != nil {
			return "", fmt.Errorf("value %q: want a count of bytes", canonical)
		}
		if e == Frame {
			return strconv.FormatInt(n+frameHeader, 10), nil
		}
		for _, l := range levels() {
			if n <= l.window {
				return l.word, nil
			}
		}
	default:
	}
	return "", fmt.Errorf("value %q cannot be said to this system: %w", canonical, errors.ErrUnsupported)
}

func decodeWord(e Encoding, raw string) (string, error) {
	text := SameText(raw)
	for _, w := range wordsOf(e) {
		if strings.EqualFold(w[0], text) {
			return w[1], nil
		}
	}
	for _, l := range levels() {
		if e == Level && strings.EqualFold(l.word, text) {
			return strconv.FormatInt(l.window, 10), nil
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return "", fmt.Errorf("native text %q: not understood", raw)
	}
	on := func(b bool) (string, error) {
		if b {
			return "1", nil
		}
		return "0", nil
	}
	switch e {
	case Switch:
		return on(n != 0)
	case Inverted: // ip_no_pmtu_disc has several values for off
		return on(n == 0)
	case ScaleBit:
		return on(n == 1 || n == 2)
	case StampsBit:
		return on(n == 1 || n == 3)
	case FlowRx, FlowTx:
		return on(n == 3 || e == FlowRx && n == 2 || e == FlowTx && n == 1)
	case Frame:
		return strconv.FormatInt(n-frameHeader, 10), nil
	default:
		return "", fmt.Errorf("native text %q: not understood", raw)
	}
}

// encodeRFC1323 sets one half of FreeBSD's shared switch: 0 none, 1 both, 2 scaling only, 3
// timestamps only. Kernels before 14 treat 2 and 3 like 1, which the options of a new
// connection reveal ([B14 tcp_subr.c]).
func encodeRFC1323(e Encoding, raw, canonical string) (string, error) {
	scale, err := decodeWord(ScaleBit, raw)
	if err != nil {
		return "", err
	}
	stamps, _ := decodeWord(StampsBit, raw) // the same text
	switch {
	case canonical != "0" && canonical != "1":
		return "", fmt.Errorf("value %s: this system knows on and off only: %w", canonical, errors.ErrUnsupported)
	case e == ScaleBit:
		scale = canonical
	default:
		stamps = canonical
	}
	return map[string]string{"00": "0", "11": "1", "10": "2", "01": "3"}[scale+stamps], nil
}

// encodeFlow sets one direction of a flow control keyword: 0 off, 1 tx, 2 rx, 3 both. It
// replaces the value 4, negotiated, by an explicit one.
func encodeFlow(e Encoding, raw, canonical string) (string, error) {
	rx, err := decodeWord(FlowRx, raw)
	if err != nil {
		return "", err
	}
	tx, _ := decodeWord(FlowTx, raw)
	if e == FlowRx {
		rx = canonical
	} else {
		tx = canonical
	}
	text, ok := map[string]string{"00": "0", "01": "1", "10": "2", "11": "3"}[rx+tx]
	if !ok {
		return "", fmt.Errorf("value %q: want 0 or 1", canonical)
	}
	return text, nil
}

// pair is one "key=value" of a native text.
type pair struct{ key, value string }

// parsePairs parses a list of pairs. Real input:
//
//	tx-tcp-segmentation=on tx-tcp6-segmentation=on
//	rx-lro=off(fixed)
//	tx-tcp-segmentation=on(held)
//	rx-0=0-1 rx-1=none
//
// "on(held)" is requested on but actually off: the driver, or a feature that it needs, prevents
// it.
func parsePairs(raw string) ([]pair, error) {
	text, _ := splitRemark(raw)
	var all []pair
	for f := range strings.FieldsSeq(text) {
		key, value, ok := strings.Cut(f, "=")
		if !ok || key == "" || value == "" {
			return nil, fmt.Errorf("native text %q: want pairs like key=value", raw)
		}
		all = append(all, pair{key, value})
	}
	return all, nil
}

func formatPairs(all []pair) string {
	words := make([]string, len(all))
	for i, p := range all {
		words[i] = p.key + "=" + p.value
	}
	return strings.Join(words, " ")
}

const fixed = "(fixed)"

// encodeGroup switches every member that is not fixed.
func encodeGroup(raw, canonical string) (string, error) {
	all, err := parsePairs(raw)
	if err != nil {
		return "", err
	}
	want, ok := map[string]string{"0": "off", "1": "on"}[canonical]
	if !ok {
		return "", fmt.Errorf("value %q: want 0 or 1", canonical)
	}
	changeable := false
	for i, p := range all {
		if strings.HasSuffix(p.value, fixed) {
			continue
		}
		all[i].value, changeable = want, true
	}
	now, err := decodeGroup(raw)
	if err != nil {
		return "", err
	}
	if !changeable && now != canonical {
		return "", fmt.Errorf("%s: the driver holds it fixed: %w", raw, errors.ErrUnsupported)
	}
	return formatPairs(all), nil
}

// decodeGroup returns on if a member that can be switched is on or, if none can, any member is.
func decodeGroup(raw string) (string, error) {
	all, err := parsePairs(raw)
	if err != nil {
		return "", err
	}
	if len(all) == 0 {
		return "", Because(NotInDriver, errors.New("this device has no such feature"))
	}
	isFixed := func(p pair) bool { return strings.HasSuffix(p.value, fixed) }
	if switches := slices.DeleteFunc(slices.Clone(all), isFixed); len(switches) > 0 {
		all = switches
	}
	isOn := func(p pair) bool {
		return strings.TrimSuffix(p.value, fixed) == "on" || p.value == "off"+held
	}
	if slices.ContainsFunc(all, isOn) {
		return "1", nil
	}
	return "0", nil
}

// encodeParts sets every part: to one common value, or in turn to the values of a list with
// semicolons.
func encodeParts(raw, canonical string) (string, error) {
	all, err := parsePairs(raw)
	if err != nil {
		return "", err
	}
	values := strings.Split(canonical, ";")
	if canonical == "" || slices.Contains(values, "") {
		return "", fmt.Errorf("value %q: want one value, or several with semicolons", canonical)
	}
	for i := range all {
		all[i].value = values[i%len(values)]
	}
	return formatPairs(all), nil
}

// decodeParts returns one value if all parts agree, else all of them in order.
func decodeParts(raw string) (string, error) {
	all, err := parsePairs(raw)
	if err != nil {
		return "", err
	}
	values := lists.Each(all, func(p pair) string { return p.value })
	if len(values) == 0 {
		return "", Because(NotInDriver, errors.New("this device has no such part"))
	}
	if len(slices.Compact(slices.Clone(values))) == 1 {
		return values[0], nil
	}
	return strings.Join(values, ";"), nil
}
