package profile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/model"
)

// Text returns p as a profile file: deterministic YAML. It parses back to p if p is valid and
// format returns no line breaks. format, if not nil, returns a value for people, written as a
// comment.
func (p Profile) Text(format func(model.KnobID, string) string) []byte {
	var b bytes.Buffer
	b.WriteString("# Settings for linerate, with the evidence for them: linerate profile show\n")
	fmt.Fprintf(&b, "profile: %d\n", Version)
	if p.Title != "" {
		fmt.Fprintf(&b, "title: %s\n", quote(p.Title))
	}
	b.WriteString("hosts:\n")
	for _, h := range p.Hosts {
		h.text(&b, format)
	}
	if p.Evidence != nil {
		p.Evidence.text(&b)
	}
	return b.Bytes()
}

func (h Host) text(b *bytes.Buffer, format func(model.KnobID, string) string) {
	fmt.Fprintf(b, "  - role: %s\n", h.Role)
	if h.System != "" {
		fmt.Fprintf(b, "    system: %s\n", quote(h.System))
	}
	if h.Kernel != "" {
		fmt.Fprintf(b, "    kernel: %s\n", quote(h.Kernel))
	}
	if h.LinkRate > 0 {
		fmt.Fprintf(b, "    link_rate: %s\n", number(float64(h.LinkRate)))
	}
	if h.MTU > 0 {
		fmt.Fprintf(b, "    mtu: %d\n", h.MTU)
	}
	b.WriteString("    knobs:\n")
	for _, s := range h.Settings {
		fmt.Fprintf(b, "      %s: %s", s.Knob, quote(s.Value))
		if format != nil {
			if text := brief(format(s.Knob, s.Value)); text != s.Value {
				b.WriteString(" # " + text)
			}
		}
		b.WriteByte('\n')
	}
	if len(h.Before) > 0 {
		b.WriteString("    before:\n")
	}
	for _, name := range slices.Sorted(maps.Keys(h.Before)) {
		fmt.Fprintf(b, "      %s: %s\n", quote(name), quote(h.Before[name]))
	}
}

func (e Evidence) text(b *bytes.Buffer) {
	b.WriteString("evidence:\n")
	for _, l := range [][2]string{{"session", e.Session}, {"setting", e.Setting}, {"baseline", e.Baseline}, {"objective", string(e.Objective)}} {
		if l[1] != "" {
			fmt.Fprintf(b, "  %s: %s\n", l[0], quote(l[1]))
		}
	}
	if len(e.Print) > 0 {
		b.WriteString("  fingerprint:\n")
	}
	for _, k := range fingerprint.Keys() {
		if text := e.Print[k]; text != "" {
			fmt.Fprintf(b, "    %s: %s\n", k, quote(text))
		}
	}
	if !e.Date.IsZero() {
		fmt.Fprintf(b, "  date: %s\n", quote(e.Date.UTC().Format(time.RFC3339)))
	}
	if len(e.Verdicts) > 0 {
		b.WriteString("  verdicts:\n")
	}
	for _, v := range e.Verdicts {
		fmt.Fprintf(b, "    - outcome: %s\n", v.Outcome)
		for _, l := range [][2]string{{"direction", string(v.Direction)}, {"metric", string(v.Metric)}, {"guard", string(v.Guard)}} {
			if l[1] != "" {
				fmt.Fprintf(b, "      %s: %s\n", l[0], quote(l[1]))
			}
		}
		fmt.Fprintf(b, "      blocks: %d\n      estimate: %s\n", v.Blocks, number(v.Estimate))
		for _, l := range []struct {
			key   string
			value model.Bound
		}{{"low", v.Low}, {"high", v.High}} {
			if !math.IsInf(float64(l.value), 0) { // left out if unbounded
				fmt.Fprintf(b, "      %s: %s\n", l.key, number(float64(l.value)))
			}
		}
		fmt.Fprintf(b, "      confidence: %s\n", number(v.Confidence))
	}
}

// quote returns s as a double-quoted scalar; a JSON string is a valid one (YAML 1.2.2 section
// 7.3.1 and appendix on JSON).
func quote(s string) string {
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }
