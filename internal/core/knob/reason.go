package knob

import "strings"

// Reason is a short word for why the value of a setting is unknown. The list is closed:
// documents use no other words.
type Reason string

// The reasons.
const (
	NotOnSystem   Reason = "not_on_this_system" // this operating system has no such setting
	NotByLinerate Reason = "not_by_linerate"    // linerate knows its name there but cannot use it
	NotInKernel   Reason = "not_in_kernel"      // this kernel, network namespace or machine has none
	NotInDriver   Reason = "not_in_driver"      // the device or its driver has none, or does not report it
	NotSet        Reason = "not_set"            // not set, and the value in force is unknown
	NoPath        Reason = "no_path"            // the interface or route of the data path is unknown
	NoRights      Reason = "no_rights"          // reading it needs more rights
	NotTold       Reason = "not_told"           // the host did not report it, or not why
	OtherReason   Reason = "other"              // anything else: see the text
)

// Reasons returns all reasons, with their meanings.
func Reasons() []struct {
	Reason Reason
	Words  string
} {
	return []struct {
		Reason Reason
		Words  string
	}{
		{NotOnSystem, "this operating system has no such setting"},
		{NotByLinerate, "linerate knows its name on that system and cannot use it"},
		{NotInKernel, "this kernel, network namespace or machine has none"},
		{NotInDriver, "the device or its driver has none, or does not tell"},
		{NotSet, "nothing is set, and what holds then is not known"},
		{NoPath, "the interface or the route of the data path is not known"},
		{NoRights, "reading it needs more rights"},
		{NotTold, "the host did not say"},
		{OtherReason, "something else, which `words` beside it says"},
	}
}

// ReasonOf classifies a text that says why a setting is unknown: from an [Error] or a mechanism
// of package host/knob, as reported by a host of any version or stored in a session.
func ReasonOf(words string) Reason {
	has := func(parts ...string) bool {
		for _, p := range parts {
			if strings.Contains(words, p) {
				return true
			}
		}
		return false
	}
	switch {
	case words == "", words == "not known", has("not told"):
		return NotTold
	case has("permission denied", "operation not permitted", "Access is denied"):
		return NoRights
	case has("of the data path is not known"):
		return NoPath
	case has("linerate cannot use"):
		return NotByLinerate
	case has("driver", "device", "capability", "cannot wake", "no such event", "does not tell", "has no speed"):
		return NotInDriver
	case has("has no such setting"):
		return NotOnSystem
	case has("is not set", "nothing is offered", "has none"):
		return NotSet
	case has("this kernel", "this machine has no", "this Windows", "file does not exist", "unsupported operation"):
		return NotInKernel
	}
	return OtherReason
}
