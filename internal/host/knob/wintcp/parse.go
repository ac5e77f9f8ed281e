package wintcp

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxOutput bounds what is read, far above what these cmdlets print.
const maxOutput = 256 << 10

// parseList parses the output of Format-List: one block of "Name : value" lines per object,
// separated by empty lines. A long value continues in indented lines. Real input:
//
//	SettingName                     : Internet
//	MinRto(ms)                      : 300
//	AutoTuningLevelLocal            : Normal
//
// Labels are converted to parameter names: MinRto(ms) to MinRtoMs, and
// InitialCongestionWindow(MSS) to InitialCongestionWindowMss.
func parseList(output string) ([]map[string]string, error) {
	if len(output) > maxOutput {
		return nil, errors.New("the answer is too long")
	}
	var all []map[string]string
	var block map[string]string
	last := ""
	for line := range strings.Lines(output) {
		line = strings.TrimRight(line, "\r\n \t")
		name, value, ok := strings.Cut(line, ":")
		switch {
		case line == "":
			block, last = nil, ""
		case strings.HasPrefix(line, " ") && last != "":
			block[last] += strings.TrimSpace(line)
		case ok && strings.TrimSpace(name) != "":
			if block == nil {
				block = make(map[string]string)
				all = append(all, block)
			}
			last = parameter(strings.TrimSpace(name))
			block[last] = strings.TrimSpace(value)
		default:
			return nil, fmt.Errorf("line %q: want NAME : VALUE", line)
		}
	}
	return all, nil
}

// parameter returns the name of a parameter for a label of the default view.
func parameter(label string) string {
	name, unit, ok := strings.Cut(label, "(")
	if !ok {
		return label
	}
	unit = strings.ToLower(strings.TrimSuffix(unit, ")"))
	if unit == "" {
		return name
	}
	return name + strings.ToUpper(unit[:1]) + unit[1:]
}

// list parses a value in braces: "{1514, 4088, 9014}".
func list(value string) []string {
	inner := strings.TrimSuffix(strings.TrimPrefix(value, "{"), "}")
	var all []string
	for one := range strings.SplitSeq(inner, ",") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// parse parses the answer to get.
func (s source) parse(output string) (answer, error) {
	blocks, err := parseList(output)
	if err != nil {
		return answer{}, err
	}
	if s.group == ofKeyword {
		i := slices.IndexFunc(blocks, func(b map[string]string) bool { return strings.EqualFold(b["RegistryKeyword"], s.name) })
		if i < 0 {
			return answer{}, fmt.Errorf("the driver has no such keyword: %w", errors.ErrUnsupported)
		}
		return s.parseKeyword(blocks[i])
	}
	if len(blocks) != 1 {
		return answer{}, fmt.Errorf("want one object in the answer, got %d", len(blocks))
	}
	b := blocks[0]
	a := answer{policy: s.name == "AutoTuningLevelLocal" && b["AutoTuningLevelEffective"] == "GroupPolicy"}
	label := map[string]string{"NlMtuBytes": "NlMtu", "MediaConnectionState": "MediaConnectionState"}[s.name]
	label = cmp.Or(label, s.name)
	a.value = b[label]
	if s.name == "MediaConnectionState" {
		a.value = map[string]string{"Connected": "1", "1": "1", "Disconnected": "0", "2": "0"}[a.value]
	}
	if s.group == ofCongestion { // CUBIC here, cubic for netsh and on every other system
		a.value = strings.ToLower(a.value)
	}
	if a.value == "" {
		return a, fmt.Errorf("this Windows does not report it: %w", errors.ErrUnsupported)
	}
	return a, nil
}

// parseKeyword parses an adapter's keyword with its valid values or range. Keywords are texts
// in the registry even if they are numbers.
func (s source) parseKeyword(b map[string]string) (answer, error) {
	a := answer{valueIsAKeyword: true, values: list(b["ValidRegistryValues"])}
	now := list(b["RegistryValue"])
	if len(now) != 1 {
		return a, fmt.Errorf("the driver does not report it: %w", errors.ErrUnsupported)
	}
	a.value = now[0]
	for name, field := range map[string]*int64{
		"NumericParameterMinValue": &a.least, "NumericParameterMaxValue": &a.most, "NumericParameterStepValue": &a.step,
	} {
		if n, err := strconv.ParseInt(b[name], 10, 64); err == nil {
			*field = n
		}
	}
	return a, nil
}
