package native

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// entry is one setting in the terms of the system.
type entry struct {
	knob   knob.Knob
	native knob.Native
	value  string // canonical
	name   string // native name, with the interface filled in
	used   bool   // a renderer has used it
}

// rendering is one call of Render.
type rendering struct {
	in      Input
	system  string
	entries []*entry
	pages   []*page
	out     Output
	errs    []error // found while rendering
}

// resolve checks the input and finds the native setting of every knob. It omits settings that
// the system does not have.
func resolve(system string, in Input) (*rendering, error) {
	r := &rendering{in: in, system: system}
	errs := []error{in.checkNames(system)}
	seen := map[model.KnobID]bool{}
	for _, a := range in.Settings {
		if seen[a.Knob] {
			errs = append(errs, fmt.Errorf("%s: given twice: %w", a.Knob, ErrInput))
			continue
		}
		seen[a.Knob] = true
		k, err := checkValue(in.Catalogue, system, a)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		r.place(k, a)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return r, r.fitTogether()
}

// checkValue returns the knob of a if its value is canonical and in the range of system.
func checkValue(x *knob.Index, system string, a model.Assignment) (knob.Knob, error) {
	k, ok := x.ByID(a.Knob)
	if !ok {
		return k, x.UnknownError(a.Knob)
	}
	if k.Scope == knob.ScopeFlow {
		return k, fmt.Errorf("%s: belongs to the test traffic, not to a host: %w", a.Knob, ErrInput)
	}
	v, err := k.Parse(a.Value)
	if err != nil {
		return k, err
	}
	if (k.Type == knob.TypeName || k.Type == knob.TypeWords) && strings.HasPrefix(v, "-") {
		return k, fmt.Errorf("%s: value %q begins like an option of a command: %w", a.Knob, v, ErrInput)
	}
	if v != a.Value {
		return k, fmt.Errorf("%s: value %q is not canonical, want %q: %w", a.Knob, a.Value, v, ErrInput)
	}
	if k.Type != knob.TypeBytes && k.Type != knob.TypeInt || k.Zero != "" && v == "0" {
		return k, nil
	}
	n, err := strconv.ParseInt(v, 10, 64)
	if low, high := k.Bounds(system); err != nil || n < low || n > high {
		return k, &knob.ValueError{Knob: a.Knob, Text: v, Want: fmt.Sprintf("%d to %d on %s", low, high, system)}
	}
	return k, nil
}

// place finds the native setting of k, or omits it.
func (r *rendering) place(k knob.Knob, a model.Assignment) {
	n, ok := k.Native[r.system]
	omit := func(format string, args ...any) {
		r.out.Omitted = append(r.out.Omitted, model.Omission{Knob: a.Knob, Value: a.Value, Reason: fmt.Sprintf(format, args...)})
	}
	switch {
	case !ok:
		omit("%s has no such setting", r.system)
	case n.Mechanism == knob.NotYet:
		omit("%s on %s: %s", n.Name, r.system, n.Note)
	case k.ReadOnly || n.ReadOnly:
		omit("%s is a fact of the machine there, not a setting", n.Name)
	case r.in.Interface == "" && (k.Scope == knob.ScopeLink && n.Mechanism != knob.Sysctl || strings.Contains(n.Name, "{")):
		omit("a setting of a link: name its interface")
	default:
		r.entries = append(r.entries, &entry{knob: k, native: n, value: a.Value, name: expand(n.Name, r.in.Interface)})
	}
}

// expand puts the interface into a native name, as hostknob.Host does: {if} is "em0", {dev}
// is "em.0".
func expand(name, link string) string {
	unit := strings.TrimLeft(link, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
	return strings.NewReplacer("{if}", link, "{dev}", strings.TrimSuffix(link, unit)+"."+unit).Replace(name)
}

// shrinkRule is a rule for trials that a file for the next boot need not follow: a value that
// can only grow while the system runs may start smaller.
const shrinkRule = "F-06"

// fitTogether refuses values that violate a constraint, and notes unwise ones.
func (r *rendering) fitTogether() error {
	before := knob.Values{}
	for _, k := range r.in.Catalogue.All() {
		if raw, ok := r.in.Before[k.Native[r.system].Name]; ok && len(k.Native) > 0 {
			if v, err := k.Decode(r.system, raw); err == nil {
				before[k.ID] = v
			}
		}
	}
	errs := []error{r.mediaAgrees()}
	for _, v := range knob.Violations(r.system, before, r.in.Settings) {
		switch {
		case v.Constraint.ID == shrinkRule:
		case v.Constraint.Advice || r.in.Anyway:
			r.note("%s", v.Error())
		default:
			errs = append(errs, v)
		}
	}
	return errors.Join(errs...)
}

// mediaAgrees refuses a fixed speed or duplex together with negotiation.
func (r *rendering) mediaAgrees() error {
	value := func(id model.KnobID) string {
		for _, e := range r.entries {
			if e.knob.ID == id {
				return e.value
			}
		}
		return ""
	}
	speed, duplex := value("nic.media.speed"), value("nic.media.duplex")
	if value("nic.media.autoneg") == "1" && (speed != "" && speed != "0" || duplex != "" && duplex != "auto") {
		return fmt.Errorf("nic.media.autoneg 1: contradicts a fixed speed or duplex: %w", ErrInput)
	}
	return nil
}

func (r *rendering) note(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(r.out.Notes, s) {
		r.out.Notes = append(r.out.Notes, s)
	}
}

// omit records why a setting is in no file of this format.
func (r *rendering) omit(e *entry, format string, args ...any) {
	e.used = true
	r.out.Omitted = append(r.out.Omitted, model.Omission{Knob: e.knob.ID, Value: e.value, Reason: fmt.Sprintf(format, args...)})
}

// take returns the unused entries of one mechanism.
func (r *rendering) take(m knob.Mechanism) []*entry {
	var all []*entry
	for _, e := range r.entries {
		if e.native.Mechanism == m && !e.used {
			e.used = true
			all = append(all, e)
		}
	}
	return all
}

// text is one native setting with all the knobs that are part of it.
type text struct {
	name    string
	raw     string
	entries []*entry
}

// texts combines entries that share a native setting into one native text each, in the order
// of their first knob. It omits those that cannot be encoded.
func (r *rendering) texts(entries []*entry) []text {
	var all []text
	for _, e := range entries {
		i := slices.IndexFunc(all, func(t text) bool { return t.name == e.name })
		if i < 0 {
			all = append(all, text{name: e.name})
			i = len(all) - 1
		}
		all[i].entries = append(all[i].entries, e)
	}
	var out []text
	for _, t := range all {
		if t, ok := r.encode(t); ok {
			out = append(out, t)
		}
	}
	return out
}

// encode computes the native text of t, ceilings before the values that they limit.
func (r *rendering) encode(t text) (text, bool) {
	raw, known := r.in.Before[t.entries[0].native.Name]
	if !known {
		raw = r.usual(t)
	}
	slices.SortStableFunc(t.entries, func(a, b *entry) int { return stage(a) - stage(b) })
	var kept []*entry
	for _, e := range t.entries {
		next, err := e.knob.Encode(r.system, raw, e.value)
		if err != nil {
			reason := err.Error()
			if raw == "" && !errors.Is(err, errors.ErrUnsupported) {
				reason = fmt.Sprintf("a part of %s whose other parts are not known", t.name)
			}
			r.omit(e, "%s", reason)
			continue
		}
		raw = next
		kept = append(kept, e)
	}
	t.raw, t.entries = raw, kept
	for _, e := range kept { // settings of one text combine, unless they contradict each other
		if again, err := e.knob.Encode(r.system, raw, e.value); err != nil || again != raw {
			r.errs = append(r.errs, fmt.Errorf("%s %s: contradicts another setting of %s: %w", e.knob.ID, e.value, t.name, ErrInput))
		}
	}
	if strings.Trim(raw, plainBytes) != "" { // a text from before, from a profile of any author
		for _, e := range kept {
			r.omit(e, "%s would be %q, which is no plain value", t.name, raw)
		}
		return t, false
	}
	return t, len(kept) > 0
}

// plainBytes are the bytes of native texts; none of them is special to a shell in double
// quotes, or to a parser of the formats.
const plainBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _-.,:/+*"

// stage orders the settings of one text: ceilings before the values that they limit, and a
// duplex after its speed.
func stage(e *entry) int {
	if slices.Contains([]knob.Encoding{knob.DuplexDuplex, knob.MediaDuplex, knob.MediaHalf}, e.native.Encoding) {
		return int(knob.StageInitial) + 1
	}
	return int(e.knob.Stage)
}

// usual returns the parts of a shared native text that the settings do not name: the kernel's
// defaults, with a note. It returns "" if the default depends on the machine.
func (r *rendering) usual(t text) string {
	has := func(e knob.Encoding) bool {
		return slices.ContainsFunc(t.entries, func(x *entry) bool { return x.native.Encoding == e })
	}
	switch t.name {
	case "net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem": // [L6.1 net/ipv4/tcp.c tcp_init]
		if !has(knob.Ceiling) {
			return "" // depends on the machine's memory
		}
		raw := map[string]string{"net.ipv4.tcp_rmem": "4096 131072 6291456", "net.ipv4.tcp_wmem": "4096 16384 4194304"}[t.name]
		if !has(knob.Initial) || !has(knob.Least) {
			r.note("%s: what the settings do not say of its three numbers is the kernel's default", t.name)
		}
		return raw
	case "net.inet.tcp.rfc1323":
		return "1"
	case "*FlowControl":
		return "3"
	case "*SpeedDuplex":
		return "0"
	case "media":
		return "autoselect"
	}
	return ""
}
