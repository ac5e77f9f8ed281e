package knob

import "strings"

// Reason is a short word for why the value of a setting is not known. The list is
// closed: documents name nothing else.
type Reason string

// The reasons.
const (
	NotOnSystem   Reason = "not_on_this_system" // this operating system has no such setting
	NotByLinerate Reason = "not_by_linerate"    // linerate knows its name there and cannot use it
	NotInKernel   Reason = "not_in_kernel"      // this kernel, network namespace or machine has none
	NotInDriver   Reason = "not_in_driver"      // the device or its driver has none, or does not tell
	NotSet        Reason = "not_set"            // nothing is set, and what holds then is not known
	NoPath        Reason = "no_path"            // the interface or route of the data path is not known
	NoRights      Reason = "no_rights"          // reading it needs more rights
	NotTold       Reason = "not_told"           // the host did not say, or not why
	OtherReason   Reason = "other"              // anything else: the words tell
)

// Reasons returns all reasons, with what each means for people.
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

// ReasonOf returns the reason in words that say why a setting is not known: those
// of an [Error] and of the mechanisms of package host/knob, as a host of any version
// tells them and as stored sessions hold them.
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
