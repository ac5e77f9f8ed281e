package results

import (
	_ "embed"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
)

//go:embed testdata/old.txt
var old string

func TestOnlyWhatWasRunChanges(t *testing.T) {
	d := Parse(old)
	d.Replace(Section{
		Name: "udp", Title: "UDP", Body: "new udp\n",
		Verdicts: []Verdict{{"udp", "1472 B", ">= 0.95", "0.99 | x", "met"}},
	})
	d.Replace(Section{Name: "pacing", Title: "Pacing", Body: "new pacing"})
	got := d.Render("", []string{"tcp", "udp", "pacing"})
	must.Golden(t, filepath.Join("testdata", "new.txt"), got)
	must.Equal(t, Parse(got).Render("", []string{"tcp", "udp", "pacing"}), got, "a second pass changes it")
}

func TestNewDocument(t *testing.T) {
	d := Parse("")
	d.Replace(Section{Name: "tcp", Title: "T", Body: "b"})
	must.Equal(t, d.Render("# H", nil), "# H\n\n## tcp: T\n\nb\n")
}

func TestHeadingsInsideFencesAreText(t *testing.T) {
	d := Parse("# H\n\n## tcp: T\n\n```\n## udp: no section\n```\n")
	must.True(t, len(d.parts) == 1 && strings.Contains(d.parts[0].text, "no section"), "parts are %+v", d.parts)
}

// Reading and writing a document normalises it; a second time changes nothing.
func FuzzDocument(f *testing.F) {
	f.Add(old)
	f.Add("")
	f.Add("# H\n## Summary\n| claim | a |\n## tcp: x\n```\n## y\n")
	f.Fuzz(func(t *testing.T, text string) {
		once := Parse(text).Render("# H", []string{"tcp"})
		if strings.Contains(once, "```") {
			return // an open fence swallows what follows it
		}
		must.Equal(t, Parse(once).Render("# H", []string{"tcp"}), once, "%q became %q, then", text, once)
	})
}
