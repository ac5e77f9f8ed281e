package browsertest_test

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/must"
	"linerate/internal/report/browsertest"
)

// TestFaultsAreFound: browsertest reports each fault of a page, and nothing for a good page.
func TestFaultsAreFound(t *testing.T) {
	b := browsertest.Start(t)
	svg := func(inside string) string {
		return `<figure id="f"><svg viewBox="0 0 100 40" width="100" height="40">` + inside + `</svg></figure>`
	}
	for _, c := range []struct{ name, body, want string }{
		{"good", `<p>black on white <a href="#x">there</a></p><div id="x"></div>` + svg(`<text x="2" y="20" font-size="12" fill="#000">ok</text>`), ""},
		{"pale", `<p style="color:#999">pale</p>`, `"pale" has a contrast of 2.85`},
		{"faded", `<p style="color:#0003">faded</p>`, `"faded" has a contrast of 1.`},
		{"wide", `<div style="width:2000px">wide</div>`, "the page is 2"},
		{"small", `<p style="font-size:8px">small</p>`, "is 8 pixels small"},
		{"pale picture", svg(`<rect width="100" height="40" fill="#000"/><text x="2" y="20" font-size="12" fill="#333">pale</text>`), `f: "pale" has a contrast of 1.`},
		{"pale line", svg(`<path class="l0" stroke="#ddd" fill="none" d="M0 0L50 20"/>`), `class="l0"> has a contrast of 1.`},
		{"texts on each other", svg(`<text x="2" y="20" font-size="12">first</text><text x="9" y="22" font-size="12">second</text>`), `"second" stands on "first"`},
		{"text outside", svg(`<text x="80" y="20" font-size="12">leaves it</text>`), `"leaves it" leaves the picture`},
		{"no focus shown", `<a href="#" style="outline:none">link</a>`, "does not show the focus"},
		{"out of reach", `<a href="#">first</a><a href="#" onfocus="this.blur()">link</a>`, "not reached by keyboard"},
		{"script that fails", `<script>throw new Error("broken")</script>`, "Uncaught"},
		{"network", `<img src="http://192.0.2.1/x.png" alt="">`, "asked for http://192.0.2.1/x.png"},
	} {
		path := filepath.Join(t.TempDir(), "page.html")
		must.Do(t, os.WriteFile(path, []byte(`<!doctype html><meta charset="utf-8"><title>t</title>`+c.body), 0o600))
		p := b.Open(t, (&url.URL{Scheme: "file", Path: filepath.ToSlash(path)}).String(), browsertest.View{Width: browsertest.Desk})
		_, faults := p.Keyboard()
		faults = slices.Concat(faults, p.Faults(), p.Problems())
		for _, r := range p.Requests()[1:] {
			faults = append(faults, "asked for "+r)
		}
		must.True(t, (c.want != "" || len(faults) == 0) && (c.want == "" || strings.Contains(strings.Join(faults, "\n"), c.want)),
			"%s: %q, want %q", c.name, faults, c.want)
	}
}
