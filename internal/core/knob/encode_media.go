package knob

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// The values of a duplex knob.
const (
	duplexAuto = "auto"
	duplexHalf = "half"
	duplexFull = "full"
)

// modeText is the link mode of a Linux interface:
//
//	autoneg=on advertise=100baseT/Full,1000baseT/Full (supported=10baseT/Half,…)
//	autoneg=off speed=100 duplex=full (supported=10baseT/Half,…)
//	autoneg=off speed=10000 duplex=full
//	autoneg=on advertise=1000baseT/Full (supported=1000baseT/Full; now=1000/full)
//
// During negotiation, speed and duplex are an outcome, not a setting: forcing one of them keeps
// the present value of the other.
type modeText struct {
	autoneg, speed, duplex, advertise, supported string
	nowSpeed, nowDuplex                          string
}

func parseMode(raw string) (modeText, error) {
	all, err := parsePairs(raw)
	if err != nil {
		return modeText{}, err
	}
	var m modeText
	for _, p := range all {
		switch p.key {
		case "autoneg":
			m.autoneg = p.value
		case "speed":
			m.speed = p.value
		case "duplex":
			m.duplex = p.value
		case "advertise":
			m.advertise = p.value
		}
	}
	if m.autoneg != "on" && m.autoneg != "off" {
		return modeText{}, fmt.Errorf("link mode %q: want autoneg=on or autoneg=off", raw)
	}
	_, remark := splitRemark(raw)
	for part := range strings.SplitSeq(remark, "; ") {
		if modes, ok := strings.CutPrefix(part, "supported="); ok {
			m.supported = modes
		}
		if now, ok := strings.CutPrefix(part, nowMark); ok {
			m.nowSpeed, m.nowDuplex, _ = strings.Cut(now, "/")
		}
	}
	return m, nil
}

func (m modeText) String() string {
	all := []pair{{"autoneg", m.autoneg}}
	for _, p := range []pair{{"speed", m.speed}, {"duplex", m.duplex}, {"advertise", m.advertise}} {
		if p.value != "" {
			all = append(all, p)
		}
	}
	return formatPairs(all)
}

func encodeMode(e Encoding, raw, canonical string) (string, error) {
	m, err := parseMode(raw)
	if err != nil {
		return "", err
	}
	negotiate := func() {
		if m.autoneg == "off" {
			m = modeText{autoneg: "on", advertise: m.supported, supported: m.supported}
		}
	}
	force := func() {
		if m.autoneg == "on" {
			m.speed, m.duplex = m.nowSpeed, m.nowDuplex
		}
		m.autoneg, m.advertise = "off", ""
	}
	switch {
	case e == ModeAutoneg && canonical == "1", e == ModeSpeed && canonical == "0", e == ModeDuplex && canonical == duplexAuto:
		negotiate()
	case e == ModeAutoneg:
		force()
	case e == ModeSpeed:
		force()
		m.speed = canonical
	case e == ModeDuplex:
		force()
		m.duplex = canonical
	case e == ModeAdvertise:
		negotiate()
		m.advertise = canonical
		for mode := range strings.SplitSeq(canonical, ",") {
			if !slices.Contains(strings.Split(m.supported, ","), mode) {
				return "", fmt.Errorf("mode %q: the device supports %s: %w", mode, m.supported, errors.ErrUnsupported)
			}
		}
	}
	if m.autoneg == "on" && m.advertise == "" {
		return "", fmt.Errorf("the device negotiates no modes: %w", errors.ErrUnsupported)
	}
	return m.String(), nil
}

func decodeMode(e Encoding, raw string) (string, error) {
	m, err := parseMode(raw)
	if err != nil {
		return "", err
	}
	auto := m.autoneg == "on"
	switch {
	case e == ModeAutoneg && auto:
		return "1", nil
	case e == ModeAutoneg:
		return "0", nil
	case e == ModeSpeed && auto:
		return "0", nil
	case e == ModeSpeed && m.speed != "":
		return m.speed, nil
	case e == ModeDuplex && auto:
		return duplexAuto, nil
	case e == ModeDuplex && m.duplex != "":
		return m.duplex, nil
	case e == ModeAdvertise && auto:
		return m.advertise, nil
	case e == ModeAdvertise:
		return "", Because(NotSet, errors.New("nothing is offered while modes are not negotiated"))
	}
	return "", Because(NotInDriver, fmt.Errorf("link mode %q does not say", raw))
}

