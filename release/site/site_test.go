package main

import (
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"linerate/internal/must"
)

// page is a page's links and anchors.
type page struct {
	links []string
	ids   map[string]bool
	loads []string // what a browser would fetch by itself
}

func read(t *testing.T, file string) page {
	t.Helper()
	f := must.Get(os.Open(file))(t)
	defer func() { _ = f.Close() }()
	root := must.Get(html.Parse(f))(t)
	p := page{ids: map[string]bool{}}
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			switch {
			case a.Key == "id":
				p.ids[a.Val] = true
			case a.Key == "href" && n.Data == "a":
				p.links = append(p.links, a.Val)
			case a.Key == "src", a.Key == "href":
				p.loads = append(p.loads, a.Val)
			}
		}
	}
	return p
}

// TestLinks follows every link of every page to its file and its heading, and checks that
// nothing is fetched from elsewhere.
func TestLinks(t *testing.T) {
	out := filepath.Join(t.TempDir(), "site")
	must.Do(t, makeSite("../..", out))
	pages := map[string]page{}
	must.Do(t, filepath.WalkDir(out, func(file string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(file, ".html") {
			pages[file] = read(t, file)
		}
		return err
	}))
	must.True(t, len(pages) >= 25, "%d pages only", len(pages))
	followed := 0
	for file, p := range pages {
		for _, load := range p.loads {
			u, err := url.Parse(load)
			must.True(t, err == nil && (u.Scheme == "" || u.Scheme == "data") && u.Host == "", "%s fetches %s", file, load)
		}
		for _, link := range append(p.links, p.loads...) {
			u, err := url.Parse(link)
			if err != nil || u.Scheme != "" {
				continue
			}
			to := file
			if u.Path != "" {
				to = filepath.Join(filepath.Dir(file), filepath.FromSlash(u.Path))
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s leads to %s, which is not there", strings.TrimPrefix(file, out), link)
			} else if u.Fragment != "" && !pages[to].ids[u.Fragment] {
				t.Errorf("%s leads to %s, and there is no such heading", strings.TrimPrefix(file, out), link)
			}
			followed++
		}
	}
	t.Logf("%d pages, %d links", len(pages), followed)
}

// TestNarrow renders the pages in a real browser at the width of a phone: none is wider.
func TestNarrow(t *testing.T) {
	chromium, err := exec.LookPath("chromium")
	must.SkipIf(t, err != nil, "no chromium here")
	out := filepath.Join(t.TempDir(), "site")
	must.Do(t, makeSite("../..", out))
	for _, name := range []string{"index.html", "manual.html", "flags.html"} {
		// An inner frame of 390 pixels, since a headless window cannot be that narrow.
		frame := filepath.Join(out, "narrow.html")
		text := `<iframe src="` + name + `" width="390" height="800" onload="document.title=this.contentDocument.documentElement.scrollWidth;document.body.append('wide:'+document.title)"></iframe>`
		must.Do(t, os.WriteFile(frame, []byte(text), 0o600))
		browser := exec.CommandContext(t.Context(), chromium, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--virtual-time-budget=5000", "--user-data-dir="+t.TempDir(), "--dump-dom", "file://"+frame)
		browser.Env = append(os.Environ(), "TMPDIR="+t.TempDir()) // it leaves its socket there
		dom := must.Get(browser.Output())(t)
		m := regexp.MustCompile(`wide:(\d+)`).FindStringSubmatch(string(dom))
		must.Need(t, m != nil, "%s: the browser says no width: %s", name, dom)
		must.True(t, len(m[1]) <= 3 && m[1] <= "390", "%s is %s pixels wide on a telephone of 390", name, m[1])
	}
}

// TestBadInputs: bad inputs are refused.
func TestBadInputs(t *testing.T) {
	full := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(full, "a"), nil, 0o600))
	for want, out := range map[string]string{"-out: want": "", "has files already": full} {
		must.Say(t, makeSite("../..", out), want, "%q", out)
	}
	must.Fail(t, makeSite(full, filepath.Join(full, "b")), "a source without documents makes a site")
}
