package knob

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Encoding says how a native text represents the canonical value.
type Encoding string

// The encodings. Where several knobs share one text, encoding one of them keeps the rest.
const (
	Plain  Encoding = ""       // the native text is the canonical value
	Switch Encoding = "switch" // 0 or 1; any other number reads as 1

	Least   Encoding = "least"   // first of three numbers: least, initial, ceiling
	Initial Encoding = "initial" // second of them
	Ceiling Encoding = "ceiling" // third of them

	Inverted  Encoding = "inverted"  // 0 is on, anything else is off
	ScaleBit  Encoding = "scale"     // of FreeBSD's rfc1323: 0 none, 1 both, 2 scaling, 3 timestamps
	StampsBit Encoding = "stamps"    // the other half of it
	NewReno   Encoding = "newreno"   // of macOS: 0 is cubic, 1 is newreno
	Enabled   Encoding = "enabled"   // words of Windows: Enabled, Disabled
	TrueFalse Encoding = "truefalse" // words of Windows: True, False
	Level     Encoding = "level"     // of Windows: an autotuning level as the window that it allows
	Frame     Encoding = "frame"     // of Windows: Ethernet frame, 14 bytes more than the IP packet

	Chosen Encoding = "chosen" // 0 or nothing is the driver's own choice, given in a remark: "0 (driver: 1024)"

	OfDriver Encoding = "driver" // a number, with a remark naming the driver if it has modes: "3 (e1000e)"

	Group Encoding = "group" // "a=on b=off(fixed)": related switches
	Parts Encoding = "parts" // "rx-0=3 rx-1=3": one value per queue, vector or processor
	Kind  Encoding = "kind"  // the first word is the value; a remark follows

	ModeAutoneg   Encoding = "mode-autoneg"   // link modes of Linux, see encode_media.go
	ModeSpeed     Encoding = "mode-speed"     // Mbit/s
	ModeDuplex    Encoding = "mode-duplex"    //
	ModeAdvertise Encoding = "mode-advertise" //

	MediaAutoneg Encoding = "media-autoneg" // media of FreeBSD and macOS: "1000baseT,full-duplex"
	MediaSpeed   Encoding = "media-speed"   // Mbit/s
	MediaDuplex  Encoding = "media-duplex"  //
	MediaHalf    Encoding = "media-half"    // duplex, if half duplex is a medium without an option
	MediaRxPause Encoding = "media-rxpause" //
	MediaTxPause Encoding = "media-txpause" //
	MediaFlow    Encoding = "media-flow"    // flow-control
	MediaEEE     Encoding = "media-eee"     // energy-efficient-ethernet

	DuplexAutoneg Encoding = "speedduplex-autoneg" // Windows *SpeedDuplex
	DuplexSpeed   Encoding = "speedduplex-speed"   // Mbit/s
	DuplexDuplex  Encoding = "speedduplex-duplex"  //
	FlowRx        Encoding = "flow-rx"             // Windows *FlowControl: 0 off, 1 tx, 2 rx, 3 both
	FlowTx        Encoding = "flow-tx"             //
)

// SameText returns raw with every run of white space as one blank and none at the ends. Two
// native texts are the same value if their SameText is equal.
//
// It omits transient state: "(held)" after a switch that differs from its setting, and "now="
// at the end of a remark, which is the negotiated mode. Both change without any write.
func SameText(raw string) string {
	text := strings.ReplaceAll(oneLine(raw), held, "")
	before, _, ok := strings.Cut(text, nowMark)
	if !ok || !strings.HasSuffix(text, ")") {
		return text
	}
	if rest, ok := strings.CutSuffix(before, "; "); ok {
		return rest + ")"
	}
	return strings.TrimSuffix(before, " (")
}

func oneLine(raw string) string { return strings.Join(strings.Fields(raw), " ") }

const (
	held    = "(held)"
	nowMark = "now="
)

// Holds reports whether a place that reads as got has the value written as want. A native text
// may end in a remark in parentheses, filled in by the system: a want without a remark matches
// any remark ("fq" matches "fq (limit …)").
func Holds(want, got string) bool {
	w, g := SameText(want), SameText(got)
	if w == g {
		return true
	}
	if strings.HasSuffix(w, ")") && strings.Contains(w, " (") {
		return false
	}
	value, _ := splitRemark(g)
	return value == w
}

// splitRemark splits a native text into value and remark, without the parentheses.
func splitRemark(raw string) (value, remark string) {
	raw = oneLine(raw)
	i := strings.Index(raw, " (")
	if i < 0 || !strings.HasSuffix(raw, ")") {
		return raw, ""
	}
	return raw[:i], raw[i+2 : len(raw)-1]
}

// Encode returns the native text that gives the knob the canonical value on system; raw is the
// present native text. It keeps the other knobs of a shared text. The error wraps
// errors.ErrUnsupported if the native setting cannot have the value.
func (k Knob) Encode(system, raw, canonical string) (string, error) {
	n := k.Native[system]
	text, err := encode(n.Encoding, registryData(n, raw), canonical)
	if err == nil && n.Mechanism == WinReg {
		text = "dword:" + text
	}
	return text, err
}