// mediaOf are the copper media of FreeBSD and macOS by Mbit/s (FreeBSD
// sys/net/if_media.h IFM_SUBTYPE_ETHERNET_DESCRIPTIONS).
func mediaOf() map[string]string {
	return map[string]string{
		"10": "10baseT/UTP", "100": "100baseTX", "1000": "1000baseT", "2500": "2500Base-T", "5000": "5000Base-T", "10000": "10Gbase-T",
	}
}

// encodeMedia changes a media text of FreeBSD or macOS. Real input, with commas
// where ifconfig prints mediaopt:
//
//	autoselect
//	1000baseT,full-duplex,rxpause,txpause
//	100baseTX,half-duplex
func encodeMedia(e Encoding, raw, canonical string) (string, error) {
	value, _ := splitRemark(raw)
	words := strings.Split(value, ",")
	if words[0] == "" {
		return "", fmt.Errorf("media %q: want a media type", raw)
	}
	set := func(option string, on bool) {
		words = slices.DeleteFunc(words, func(w string) bool { return w == option })
		if on {
			words = append(words, option)
		}
	}
	switch e {
	case MediaHalf: // drivers list half duplex without an option, and most of them only so (FreeBSD mii_physubr.c)
		switch {
		case canonical == duplexAuto:
			words = []string{"autoselect"}
		case words[0] == "autoselect":
			return "", fmt.Errorf("fix nic.media.speed before the duplex: %w", errors.ErrUnsupported)
		}
		set("half-duplex", false)
		set("full-duplex", canonical == duplexFull)
	case MediaAutoneg:
		if canonical == "0" {
			return "", fmt.Errorf("fix the media with nic.media.speed instead: %w", errors.ErrUnsupported)
		}
		words = []string{"autoselect"}
	case MediaSpeed:
		if canonical == "0" {
			words = []string{"autoselect"}
			break
		}
		media, ok := mediaOf()[canonical]
		if !ok {
			return "", fmt.Errorf("no copper medium has %s Mbit/s: %w", canonical, errors.ErrUnsupported)
		}
		if words[0] == "autoselect" && !slices.Contains(words, "half-duplex") { // em(4) uses half duplex by default
			set("full-duplex", true)
		}
		words[0] = media
	case MediaDuplex:
		set("full-duplex", canonical == duplexFull)
		set("half-duplex", canonical == duplexHalf)
	case MediaRxPause, MediaTxPause, MediaFlow, MediaEEE:
		set(mediaOption(e), canonical == "1")
	default:
		return "", fmt.Errorf("encoding %q: not one of media", e)
	}
	slices.Sort(words[1:])
	return strings.Join(words, ","), nil
}

// mediaOption returns the option that an encoding switches, "" for none.
func mediaOption(e Encoding) string {
	return map[Encoding]string{
		MediaRxPause: "rxpause", MediaTxPause: "txpause", MediaFlow: "flow-control", MediaEEE: "energy-efficient-ethernet",
	}[e]
}

func decodeMedia(e Encoding, raw string) (string, error) {
	value, _ := splitRemark(raw)
	words := strings.Split(value, ",")
	has := func(option string) (string, error) {
		if slices.Contains(words[1:], option) {
			return "1", nil
		}
		return "0", nil
	}
	auto := words[0] == "autoselect"
	switch {
	case words[0] == "":
		return "", fmt.Errorf("media %q: want a media type", raw)
	case e == MediaAutoneg && auto:
		return "1", nil
	case e == MediaAutoneg:
		return "0", nil
	case e == MediaSpeed && auto:
		return "0", nil
	case e == MediaSpeed:
		return mediaSpeed(words[0])
	case mediaOption(e) != "":
		return has(mediaOption(e))
	}
	for _, d := range []string{duplexFull, duplexHalf} {
		if slices.Contains(words, d+"-duplex") {
			return d, nil
		}
	}
	if e == MediaHalf && !auto {
		return duplexHalf, nil
	}
	return duplexAuto, nil
}

