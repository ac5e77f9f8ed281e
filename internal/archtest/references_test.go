package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"linerate/internal/must"
)

// module is the root of the module, seen from this package.
const module = "../.."

// A reference is a text of docs/reference with the sections of it that are
// meant, as in "statistics.md sections 4.4, 6.1 and 6.2".
var (
	reference = regexp.MustCompile(`\b(statistics|diagnosis|knobs|wire-protocols)\.md(?:[,:]? (?:sections?|rules?) ((?:[0-9]+(?:\.[0-9]+)*[a-z]?|B[0-9]{2})(?:(?:,| and| to)? (?:[0-9]+(?:\.[0-9]+)*[a-z]?|B[0-9]{2})\b)*))?`)
	section   = regexp.MustCompile(`[0-9]+(?:\.[0-9]+)*[a-z]?|B[0-9]{2}`)
	heading   = regexp.MustCompile(`(?m)^#+ ([0-9]+(?:\.[0-9]+)*[a-z]?)[. ]`)
	ruleRow   = regexp.MustCompile(`(?m)^\| (B[0-9]{2}) \|`)
	rule      = regexp.MustCompile(`"(B[0-9]{2})"|\brules? (B[0-9]{2})\b`)
	comment   = regexp.MustCompile(`\n\t*// ?`)
	link      = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// sectionsOf returns the numbers of the sections and rules of a text.
func sectionsOf(t *testing.T, name string) map[string]bool {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(module, "docs", "reference", name+".md")))(t)
	found := map[string]bool{}
	for _, expr := range []*regexp.Regexp{heading, ruleRow} {
		for _, m := range expr.FindAllSubmatch(text, -1) {
			found[string(m[1])] = true
		}
	}
	// Some sections have numbered rules of their own, such as 5.3, rule 4.
	return found
}

// texts calls f with every file of the module that people read and wrote.
func texts(t *testing.T, f func(path, text string)) {
	t.Helper()
	must.Do(t, filepath.WalkDir(module, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, ".md"):
			return nil
		}
		b, err := os.ReadFile(path)
		if err == nil {
			f(path, string(b))
		}
		return err
	}))
}

// TestReferences demands that everything the code, the help and the documents
// refer to is there: sections and rules of docs/reference, and linked files.
func TestReferences(t *testing.T) {
	have := map[string]map[string]bool{}
	for _, name := range []string{"statistics", "diagnosis", "knobs", "wire-protocols"} {
		have[name] = sectionsOf(t, name)
		must.Need(t, len(have[name]) >= 8, "%s: only %d sections found", name, len(have[name]))
	}
	seen := 0
	texts(t, func(path, text string) {
		text = comment.ReplaceAllString(text, " ") // a reference may be broken over two lines
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			seen++
			for _, s := range section.FindAllString(m[2], -1) {
				must.True(t, have[m[1]][s], "%s: %s: there is no %s in docs/reference/%s.md", path, m[0], s, m[1])
			}
		}
		if strings.HasSuffix(path, ".go") && !strings.Contains(path, "archtest") {
			for _, m := range rule.FindAllStringSubmatch(text, -1) {
				id := m[1] + m[2]
				must.True(t, have["diagnosis"][id], "%s: rule %s is not in docs/reference/diagnosis.md", path, id)
			}
		}
		if strings.HasSuffix(path, ".md") {
			checkLinks(t, path, text)
		}
	})
	must.True(t, seen >= 60, "only %d references found: the test looks for the wrong thing", seen)
}

// checkLinks demands that the files which a document links are there.
func checkLinks(t *testing.T, path, text string) {
	t.Helper()
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		must.OK(t, must.Err(os.Stat(filepath.Join(filepath.Dir(path), m[1]))), "%s links %s", path, m[1])
	}
}
