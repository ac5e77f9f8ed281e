// Package regex has regular expressions that are compiled when they are first used.
// linerate starts often and for a moment, as agent, watchdog and in scripts: compiled at
// the start, its expressions cost each of them a quarter of its time.
package regex

import (
	"os"
	"regexp"
	"strings"
	"sync"
)

// Regexp is a regular expression of package regexp with some of its methods. It is safe
// for use by several goroutines.
type Regexp func() *regexp.Regexp

// New returns the expression of text (syntax of package regexp). A wrong text panics: in
// a test program at once, so that no test is needed for each, and else when it is used.
func New(text string) Regexp {
	r := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
	if strings.HasSuffix(os.Args[0], ".test") {
		r()
	}
	return r
}

// MatchString is the method of regexp.Regexp.
func (r Regexp) MatchString(s string) bool { return r().MatchString(s) }

// FindString is the method of regexp.Regexp.
func (r Regexp) FindString(s string) string { return r().FindString(s) }

// FindAllString is the method of regexp.Regexp.
func (r Regexp) FindAllString(s string, n int) []string { return r().FindAllString(s, n) }

// FindAllStringIndex is the method of regexp.Regexp.
func (r Regexp) FindAllStringIndex(s string, n int) [][]int { return r().FindAllStringIndex(s, n) }

// FindStringSubmatch is the method of regexp.Regexp.
func (r Regexp) FindStringSubmatch(s string) []string { return r().FindStringSubmatch(s) }

// FindStringSubmatchIndex is the method of regexp.Regexp.
func (r Regexp) FindStringSubmatchIndex(s string) []int { return r().FindStringSubmatchIndex(s) }

// ReplaceAllString is the method of regexp.Regexp.
func (r Regexp) ReplaceAllString(s, by string) string { return r().ReplaceAllString(s, by) }

// ReplaceAllStringFunc is the method of regexp.Regexp.
func (r Regexp) ReplaceAllStringFunc(s string, by func(string) string) string {
	return r().ReplaceAllStringFunc(s, by)
}