// mediaSpeed parses the Mbit/s in a media name: "10Gbase-T" is 10000.
func mediaSpeed(name string) (string, error) {
	end := strings.IndexFunc(name, func(r rune) bool { return r < '0' || r > '9' })
	if end <= 0 {
		return "", Because(NotInDriver, fmt.Errorf("media %q does not say its speed", name))
	}
	n, err := strconv.Atoi(name[:end])
	if err != nil {
		return "", Because(NotInDriver, fmt.Errorf("media %q does not say its speed", name))
	}
	if name[end] == 'G' {
		n *= 1000
	}
	return strconv.Itoa(n), nil
}

// speedDuplex returns the values of the Windows keyword *SpeedDuplex up to 10; from 1000 on a
// value is the speed in Mbit/s, full duplex ([W enumeration-keywords]).
func speedDuplex() map[string][2]string {
	return map[string][2]string{
		"0": {"0", duplexAuto}, "1": {"10", duplexHalf}, "2": {"10", duplexFull}, "3": {"100", duplexHalf}, "4": {"100", duplexFull},
		"5": {"1000", duplexHalf}, "6": {"1000", duplexFull}, "7": {"10000", duplexFull}, "8": {"20000", duplexFull},
		"9": {"40000", duplexFull}, "10": {"100000", duplexFull},
	}
}

func parseSpeedDuplex(raw string) (speed, duplex string, err error) {
	text := SameText(raw)
	if v, ok := speedDuplex()[text]; ok {
		return v[0], v[1], nil
	}
	if n, err := strconv.Atoi(text); err == nil && n >= 1000 {
		return text, duplexFull, nil
	}
	return "", "", fmt.Errorf("speed and duplex %q: not understood", raw)
}

func encodeSpeedDuplex(e Encoding, raw, canonical string) (string, error) {
	speed, duplex, err := parseSpeedDuplex(raw)
	if err != nil {
		return "", err
	}
	switch {
	case e == DuplexAutoneg && canonical == "1", e == DuplexSpeed && canonical == "0", e == DuplexDuplex && canonical == duplexAuto:
		return "0", nil
	case e == DuplexAutoneg:
		return "", fmt.Errorf("fix the mode with nic.media.speed instead: %w", errors.ErrUnsupported)
	case e == DuplexSpeed:
		speed = canonical
		if duplex == duplexAuto {
			duplex = duplexFull
		}
	case speed == "0":
		return "", fmt.Errorf("fix nic.media.speed before the duplex: %w", errors.ErrUnsupported)
	default:
		duplex = canonical
	}
	for text, v := range speedDuplex() {
		if v == [2]string{speed, duplex} {
			return text, nil
		}
	}
	if n, err := strconv.Atoi(speed); err == nil && n >= 1000 && duplex == duplexFull {
		return speed, nil
	}
	return "", fmt.Errorf("no mode has %s Mbit/s, %s duplex: %w", speed, duplex, errors.ErrUnsupported)
}

func decodeSpeedDuplex(e Encoding, raw string) (string, error) {
	speed, duplex, err := parseSpeedDuplex(raw)
	switch {
	case err != nil:
		return "", err
	case e == DuplexSpeed:
		return speed, nil
	case e == DuplexDuplex:
		return duplex, nil
	case duplex == duplexAuto:
		return "1", nil
	}
	return "0", nil
}

// ModeUntold reports whether got is a forced link mode without a speed while want has one: many
// drivers report no speed while the link is down (Linux
// drivers/net/ethernet/intel/e1000e/ethtool.c), so got may be want.
func ModeUntold(want, got string) bool {
	w, _ := splitRemark(SameText(want))
	g, _ := splitRemark(SameText(got))
	return strings.HasPrefix(w, "autoneg=off speed=") && strings.HasPrefix(g+" ", "autoneg=off ") && !strings.Contains(g, "speed=")
}
