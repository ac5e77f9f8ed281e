package web_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/report"
	"linerate/internal/report/browsertest"
	"linerate/internal/report/html"
	"linerate/internal/report/reporttest"
	"linerate/internal/ui/live"
	"linerate/internal/ui/web"
)

// sessions are sessions of all kinds, one of which runs with as many runs as were added.
type sessions struct {
	mu      sync.Mutex
	cases   []reporttest.Case
	running string
	runs    int
	now     *live.Now // of the running session
}

func newSessions() *sessions {
	s := &sessions{cases: reporttest.Cases()}
	for i := range s.cases {
		if c := &s.cases[i]; c.Name == "sequential" {
			s.running, s.runs = c.Session.ID, 3
			c.Session.State, c.Session.Reason, c.Session.Verdicts, c.Session.Plateaus = model.SessionRunning, "", nil, nil
		}
	}
	return s
}

func (s *sessions) add(runs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs += runs
}

func (s *sessions) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.cases {
		if c := &s.cases[i].Session; c.ID == s.running {
			c.State = model.SessionDone
		}
	}
}

func (s *sessions) find(id string) (reporttest.Case, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cases {
		if c.Session.ID == id {
			if id == s.running {
				c.Session.Runs = c.Session.Runs[:s.runs]
			}
			return c, nil
		}
	}
	return reporttest.Case{}, fmt.Errorf("session %s: %w", id, fs.ErrNotExist)
}

func (s *sessions) List(_ context.Context, host string) (report.List, error) {
	var l report.List
	for _, c := range s.cases {
		c, err := s.find(c.Session.ID)
		if err != nil {
			return l, err
		}
		if !strings.Contains(c.Session.Far, host) {
			continue
		}
		l.Sessions = append(l.Sessions, report.NewListItem(model.Item{ID: c.Session.ID, Kind: c.Session.Kind, Near: c.Session.Near, Far: c.Session.Far,
			Created: c.Session.Created, State: c.Session.State, Reason: c.Session.Reason, Runs: len(c.Session.Runs)}, c.Session))
	}
	return l, nil
}

func (s *sessions) Mark(ctx context.Context, id string) (string, error) {
	if id == "" {
		l, err := s.List(ctx, "")
		return fmt.Sprint(l), err
	}
	c, err := s.find(id)
	return fmt.Sprint(c.Session.State, len(c.Session.Runs)), err
}

func (s *sessions) Now(id string) (live.Now, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if id != s.running || s.now == nil {
		return live.Now{}, false
	}
	return *s.now, true
}

// tell sets the number of intervals of the current run.
func (s *sessions) tell(intervals int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := live.Now{Run: 4, Setting: "<b>1MiB", Phase: "measuring", Ways: []live.WayNow{{Direction: model.To}}}
	for i := range intervals {
		at := float64(i) + 0.5
		n.Ways[0].Rates = append(n.Ways[0].Rates, live.Point{At: at, Value: 1e8 * float64(i+1)})
		n.Ways[0].Trips = append(n.Ways[0].Trips, live.Point{At: at, Value: 0.001 * float64(i+1)})
	}
	s.now = &n
}

func (s *sessions) Session(_ context.Context, id string) (model.Session, error) {
	c, err := s.find(id)
	return c.Session, err
}

func (s *sessions) Document(x model.Session) report.Document {
	return report.Build(x, report.Options{Kinds: reporttest.Kinds()})
}

func (s *sessions) Report(_ context.Context, id string, w io.Writer) error {
	c, err := s.find(id)
	if err != nil {
		return err
	}
	return html.Render(w, html.Input{Session: c.Session, Document: s.Document(c.Session), Samples: c.Samples, Attached: []html.File{{Name: "all.json", Kind: "application/json", What: "all data, as JSON", Content: []byte(`{}`)}}})
}

// serve starts a server, which ends with t.
func serve(t *testing.T, s *sessions) *web.Server {
	t.Helper()
	server := must.Get(web.Listen(t.Context(), 0, s, 20*time.Millisecond))(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		must.OK(t, <-done, "it ended with")
	})
	return server
}

