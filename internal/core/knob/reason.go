package knob

import (
	"cmp"
	"errors"
	"io/fs"

	"linerate/internal/core/fact"
)

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
	NotReported   Reason = "not_reported"       // the host did not report it, or not why
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
		{NotInDriver, "the device or its driver has none, or does not report it"},
		{NotSet, "nothing is set, and what holds then is not known"},
		{NoPath, "the interface or the route of the data path is not known"},
		{NoRights, "reading it needs more rights"},
		{NotReported, "the host did not report it"},
		{OtherReason, "something else: see the words"},
	}
}

// Because returns err with the reason why the value of a setting is unknown.
func Because(r Reason, err error) error { return &because{r, err} }

type because struct {
	reason Reason
	error
}

// Unwrap returns the cause.
func (b *because) Unwrap() error { return b.error }

// Unread returns the unknown value of a setting that could not be read. device says that the
// driver of a device keeps the setting, not the kernel.
func Unread(err error, device bool) fact.Of[string] {
	r := OtherReason
	switch own, ok := errors.AsType[*because](err); {
	case ok:
		r = own.reason
	case errors.Is(err, fs.ErrPermission):
		r = NoRights
	case !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, fs.ErrNotExist):
	case device:
		r = NotInDriver
	default:
		r = NotInKernel
	}
	return fact.Coded[string](string(r), err.Error())
}

// ReasonOf returns why the value of a setting is unknown. A code that is not of the list, which
// another host may report, is OtherReason.
func ReasonOf(v fact.Of[string]) Reason {
	code := cmp.Or(Reason(v.Code()), NotReported)
	for _, r := range Reasons() {
		if r.Reason == code {
			return code
		}
	}
	return OtherReason
}
