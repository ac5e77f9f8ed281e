package html_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"linerate/internal/must"
	"linerate/internal/report/browsertest"
)

// TestPagesInABrowser: every kind of session, in a window of a desk and of a phone, on
// light and on dark ground, without a network and without scripts: nothing on the
// console, no request, nothing wider than the window, nothing hard to read or in the way
// of something else, and every control reached by keyboard. With LINERATE_PAGES it
// writes what it sees into that folder.
func TestPagesInABrowser(t *testing.T) {
	b := browsertest.Start(t)
	folder := t.TempDir()
	for name, page := range pages(t) {
		path := filepath.Join(folder, name+".html")
		must.Do(t, os.WriteFile(path, []byte(page), 0o600))
		address := (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String()
		t.Run(name, func(t *testing.T) {
			p := b.Open(t, address, browsertest.View{Width: browsertest.Desk})
			for _, v := range []browsertest.View{
				{Width: browsertest.Desk}, {Width: browsertest.Phone}, {Width: browsertest.Desk, Dark: true}, {Width: browsertest.Phone, Dark: true},
			} {
				p.Look(v)
				at := fmt.Sprintf("%d pixels, dark %t", v.Width, v.Dark)
				for _, x := range p.Problems() {
					t.Errorf("%s: the console says %s", at, x)
				}
				got := p.Requests()
				must.True(t, len(got) == 1 && got[0] == address, "%s: it asked for %v", at, got)
				for _, x := range p.Faults() {
					t.Errorf("%s: %s", at, x)
				}
				if out := os.Getenv("LINERATE_PAGES"); out != "" {
					p.Shot(filepath.Join(out, fmt.Sprintf("%s-%d-%t.png", name, v.Width, v.Dark)))
				}
				if v != (browsertest.View{Width: browsertest.Phone, Dark: true}) {
					continue
				}
				controls, faults := p.Keyboard()
				must.True(t, controls >= 2, "%s: only %d controls: the test looks in the wrong place", at, controls)
				for _, x := range faults {
					t.Errorf("%s: %s", at, x)
				}
			}
		})
	}
}