// visitor returns a browser that keeps its cookies.
func visitor(t *testing.T) *http.Client {
	t.Helper()
	jar := must.Get(cookiejar.New(nil))(t)
	return &http.Client{Jar: jar}
}

// ask makes a request; change may be nil.
func ask(t *testing.T, c *http.Client, method, address string, change func(*http.Request)) (int, string, http.Header) {
	t.Helper()
	r := must.Get(http.NewRequestWithContext(t.Context(), method, address, http.NoBody))(t)
	if change != nil {
		change(r)
	}
	answer := must.Get(c.Do(r))(t)
	defer answer.Body.Close()
	return answer.StatusCode, string(must.Get(io.ReadAll(answer.Body))(t)), answer.Header
}

// stream opens the events of a session after the visitor has used the link.
func stream(t *testing.T, server *web.Server, c *http.Client, session string) io.Reader {
	t.Helper()
	ask(t, c, "GET", server.Link(), nil)
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, rootOf(server)+"/session/"+session+"/events", http.NoBody))(t)
	answer := must.Get(c.Do(r))(t)
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer.Body
}

// TestEnds: an open stream does not keep the server running.
func TestEnds(t *testing.T) {
	t.Parallel()
	s := newSessions()
	server := must.Get(web.Listen(t.Context(), 0, s, time.Hour))(t)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- server.Serve(ctx) }()
	must.Equal(t, must.Get(bufio.NewReader(stream(t, server, visitor(t), s.running)).ReadString('\n'))(t), "event: part\n")
	stop()
	must.OK(t, <-done)
}

// TestStreamSaysWhatIsNew: the stream sends each change once, and the end.
func TestStreamSaysWhatIsNew(t *testing.T) {
	t.Parallel()
	s := newSessions()
	server, c := serve(t, s), visitor(t)
	events := stream(t, server, c, s.running)
	var counts []string
	for lines := bufio.NewScanner(events); lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), "</span>; "); ok {
			counts = append(counts, strings.TrimSuffix(rest, " runs</p>"))
			switch len(counts) {
			case 1, 2:
				s.add(5)
			case 3:
				s.end()
			}
		}
		if lines.Text() == "event: end" {
			break
		}
	}
	must.Equal(t, strings.Join(counts, "; "), "3 of at most 100; 8 of at most 100; 13 of at most 100; 13 of at most 100", "it said")
}

// TestPagesInABrowser: the list, a running session and its report have no console messages,
// request nothing from other hosts, are legible and not too wide, and all controls work by
// keyboard, even without scripts; new runs appear without a reload.
func TestPagesInABrowser(t *testing.T) {
	b := browsertest.Start(t)
	s := newSessions()
	server := serve(t, s)
	root := rootOf(server)
	p := b.Open(t, server.Link(), browsertest.View{Width: browsertest.Desk})
	p.Until("location.pathname.split('/').length == 3 && location.pathname.endsWith('/')")
	p.Until("document.getElementById('state')?.textContent.startsWith('live')")
	look := func(name string) {
		t.Helper()
		for _, v := range []browsertest.View{{Width: browsertest.Desk}, {Width: browsertest.Phone}, {Width: browsertest.Desk, Dark: true}, {Width: browsertest.Phone, Dark: true}} {
			p.Look(v)
			for _, x := range p.Faults() {
				t.Errorf("%s, %v: %s", name, v, x)
			}
			if out := os.Getenv("LINERATE_PAGES"); out != "" {
				p.Shot(filepath.Join(out, fmt.Sprintf("ui-%s-%d-%t.png", name, v.Width, v.Dark)))
			}
		}
		n, faults := p.Keyboard()
		must.True(t, n >= 2 && len(faults) == 0, "%s: %d controls, %q", name, n, faults)
	}
	look("list")
	p.Go(root + "/session/" + s.running)
	p.Until("document.getElementById('state').textContent.startsWith('live')")
	browsertest.Eval[bool](p, "window.loaded = true")
	s.add(7)
	p.Until("document.body.innerText.includes('10 of at most 100 runs')")
	look("live")
	s.end()
	p.Until("document.body.innerText.includes('done') && document.getElementById('state').textContent == ''")
	must.True(t, browsertest.Eval[bool](p, "window.loaded === true"), "the page was loaded again")
	still := b.Open(t, root+"/session/"+s.running, browsertest.View{Width: browsertest.Phone, NoScript: true})
	text := browsertest.Eval[string](still, "document.body.innerText")
	must.True(t, strings.Contains(text, "load it again") && strings.Contains(text, "10 of at most 100 runs"), "without scripts the page says %q", text)
	for _, x := range still.Faults() {
		t.Errorf("without scripts: %s", x)
	}
	p.Go(root + "/report/" + s.running)
	for _, x := range p.Faults() {
		t.Errorf("report: %s", x)
	}
	for _, x := range p.Problems() {
		t.Errorf("the console says %s", x)
	}
	for _, x := range p.Requests() {
		must.True(t, strings.HasPrefix(x, root), "it asked for %s", x)
	}
}

