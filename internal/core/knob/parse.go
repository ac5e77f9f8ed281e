package knob

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// maxName is the longest name of a congestion control in bytes: TCP_CA_NAME_MAX minus the final
// zero, Linux include/net/tcp.h.
const maxName = 15

// ValueError reports an invalid value of a knob, and what is valid.
type ValueError struct {
	Knob model.KnobID
	Text string
	Want string // "a size from 4 KiB to 2 GiB, such as 64KiB"
	Err  error  // the unit parser's error; nil if the text is merely out of range
}

func (e *ValueError) Error() string {
	s := fmt.Sprintf("value %q of %s: want %s", e.Text, e.Knob, e.Want)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the error of the unit's parser.
func (e *ValueError) Unwrap() error { return e.Err }

// Parse converts a value in the user's notation to the canonical text: "64KiB" becomes "65536",
// "on" becomes "1". Canonical texts parse to themselves. The error is a *ValueError that says
// what is valid.
func (k Knob) Parse(text string) (string, error) {
	text = strings.TrimSpace(text)
	if k.Zero != "" && (text == "0" || strings.EqualFold(text, k.Zero)) {
		return "0", nil
	}
	switch k.Type {
	case TypeBytes:
		b, err := units.ParseBytes(text)
		return k.inRange(text, int64(b), err)
	case TypeInt:
		if i := slices.IndexFunc(k.Named, func(c Choice) bool { return c.Value == text }); i >= 0 {
			return text, nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil { // strconv's own text repeats the value and names a Go function
			err = errors.Unwrap(err)
		}
		return k.inRange(text, n, err)
	case TypeRate:
		r, err := units.ParseBitRate(text)
		return k.inRange(text, int64(math.Round(float64(r))), err)
	case TypeBool:
		switch strings.ToLower(text) {
		case "1", "on", "yes", "true", "enabled":
			return "1", nil
		case "0", "off", "no", "false", "disabled":
			return "0", nil
		}
	case TypeEnum:
		i := slices.IndexFunc(k.Choices, func(c Choice) bool {
			return c.Value == text || strings.EqualFold(c.Meaning, text)
		})
		if i >= 0 {
			return k.Choices[i].Value, nil
		}
	case TypeName:
		if text != "" && len(text) <= maxName && strings.Trim(text, nameBytes) == "" {
			return text, nil
		}
	case TypeWords:
		if text != "" && len(text) <= maxWords && strings.Trim(text, nameBytes+",;/.+:") == "" {
			return text, nil
		}
	}
	return "", &ValueError{Knob: k.ID, Text: text, Want: k.want()}
}

// maxWords limits a list of words in bytes, far above the link modes of any card and the
// processors of any machine.
const maxWords = 2 << 10

const nameBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

func (k Knob) inRange(text string, n int64, err error) (string, error) {
	if err != nil || n < k.Min || n > k.Max {
		return "", &ValueError{Knob: k.ID, Text: text, Want: k.want(), Err: err}
	}
	return strconv.FormatInt(n, 10), nil
}

// want describes what Parse accepts.
func (k Knob) want() string {
	var s string
	switch k.Type {
	case TypeBytes:
		s = fmt.Sprintf("a size from %s to %s, such as 64KiB", units.Bytes(k.Min), units.Bytes(k.Max))
		if k.Max < 1<<16 {
			s = fmt.Sprintf("%d to %d bytes", k.Min, k.Max)
		}
	case TypeInt:
		s = fmt.Sprintf("%d to %d %s", k.Min, k.Max, k.Unit)
		outside := slices.DeleteFunc(slices.Clone(k.Named), func(c Choice) bool {
			n, err := strconv.ParseInt(c.Value, 10, 64)
			return err == nil && n >= k.Min && n <= k.Max
		})
		if len(outside) > 0 {
			s = namedText(outside) + ", or " + s
		}
	case TypeRate:
		s = fmt.Sprintf("a rate from %s to %s, such as 100M", units.BitRate(k.Min), units.BitRate(k.Max))
	case TypeBool:
		s = "on or off"
	case TypeEnum:
		all := lists.Each(k.Choices, func(c Choice) string { return c.Value + " (" + c.Meaning + ")" })
		s = strings.Join(all, ", ")
	case TypeName:
		s = fmt.Sprintf("a name of 1 to %d letters, digits, - and _, such as cubic", maxName)
	case TypeWords:
		s = "words with commas or semicolons between, without blanks, such as 0-3;8"
	}
	if k.Zero != "" {
		s += ", or " + k.Zero
	}
	return s
}

// Format formats a canonical value for people: "64 KiB", "on", "1 (on, with a random offset)".
// It returns any other text unchanged.
func (k Knob) Format(canonical string) string {
	if k.Zero != "" && canonical == "0" {
		return k.Zero
	}
	n, err := strconv.ParseInt(canonical, 10, 64)
	for _, c := range k.Named {
		if c.Value == canonical {
			return c.Value + " (" + c.Meaning + ")"
		}
	}
	switch {
	case k.Type == TypeBytes && err == nil && k.Max < 1<<16: // packet sizes are usually given in bytes
		return canonical + " B"
	case k.Type == TypeBytes && err == nil:
		return units.Bytes(n).String()
	case k.Type == TypeInt && n == 1 && err == nil && len(k.Unit) > len("ms"): // for words, not for short units
		return canonical + " " + strings.TrimSuffix(k.Unit, "s")
	case k.Type == TypeInt && err == nil && k.Unit != "":
		return canonical + " " + k.Unit
	case k.Type == TypeRate && err == nil:
		return units.BitRate(n).String()
	case k.Type == TypeBool && canonical == "1":
		return "on"
	case k.Type == TypeBool && canonical == "0":
		return "off"
	case k.Type == TypeEnum:
		for _, c := range k.Choices {
			if c.Value == canonical {
				return c.Value + " (" + c.Meaning + ")"
			}
		}
	}
	return canonical
}
