package knob

import (
	"strings"

	"linerate/internal/regex"
)

// cited matches a citation of the catalogue: one or more tags in brackets, with a file or
// section, such as [B13 tcp_input.c] or [B13, B14 uipc_sockbuf.c; tcp_input.c].
var cited = regex.New(`\[([A-Z][A-Za-z0-9.]*(?:, [A-Z][A-Za-z0-9.]*)*)( [^\]]*)?\]`)

// sources maps the tags to their meanings, as in docs/reference/knobs.md section 0.
func sources() map[string]string {
	return map[string]string{
		"L6.1":   "Linux 6.1 source",
		"Ldoc":   "Linux documentation, ip-sysctl.rst",
		"Lpatch": "a patch on a Linux mailing list",
		"B12":    "FreeBSD 12 manual",
		"B13":    "FreeBSD 13 source",
		"B14":    "FreeBSD 15-CURRENT source",
		"X":      "macOS source, xnu-11417",
		"W":      "Microsoft documentation",
		"T":      "TuneD",
		"NP":     "netplan",
		"NM":     "NetworkManager",
		"SD":     "systemd.link(5)",
		"G":      "constants of golang.org/x/sys",
		"E18":    "an experiment on Linux 6.18",
		"ES":     "ESnet on host tuning",
		"K":      "not confirmed on a real machine yet",
	}
}

// Cite expands the tags in brackets in the source of a catalogue entry. An unknown tag stays.
func Cite(text string) string {
	all := sources()
	const border = "\x00" // between a citation and the text around it
	words := cited.ReplaceAllStringFunc(text, func(whole string) string {
		m := cited.FindStringSubmatch(whole)
		var names []string
		for tag := range strings.SplitSeq(m[1], ", ") {
			name, ok := all[tag]
			if !ok {
				return whole
			}
			names = append(names, name)
		}
		name := strings.Join(names, " and ")
		if of := strings.TrimSpace(m[2]); of != "" {
			name += " (" + of + ")"
		}
		return border + name + border
	})
	var parts []string
	for part := range strings.SplitSeq(words, border) {
		if part = strings.Trim(part, " ;,"); part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "; ")
}