// Decode returns the knob's canonical value from the native text raw of system.
func (k Knob) Decode(system, raw string) (string, error) {
	n := k.Native[system]
	if n.Mechanism == WinReg && SameText(raw) == absent {
		if n.Absent == "" {
			return "", Because(NotSet, fmt.Errorf("value %s is not set, and its default is not known", n.Name))
		}
		return n.Absent, nil
	}
	return decode(n.Encoding, registryData(n, raw))
}

// absent is the text of a missing registry value.
const absent = "absent"

// registryData returns the data of a registry value, without its type.
func registryData(n Native, raw string) string {
	if n.Mechanism != WinReg {
		return raw
	}
	if _, data, ok := strings.Cut(raw, ":"); ok {
		return data
	}
	return raw
}

func encode(e Encoding, raw, canonical string) (string, error) {
	switch e {
	case Plain, Switch, Kind, Chosen, OfDriver:
		if e == Switch && canonical != "0" && canonical != "1" {
			return "", fmt.Errorf("value %s: this system knows on and off only: %w", canonical, errors.ErrUnsupported)
		}
		return canonical, nil
	case Least, Initial, Ceiling:
		return encodeTriple(e, raw, canonical)
	case Group:
		return encodeGroup(raw, canonical)
	case Parts:
		return encodeParts(raw, canonical)
	case ModeAutoneg, ModeSpeed, ModeDuplex, ModeAdvertise:
		return encodeMode(e, raw, canonical)
	case MediaAutoneg, MediaSpeed, MediaDuplex, MediaHalf, MediaRxPause, MediaTxPause, MediaFlow, MediaEEE:
		return encodeMedia(e, raw, canonical)
	case DuplexAutoneg, DuplexSpeed, DuplexDuplex:
		return encodeSpeedDuplex(e, raw, canonical)
	default:
		return encodeWord(e, raw, canonical)
	}
}

func decode(e Encoding, raw string) (string, error) {
	switch e {
	case Plain:
		return SameText(raw), nil
	case Kind:
		return decodeKind(raw)
	case OfDriver:
		value, _ := splitRemark(raw)
		return value, nil
	case Least, Initial, Ceiling:
		t, err := parseTriple(raw)
		if err != nil {
			return "", err
		}
		return strconv.FormatInt(t[field(e)], 10), nil
	case Chosen:
		return decodeChosen(raw)
	case Group:
		return decodeGroup(raw)
	case Parts:
		return decodeParts(raw)
	case ModeAutoneg, ModeSpeed, ModeDuplex, ModeAdvertise:
		return decodeMode(e, raw)
	case MediaAutoneg, MediaSpeed, MediaDuplex, MediaHalf, MediaRxPause, MediaTxPause, MediaFlow, MediaEEE:
		return decodeMedia(e, raw)
	case DuplexAutoneg, DuplexSpeed, DuplexDuplex:
		return decodeSpeedDuplex(e, raw)
	default:
		return decodeWord(e, raw)
	}
}

// decodeChosen parses a number that a driver may choose itself.
func decodeChosen(raw string) (string, error) {
	value, remark := splitRemark(raw)
	if strings.Trim(value, "0") != "" {
		return value, nil
	}
	if n, ok := strings.CutPrefix(remark, "driver: "); ok {
		return n, nil
	}
	return "", Because(NotInDriver, errors.New("the driver's own choice, which it does not report"))
}

// decodeKind parses the scheduler of an interface. Real input:
//
//	default (pfifo_fast)
//	fq_codel (handle 8001: options 08000100…)
func decodeKind(raw string) (string, error) {
	kind, remark := splitRemark(raw)
	if kind == "default" && remark != "" {
		kind = remark
	}
	if kind == "" {
		return "", errors.New("no scheduler is named")
	}
	return kind, nil
}

func field(e Encoding) int {
	switch e {
	case Least:
		return 0
	case Initial:
		return 1
	default:
		return 2
	}
}

// encodeTriple sets one of three sizes. A socket starts with the initial size regardless of the
// ceiling, and the kernel does not order the three (Linux 6.1 net/ipv4/tcp.c tcp_init_sock;
// knobs.md C-05), so a lower ceiling lowers the others. C-05 has already rejected a size above
// the ceiling.
func encodeTriple(e Encoding, raw, canonical string) (string, error) {
	t, err := parseTriple(raw)
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseInt(canonical, 10, 64)
	if err != nil || n < 1 {
		return "", fmt.Errorf("%s %q: want a count above zero", e, canonical)
	}
	f := field(e)
	t[f] = n
	for i := range f {
		t[i] = min(t[i], n)
	}
	for i := f + 1; i < len(t); i++ {
		t[i] = max(t[i], n)
	}
	return fmt.Sprintf("%d %d %d", t[0], t[1], t[2]), nil
}

// parseTriple parses the three numbers of one buffer file. Real input:
//
//	4096	131072	33554432
//	4096	16384	4194304
//	4096	87380	6291456
func parseTriple(raw string) ([3]int64, error) {
	var t [3]int64
	fields := strings.Fields(raw)
	if len(fields) != len(t) {
		return t, fmt.Errorf("buffer sizes %q: want three numbers", raw)
	}
	for i, f := range fields {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return t, fmt.Errorf("buffer sizes %q: want three numbers", raw)
		}
		t[i] = n
	}
	return t, nil
}
