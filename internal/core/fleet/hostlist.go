package fleet

import (
	"fmt"
	"strconv"
	"strings"
)

// MostHosts limits a list of hosts: all pairs of more would take days.
const MostHosts = 256

// Hostlist expands a host list of Slurm, in the form of SLURM_JOB_NODELIST (srun(1), option
// --nodelist):
//
//	node[001-003,7],gpu1
//	rack[0-1]n[1-2]
func Hostlist(text string) ([]string, error) {
	var out []string
	for _, part := range outside(text) {
		names, err := expand(part)
		if err != nil {
			return nil, fmt.Errorf("%q in the host list %q: %w", part, text, err)
		}
		if out = append(out, names...); len(out) > MostHosts {
			return nil, fmt.Errorf("more than %d hosts", MostHosts)
		}
	}
	return out, nil
}

// outside splits text at the commas outside brackets.
func outside(text string) (parts []string) {
	depth, from := 0, 0
	for i, c := range text + "," {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ',' && depth <= 0:
			if part := strings.TrimSpace(text[from:i]); part != "" {
				parts = append(parts, part)
			}
			from = i + 1
		}
	}
	if from < len(text) { // a bracket is not closed
		parts = append(parts, text[from:])
	}
	return parts
}

// expand returns the names of one part, with all its brackets.
func expand(part string) ([]string, error) {
	head, rest, some := strings.Cut(part, "[")
	if !some {
		if strings.ContainsAny(part, "] \t") {
			return nil, fmt.Errorf("this is no name")
		}
		return []string{part}, nil
	}
	inside, tail, closed := strings.Cut(rest, "]")
	if !closed {
		return nil, fmt.Errorf("a bracket is not closed")
	}
	tails, err := expand(tail)
	if err != nil {
		return nil, err
	}
	var out []string
	for span := range strings.SplitSeq(inside, ",") {
		first, last, ranged := strings.Cut(span, "-")
		if !ranged {
			last = first
		}
		low, err := strconv.ParseUint(first, 10, 32)
		high, err2 := strconv.ParseUint(last, 10, 32)
		if err != nil || err2 != nil || high < low {
			return nil, fmt.Errorf("%q is no range of numbers", span)
		}
		for n := low; n <= high; n++ {
			for _, t := range tails {
				if out = append(out, fmt.Sprintf("%s%0*d%s", head, len(first), n, t)); len(out) > MostHosts {
					return nil, fmt.Errorf("more than %d hosts", MostHosts)
				}
			}
		}
	}
	return out, nil
}
