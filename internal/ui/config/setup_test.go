package config

import (
	"os"
	"strings"
	"testing"

	"linerate/internal/must"
)

// TestParseSetup reads the example of docs/hub.md, and refuses what cannot be meant.
func TestParseSetup(t *testing.T) {
	_, text, _ := strings.Cut(string(must.Get(os.ReadFile("../../../docs/hub.md"))(t)), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	s := must.Get(ParseSetup([]byte(text)))(t)
	must.True(t, len(s.Groups) == 2 && s.Groups[0].MaxRate == "100mbit" && s.Groups[1].ProbeOnly && len(s.Shared) == 2 && s.Shared[1].AtOnce == 2, "%+v", s)
	must.Do(t, must.Err(ParseSetup([]byte("{}"))))
	for text, says := range map[string]string{
		"": "empty", "groups: [{hosts: [a], rate: 1}]": "line 1: unknown field", "{}\n---\n{}": "more than one document", "groups: [{hosts: [a": "line 1",
		"groups: [{hosts: []}]": "names no hosts", "groups: [{hosts: ['[']}]": "no pattern", "groups: [{hosts: [a], max_rate: 3}]": "max_rate", "groups: [{hosts: [a], max_share: 0%}]": "max_share",
		"shared: [{between: [a, b], at_once: 1}]": "needs a name", "shared: [{name: x, between: [a, b]}]": "at_once of 0", "shared: [{name: x, between: [a], at_once: 1}]": "two patterns",
		"shared: [{name: x, between: [a, b], around: [c], at_once: 1}]": "two patterns", "shared: [{name: x, around: [a], at_once: 1}, {name: x, around: [b], at_once: 1}]": "has this name",
	} {
		must.Say(t, must.Err(ParseSetup([]byte(text))), says, "%q", text)
	}
}
