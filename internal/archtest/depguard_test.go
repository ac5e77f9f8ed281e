package archtest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/must"
)

var update = flag.Bool("update", false, "write the import rules into .golangci.yml")

// What the generated part of .golangci.yml stands between.
const (
	rulesBegin = "      # Written by: go test ./internal/archtest -run LinterKnowsTheRules -update\n"
	rulesEnd   = "      # End of what is written from internal/archtest.\n"
)

// TestLinterKnowsTheRules: the import rules are written once, in arch_test.go.
// The linter's, which show up in an editor, are made from them.
func TestLinterKnowsTheRules(t *testing.T) {
	path := filepath.Join(module, ".golangci.yml")
	text := must.Get(os.ReadFile(path))(t)
	before, rest, ok1 := strings.Cut(string(text), rulesBegin)
	_, after, ok2 := strings.Cut(rest, rulesEnd)
	must.Need(t, ok1 && ok2, "%s lacks the lines that its rules stand between", path)
	want := before + rulesBegin + depguard() + rulesEnd + after
	switch {
	case want == string(text):
	case *update:
		must.Do(t, os.WriteFile(path, []byte(want), 0o644))
	default:
		t.Errorf("%s has other import rules than arch_test.go: run go test ./internal/archtest -run LinterKnowsTheRules -update", path)
	}
}

// depguard returns the import rules in the words of that linter. In its list mode
// "lax" all is allowed that is not denied, and the longer of two prefixes wins.
func depguard() string {
	var b strings.Builder
	b.WriteString("      rules:\n")
	for _, l := range layers {
		var deny, allow []string
		for _, o := range topFolders() {
			if withinAny(o, l.may) {
				continue
			}
			deny = append(deny, o)
			for _, may := range l.may {
				if within(may, o) {
					allow = append(allow, may)
				}
			}
		}
		if len(deny) == 0 {
			continue
		}
		files := []string{"**/" + l.prefix + "/**", "!$test"}
		for _, inner := range layers {
			if inner.prefix != l.prefix && within(inner.prefix, l.prefix) {
				files = append(files, "!**/"+inner.prefix+"/**")
			}
		}
		guardRule(&b, l.prefix, files)
		if len(allow) > 0 {
			b.WriteString("          allow:\n")
			for _, p := range allow {
				fmt.Fprintf(&b, "            - linerate/%s\n", p)
			}
		}
		b.WriteString("          deny:\n")
		for _, p := range deny {
			denied(&b, "linerate/"+p, l.prefix+" may not import it")
		}
		if l.prefix == "internal/core" {
			for _, p := range impure {
				denied(&b, p+"$", "core does no input or output")
			}
		}
	}
	for _, r := range restricted {
		files := []string{"$all", "!$test"}
		for _, may := range r.may {
			if may != "tests" {
				files = append(files, "!**/"+may+"/**")
			}
		}
		guardRule(&b, r.path, files)
		b.WriteString("          deny:\n")
		denied(&b, r.path, "only "+strings.Join(r.may, ", ")+" may import it")
	}
	return b.String()
}

// topFolders are the folders whose imports are ruled, without those inside others.
func topFolders() []string {
	var out []string
	for _, l := range layers {
		if strings.HasPrefix(l.prefix, "internal/") && strings.Count(l.prefix, "/") == 1 && !slices.Contains(out, l.prefix) {
			out = append(out, l.prefix)
		}
	}
	return out
}

func guardRule(b *strings.Builder, name string, files []string) {
	fmt.Fprintf(b, "        %s:\n          files: [", strings.NewReplacer("/", "-", ".", "-").Replace(name))
	for i, f := range files {
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(b, "%q", f)
	}
	b.WriteString("]\n          list-mode: lax\n")
}

func denied(b *strings.Builder, path, why string) {
	fmt.Fprintf(b, "            - {pkg: %q, desc: %q}\n", path, why)
}