// TestNamesAreText: names from hosts or persons cannot become part of a page's markup.
func TestNamesAreText(t *testing.T) {
	t.Parallel()
	s := newSessions()
	for i := range s.cases {
		c := &s.cases[i].Session
		c.Title, c.Far = `<script>alert(1)</script>`, "a\x1b[2J<b>\n\ndata: x"
		c.Hosts, c.Runs = slices.Clone(c.Hosts), slices.Clone(c.Runs)
		for j := range c.Hosts {
			c.Hosts[j].Name = "<img src=x onerror=alert(1)>\x1b]0;x\x07"
		}
		for j := range c.Runs {
			c.Runs[j].Reason = "<i>\n\nevent: end"
		}
	}
	server, c := serve(t, s), visitor(t)
	ask(t, c, "GET", server.Link(), nil)
	for _, path := range []string{"/", "/session/" + s.running, "/report/" + s.running} {
		_, text, _ := ask(t, c, "GET", rootOf(server)+path, nil)
		for _, bad := range []string{"\x1b", "\x07", "<script>", "<b>\n", "<i>", "<img"} {
			must.True(t, !strings.Contains(text, bad), "%s holds %q", path, bad)
		}
	}
}

// TestWithoutScripts: the same pages say that they do not update.
func TestWithoutScripts(t *testing.T) {
	t.Parallel()
	s := newSessions()
	server, c := serve(t, s), visitor(t)
	ask(t, c, "GET", server.Link(), nil)
	for path, want := range map[string]string{"/": `href="session/` + s.running, "/session/" + s.running: "3 of at most 100 runs"} {
		_, text, _ := ask(t, c, "GET", rootOf(server)+path, nil)
		must.True(t, strings.Contains(text, want) && strings.Contains(text, "<noscript>"), "%s lacks %q or how to go on", path, want)
	}
	_, script, _ := ask(t, c, "GET", rootOf(server)+"/live.js", nil)
	must.True(t, strings.Contains(script, "EventSource") && !strings.Contains(script, "linerate ui"), "the page of a fleet has this script too:\n%s", script)
}

// TestListByFinding: the links of the list filter it by one finding and by one host.
func TestListByFinding(t *testing.T) {
	t.Parallel()
	s := newSessions()
	server, c := serve(t, s), visitor(t)
	ask(t, c, "GET", server.Link(), nil)
	_, all, _ := ask(t, c, "GET", rootOf(server)+"/", nil)
	must.Contain(t, all, `<a href="?finding=B07">receive window</a>`, "the page has")
	rows := func(text string) int { return strings.Count(text, `<td data-name="kind">`) }
	for query, want := range map[string]string{
		"finding=B07": `href="?finding=B07&amp;host=nas"`, "finding=WINDOW&host=nas": `data-events="events?finding=WINDOW&amp;host=nas"`, "host=no-such": "None of them",
	} {
		_, text, _ := ask(t, c, "GET", rootOf(server)+"/?"+query, nil)
		must.Contain(t, text, want, "%s has", query)
		must.True(t, rows(text) < rows(all) && (rows(text) == 0) == (query == "host=no-such"), "%s: %d of %d rows", query, rows(text), rows(all))
	}
}

