package selftest

import (
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"linerate/internal/core/model"
	"linerate/internal/regex"
)

// What a report shows in place of private data.
const (
	hiddenAddress = "(address)"
	hiddenMAC     = "(MAC)"
	hiddenName    = "(name)"
)

var (
	// macForm is a hardware address, with colons or hyphens.
	macForm = regex.New(`(?i)\b[0-9a-f]{2}([:-][0-9a-f]{2}){5}\b`)
	// addressForm matches all that may be an IP address; netip decides.
	addressForm = regex.New(`(?i)[0-9a-f]*[:.][0-9a-f:.]*[0-9a-f:]`)
)

// hide removes addresses, hardware addresses, and the names of the machine and of its
// user from all lines.
func (r *Report) hide(f model.HostFacts, getenv func(string) string) {
	var names []string
	for _, n := range []string{f.Name, strings.Split(f.Name, ".")[0], getenv("HOSTNAME"), getenv("COMPUTERNAME"), getenv("USER"), getenv("LOGNAME"), getenv("USERNAME"), getenv("SUDO_USER")} {
		if len(n) > 1 && n != "root" && n != "localhost" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return len(b) - len(a) }) // longest first
	for i := range r.Lines {
		r.Lines[i].Name, r.Lines[i].Text = hidden(r.Lines[i].Name, names), hidden(r.Lines[i].Text, names)
	}
}

// hidden returns text without addresses and names.
func hidden(text string, names []string) string {
	text = macForm.ReplaceAllString(text, hiddenMAC)
	text = addressForm.ReplaceAllStringFunc(text, func(s string) string {
		a, err := netip.ParseAddr(s)
		if ap, portErr := netip.ParseAddrPort(s); err != nil && portErr == nil {
			a, err = ap.Addr(), nil
		}
		if err != nil || a.IsLoopback() || a.IsUnspecified() {
			return s
		}
		return hiddenAddress
	})
	for _, n := range names {
		text = regexp.MustCompile(`(?i)(^|[^\pL\pN])`+regexp.QuoteMeta(n)+`($|[^\pL\pN])`).ReplaceAllString(text, "${1}"+hiddenName+"${2}")
	}
	return text
}
