package web_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"linerate/internal/must"
	"linerate/internal/ui/web"
)

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
		if len(cookies) != 1 || !strings.HasSuffix(cookies[0].Name, "-"+port) {
			t.Errorf("the cookies of %s are %v", u, cookies)
			continue
		}
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