// TestRatesInsideARun: the rates of a run and the round trip beside them appear while it is
// measured, without resending the rest of the page, and disappear when it ends.
func TestRatesInsideARun(t *testing.T) {
	t.Parallel()
	s := newSessions()
	s.tell(1)
	server := serve(t, s)
	c := visitor(t)
	ask(t, c, "GET", server.Link(), nil)
	_, page, _ := ask(t, c, "GET", rootOf(server)+"/session/"+s.running, nil)
	for _, want := range []string{"Now: Run 4 of this process, &lt;b&gt;1MiB", "100 Mbit/s", "1 ms"} {
		must.Contain(t, page, want, "the page has")
	}
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, rootOf(server)+"/session/"+s.running+"/events", http.NoBody))(t)
	stream := must.Get(c.Do(r))(t)
	defer stream.Body.Close()
	lines := bufio.NewReader(stream.Body)
	next := func() (name, data string) {
		for {
			line := must.Get(lines.ReadString('\n'))(t)
			switch text, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); text {
			case "event":
				name = value
			case "data", "data:":
				data += value + "\n"
			case "":
				if name != "" {
					return name, data
				}
			}
		}
	}
	name, _ := next()
	must.True(t, name == "part", "first %q", name)
	name, data := next()
	must.True(t, name == "now" && strings.Contains(data, "100 Mbit/s") && !strings.Contains(data, "<svg"), "%q: %s", name, data)
	s.tell(3)
	if name, data := next(); name != "now" || !strings.Contains(data, "300 Mbit/s") || !strings.Contains(data, "3 ms") || !strings.Contains(data, "<svg") || !strings.Contains(data, "round trip") {
		t.Errorf("%q: %s", name, data)
	}
	s.end()
	name, _ = next()
	must.True(t, name == "part", "%q after the end", name)
	name, _ = next()
	must.True(t, name == "end", "%q after the end", name)
}

// rootOf returns the prefix of all paths of the page.
func rootOf(server *web.Server) string {
	root, _, _ := strings.Cut(server.Link(), "/open/")
	return root
}

// TestCookieStaysHere: cookies ignore ports, so another service on 127.0.0.1 could get the page's
// cookie from the same browser. It gets none, on any path that it can have, and neither does a
// second page, whose cookie has another name.
func TestCookieStaysHere(t *testing.T) {
	t.Parallel()
	server, other := serve(t, newSessions()), serve(t, newSessions())
	c := visitor(t)
	ask(t, c, "GET", server.Link(), nil)
	ask(t, c, "GET", other.Link(), nil)
	var got []string
	stranger := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Cookie"))
	}))
	defer stranger.Close()
	for _, path := range []string{"/", "/session/x", "/open/x", "/s/", "/report/"} {
		ask(t, c, "GET", stranger.URL+path, nil)
	}
	must.True(t, len(got) == 5 && strings.Join(got, "") == "", "another service of this host was sent %q", got)
	names := map[string]bool{}
	for _, one := range []*web.Server{server, other} {
		u := must.Get(url.Parse(rootOf(one) + "/"))(t)
		cookies := c.Jar.Cookies(u)
		_, port, _ := net.SplitHostPort(one.Address())
		must.Need(t, len(cookies) == 1 && strings.HasSuffix(cookies[0].Name, "-"+port), "the cookies of %s are %v", u, cookies)
		names[cookies[0].Name] = true
		code, _, _ := ask(t, c, "GET", u.String(), nil)
		must.True(t, code == http.StatusOK, "%s: %d", u, code)
		if code, _, _ := ask(t, c, "GET", "http://"+one.Address()+"/", nil); code != http.StatusForbidden {
			t.Errorf("%s without its path: %d", one.Address(), code)
		}
	}
	must.Equal(t, len(names), 2, "two pages have the cookies %v", names)
}

