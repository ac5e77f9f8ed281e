package knob

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
)

// SameText returns raw with every run of white space as one blank and none at
// the ends. Two native texts are the same value when their SameText is.
func SameText(raw string) string { return strings.Join(strings.Fields(raw), " ") }

// Encode returns the native text that gives the knob the canonical value,
// where raw is the native text now. The rest of a text that holds several
// knobs is kept, so that two knobs of one place compose.
func (k Knob) Encode(raw, canonical string) (string, error) {
	return encode(k.Native[runtime.GOOS].Encoding, raw, canonical)
}

// Decode returns the knob's canonical value in the native text raw.
func (k Knob) Decode(raw string) (string, error) {
	return decode(k.Native[runtime.GOOS].Encoding, raw)
}

func encode(e Encoding, raw, canonical string) (string, error) {
	if e == Plain {
		return canonical, nil
	}
	t, err := parseTriple(raw)
	if err != nil {
		return "", err
	}
	n, err := strconv.ParseInt(canonical, 10, 64)
	if err != nil || n < 1 {
		return "", fmt.Errorf("ceiling %q: want a count of bytes", canonical)
	}
	// A socket starts with the initial size whatever the ceiling says, and the
	// kernel does not order the three itself (Linux 6.1 net/ipv4/tcp.c
	// tcp_init_sock; knobs.md C-05), so a lower ceiling lowers the others.
	return fmt.Sprintf("%d %d %d", min(t[0], n), min(t[1], n), n), nil
}

func decode(e Encoding, raw string) (string, error) {
	if e == Plain {
		return SameText(raw), nil
	}
	t, err := parseTriple(raw)
	if err != nil {
		return "", err
	}
	return strconv.FormatInt(t[2], 10), nil
}

// parseTriple reads the three byte counts of one buffer file. Real input:
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

// Plan returns changes in the order in which they should be made, where now
// holds the canonical values of today: what grows first, limits before what
// they limit; then knobs without a stage; then what shrinks, limits last
// (knobs.md section 0, rule 3). Within that, the less risky come first, so
// that a harmless knob that fails is found before a risky one is touched; the
// caller's order decides the rest. When MTUs change on two hosts, which host
// goes first is for the caller of both (rule 4).
func Plan(now map[model.KnobID]string, changes []model.Assignment) []model.Assignment {
	type ranked struct {
		model.Assignment
		phase, stage, risk int
	}
	all := make([]ranked, len(changes))
	for i, c := range changes {
		k, _ := ByID(c.Knob) // an unknown knob has no stage and no risk
		r := ranked{Assignment: c, phase: 1, risk: int(k.Risk)}
		if k.Stage != StageNone {
			r.phase, r.stage = 0, int(k.Stage)
			if shrinks(now[c.Knob], c.Value) {
				r.phase, r.stage = 2, -int(k.Stage)
			}
		}
		all[i] = r
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.phase, b.phase), cmp.Compare(a.stage, b.stage), cmp.Compare(a.risk, b.risk))
	})
	ordered := make([]model.Assignment, len(all))
	for i, r := range all {
		ordered[i] = r.Assignment
	}
	return ordered
}

func shrinks(from, to string) bool {
	a, errA := strconv.ParseInt(from, 10, 64)
	b, errB := strconv.ParseInt(to, 10, 64)
	return errA == nil && errB == nil && b < a
}
