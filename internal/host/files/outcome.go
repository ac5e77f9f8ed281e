package files

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// Outcome is what will be in force on a host after its next boot.
//
// Its keys are paths: "sysctl/net.core.rmem_max" is the text of a kernel setting,
// "link/eno1/link.mtu" a setting of an interface by the name of its knob, "link/eno1/name"
// the interface's future name, and "link/eno1/network/Network.Address/192.0.2.1/24" one
// element of a list. A format may have further keys; it keeps what it cannot interpret as raw
// text, so that a change of it shows.
type Outcome struct {
	Values map[string]model.FileLine // Text is the value; without File it is the kernel's default
	Judge  string                    // the source: "netplan generate", "documented rules of systemd.network(5)"
}

// Set adds a value. A later one replaces an earlier one.
func (o *Outcome) Set(key string, l model.FileLine) {
	if o.Values == nil {
		o.Values = make(map[string]model.FileLine)
	}
	o.Values[key] = l
}

// LinkKey returns the key of a setting of an interface.
func LinkKey(link string, id model.KnobID) string { return "link/" + link + "/" + string(id) }

// SysctlKey returns the key of a kernel setting by its native name.
func SysctlKey(name string) string { return "sysctl/" + name }

// Refusal says why linerate does not write a permanent file.
type Refusal struct {
	File string // file that prevents it; "" if the cause is not a file
	Line int    // 1…; 0: the whole file
	Why  string // what would go wrong: "it would lose its addresses"

	edited bool // File is linerate's own, and was edited by hand
}

// Error implements error.
func (r *Refusal) Error() string {
	switch {
	case r.File == "":
		return r.Why
	case r.Line == 0:
		return r.File + ": " + r.Why
	}
	return fmt.Sprintf("%s:%d: %s", r.File, r.Line, r.Why)
}

// Refuse returns a refusal because of a line, or of no file. hint says what to change by
// hand, "" if nothing is known.
func Refuse(l model.FileLine, hint, why string, args ...any) error {
	return fault.WithHint(&Refusal{File: l.File, Line: l.Number, Why: fmt.Sprintf(why, args...)}, "%s", hint)
}

// said returns a key in words.
func said(key string) string {
	if rest, ok := strings.CutPrefix(key, "link/"); ok {
		if link, what, ok := strings.Cut(rest, "/"); ok {
			return what + " of " + link
		}
	}
	return key
}

// Prove returns a *Refusal unless exactly the keys of want differ between two outcomes, and
// have the wanted values afterwards.
func Prove(before, after Outcome, want map[string]string) error {
	var keys []string
	for key := range before.Values {
		keys = append(keys, key)
	}
	for key := range after.Values {
		keys = append(keys, key)
	}
	for key := range want {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	const byHand = "if that is right for this host, write the setting into the files of its owner by hand"
	for _, key := range slices.Compact(keys) {
		was, had := before.Values[key]
		is, has := after.Values[key]
		text, wanted := want[key]
		at := is
		if at.File == "" {
			at = was
		}
		switch {
		case wanted && is.Text != text:
			return Refuse(at, "change that line, or take it out", "%s would be %s after the next start, not %s", said(key), cmp.Or(is.Text, "unset"), text)
		case wanted || had && has && was.Text == is.Text:
		case had && !has:
			return Refuse(was, "", "%s = %s would no longer hold after the next start", said(key), was.Text)
		case !had:
			return Refuse(is, byHand, "%s would become %s after the next start, which is not set today", said(key), is.Text)
		default:
			return Refuse(at, byHand, "%s would become %s after the next start; it is %s today", said(key), is.Text, was.Text)
		}
	}
	return nil
}