// TestLinkOpensOnce: without the cookie the page shows nothing, the link gives the cookie to its
// first user only, and a program that only previews the link does not use it up.
func TestLinkOpensOnce(t *testing.T) {
	t.Parallel()
	server := serve(t, newSessions())
	root := rootOf(server)
	first, second := visitor(t), visitor(t)
	expect := func(who *http.Client, method, address string, want int) string {
		t.Helper()
		code, text, _ := ask(t, who, method, address, nil)
		must.Equal(t, code, want, "%s %s", method, address)
		return text
	}
	for _, path := range []string{"/", "/events", "/live.js", "/session/x", "/report/x", "/nowhere"} {
		must.True(t, !strings.Contains(expect(first, "GET", root+path, http.StatusForbidden), "nas"), "%s shows something without the cookie", path)
	}
	expect(first, "GET", root+"/open/wrong", http.StatusForbidden)
	expect(second, "HEAD", server.Link(), http.StatusOK)
	expect(first, "GET", server.Link(), http.StatusOK)
	must.Contain(t, expect(first, "GET", root+"/", http.StatusOK), "nas", "the list is not there")
	must.Contain(t, expect(second, "GET", server.Link(), http.StatusForbidden), "was used already", "the second is told")
	expect(second, "GET", root+"/", http.StatusForbidden)
	expect(first, "GET", server.Link(), http.StatusOK) // going back in the browser
	expect(first, "GET", root+"/report/none", http.StatusNotFound)
	expect(first, "GET", root+"/session/none", http.StatusNotFound)
}

// TestOthersAreRefused: requests under another name (DNS rebinding), from another page and with
// methods that could change something are refused; and the answers limit what a page may do.
func TestOthersAreRefused(t *testing.T) {
	t.Parallel()
	server := serve(t, newSessions())
	root, c := rootOf(server), visitor(t)
	_, _, header := ask(t, c, "GET", server.Link(), nil)
	cookie := header.Get("Set-Cookie")
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=" + strings.TrimPrefix(root, "http://"+server.Address()) + "/;"} {
		must.Contain(t, cookie, want, "the cookie")
	}
	_, port, _ := net.SplitHostPort(server.Address())
	for _, x := range []struct {
		name, method string
		change       func(*http.Request)
		want         int
	}{
		{"rebinding", "GET", func(r *http.Request) { r.Host = "evil.example:" + port }, http.StatusMisdirectedRequest},
		{"no port", "GET", func(r *http.Request) { r.Host = "127.0.0.1" }, http.StatusMisdirectedRequest},
		{"another page", "GET", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, http.StatusForbidden},
		{"another port", "GET", func(r *http.Request) { r.Header.Set("Origin", "http://127.0.0.1:1") }, http.StatusForbidden},
		{"post", "POST", nil, http.StatusMethodNotAllowed},
		{"delete", "DELETE", nil, http.StatusMethodNotAllowed},
		{"options", "OPTIONS", nil, http.StatusMethodNotAllowed},
		{"its own page", "GET", func(r *http.Request) { r.Header.Set("Origin", "http://"+server.Address()) }, http.StatusOK},
	} {
		code, _, h := ask(t, c, x.method, root+"/", x.change)
		must.Equal(t, code, x.want, "%s", x.name)
		must.Equal(t, h.Get("Access-Control-Allow-Origin"), "", "%s: other pages may read it", x.name)
		p := h.Get("Content-Security-Policy")
		must.True(t, strings.Contains(p, "default-src 'none'") && strings.Contains(p, "frame-ancestors 'none'"), "%s: the policy is %q", x.name, p)
	}
	host, _, _ := net.SplitHostPort(server.Address())
	must.True(t, host == "127.0.0.1", "it listens on %s", host)
}
