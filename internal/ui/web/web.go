// Package web is the local page: the stored sessions, the progress of a running one, and the
// report of each, for the one person who has the link.
//
// It listens only on loopback. To keep out other users of this machine, the link holds a secret
// that is exchanged for a cookie on first use, and only then. The page cannot change anything.
// The Host header blocks names that were made to point here (DNS rebinding). Other pages lack
// the cookie, which browsers send only with this page's own requests (SameSite=Strict) and only
// to its own paths. In addition each document has a policy (Content-Security-Policy).
package web

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	_ "embed"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/report"
	"linerate/internal/ui/live"
)

// Source provides the sessions. Its methods may be called concurrently; for an unknown session
// the error wraps fs.ErrNotExist.
type Source interface {
	// List returns the newest Listed sessions whose near or far end contains this text, newest
	// first.
	List(ctx context.Context, host string) (report.List, error)
	// Mark returns a text that changes when the session does, or for "" the list. It is called
	// again and again, on a host that measures, and must cost next to nothing.
	Mark(ctx context.Context, id string) (string, error)
	// Now returns the progress of a session's current run, and false if no process shares it. It
	// is called as often as Mark.
	Now(id string) (live.Now, bool)
	// Session returns a session with all its runs, by its whole ID.
	Session(ctx context.Context, id string) (model.Session, error)
	// Report writes the page of a session.
	Report(ctx context.Context, id string, w io.Writer) error
	// Document returns the report of s as data.
	Document(s model.Session) report.Document
}

// Listed is how many sessions the page lists.
const Listed = 100

// How often the store is checked for news while a page is open, how often an idle stream sends a
// keep-alive, and the highest number of streams.
const (
	DefaultEvery = time.Second
	stillThere   = 15 * time.Second
	mostStreams  = 32
)

// Server answers one person's browser.
type Server struct {
	source  Source
	fleet   FleetSource // in place of source: the page of a fleet
	every   time.Duration
	l       net.Listener
	base    string // prefix of all paths, "/" and a text that only the link's holder knows
	secret  string // of the link
	cookie  string // that the browser presents afterwards
	used    atomic.Bool
	streams atomic.Int32
}

// Listen listens on a port of 127.0.0.1; 0 takes a free one. Streams check for news every every.
func Listen(ctx context.Context, port int, source Source, every time.Duration) (*Server, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	return &Server{source: source, every: every, l: l, base: "/" + rand.Text(), secret: rand.Text(), cookie: rand.Text()}, nil
}

// Address returns the address that it listens on.
func (s *Server) Address() string { return s.l.Addr().String() }

// Link returns the address to open, once: its first user gets access.
func (s *Server) Link() string { return "http://" + s.Address() + s.base + "/open/" + s.secret }

// Serve answers until ctx ends, and then returns at once, even with open streams.
func (s *Server) Serve(ctx context.Context) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // Shutdown would wait for the streams
	defer stop()
	if err := server.Serve(s.l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// cookieName contains the port: cookies of a host are sent to all its ports (RFC 6265 section
// 8.5). Other services of this host do not get the cookie, because its path exists only here.
func (s *Server) cookieName() string {
	_, port, _ := net.SplitHostPort(s.Address())
	return "linerate-" + port
}

// Handler answers requests; tests call it directly.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /open/{secret}", s.open)
	mux.HandleFunc("GET /live.js", s.script)
	if s.fleet != nil {
		s.registerFleet(mux)
	} else {
		mux.HandleFunc("GET /{$}", s.list)
		mux.HandleFunc("GET /events", s.listEvents)
		mux.HandleFunc("GET /session/{id}", s.session)
		mux.HandleFunc("GET /session/{id}/events", s.sessionEvents)
		mux.HandleFunc("GET /report/{id}", s.report)
	}
	mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
		s.refuse(w, http.StatusNotFound, "there is no such page")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		switch {
		case r.Host != s.Address():
			s.refuse(w, http.StatusMisdirectedRequest, "this is not "+s.Address())
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			s.refuse(w, http.StatusMethodNotAllowed, "nothing can be changed here")
		case r.Header.Get("Origin") != "" && r.Header.Get("Origin") != "http://"+s.Address():
			s.refuse(w, http.StatusForbidden, "another page asks")
		case !strings.HasPrefix(r.URL.Path, s.base+"/open/") && !s.admitted(r):
			s.refuse(w, http.StatusForbidden, "open the link that linerate printed, in this browser")
		case !strings.HasPrefix(r.URL.Path, s.base+"/"):
			s.refuse(w, http.StatusNotFound, "there is no such page")
		default:
			http.StripPrefix(s.base, mux).ServeHTTP(w, r)
		}
	})
}

func (s *Server) admitted(r *http.Request) bool {
	c, err := r.Cookie(s.cookieName())
	return err == nil && subtle.ConstantTimeCompare([]byte(c.Value), []byte(s.cookie)) == 1
}

// open exchanges the secret for the cookie, once. It answers with a page that goes on, not with a
// redirect: if the link is on another page, a browser would not send the cookie after a
// redirect.
func (s *Server) open(w http.ResponseWriter, r *http.Request) {
	if subtle.ConstantTimeCompare([]byte(r.PathValue("secret")), []byte(s.secret)) != 1 {
		s.refuse(w, http.StatusForbidden, "this is not the link that linerate printed")
		return
	}
	if r.Method == http.MethodHead { // from a program that previews links
		return
	}
	if !s.used.CompareAndSwap(false, true) && !s.admitted(r) {
		s.refuse(w, http.StatusForbidden, "this link was used already: if it was not you, end linerate, and start it again")
		return
	}
	//nolint:gosec // there is no TLS on loopback, and a browser would not send a Secure cookie
	http.SetCookie(w, &http.Cookie{Name: s.cookieName(), Value: s.cookie, Path: s.base + "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
	s.page(w, http.StatusOK, "opening", page{Title: "linerate"})
}

//go:embed live.js
var liveScript string

func (s *Server) script(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	_, _ = io.WriteString(w, liveScript) // a client that is gone does not need it
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	text, err := s.listPart(r.Context(), query)
	if err != nil {
		s.fault(w, err)
		return
	}
	s.page(w, http.StatusOK, "live", page{Title: "Sessions", Part: text, Events: "events?" + query.Encode()})
}

func (s *Server) session(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	text, over, err := s.sessionPart(r.Context(), id)
	if err != nil {
		s.fault(w, err)
		return
	}
	now := ""
	if !over { // the remains of a killed process are useless
		now, _ = s.nowPart(id)
	}
	s.page(w, http.StatusOK, "live", page{Title: "Session " + id, Part: text, Present: now, Events: id + "/events", Up: "../"})
}

func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	var text strings.Builder
	if err := s.source.Report(r.Context(), r.PathValue("id"), &text); err != nil {
		s.fault(w, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, text.String())
}

// fault answers that something does not exist, or cannot be read.
func (s *Server) fault(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	if errors.Is(err, fs.ErrNotExist) {
		code = http.StatusNotFound
	}
	s.refuse(w, code, err.Error())
}

func (s *Server) refuse(w http.ResponseWriter, code int, why string) {
	s.page(w, code, "refused", page{Title: "linerate", Why: why})
}

func (s *Server) listEvents(w http.ResponseWriter, r *http.Request) {
	s.stream(w, r, "", func(ctx context.Context) (string, bool, error) {
		text, err := s.listPart(ctx, r.URL.Query())
		return text, false, err
	})
}

func (s *Server) sessionEvents(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	s.stream(w, r, id, func(ctx context.Context) (string, bool, error) { return s.sessionPart(ctx, id) })
}

// stream sends the result of part, again whenever the mark of id has changed, as server-sent
// events (HTML Living Standard, section 9.2), until the last one or until the client is gone.
func (s *Server) stream(w http.ResponseWriter, r *http.Request, id string, part func(context.Context) (text string, last bool, err error)) {
	defer s.streams.Add(-1)
	if s.streams.Add(1) > mostStreams {
		s.refuse(w, http.StatusServiceUnavailable, "too many pages are open")
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := http.NewResponseController(w)
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	was := "" // the last progress of the current run
	for mark, silent := "", time.Duration(0); ; silent += s.every {
		now, err := s.mark(r.Context(), id)
		news, last := ": still there\n\n", false
		switch {
		case err == nil && now != mark:
			var text string
			text, last, err = part(r.Context())
			news, mark, silent = event("part", text), now, 0
		case err == nil && silent < stillThere:
			news = ""
		default:
			silent = 0
		}
		if text, nowErr := s.nowPart(id); err == nil && nowErr == nil && !last && text != was {
			news, was, silent = news+event("now", text), text, 0
		}
		if err != nil {
			news, last = event("gone", "<p>"+escape(err.Error())+"</p>"), true
		}
		if last {
			news += event("end", "")
		}
		if _, err := io.WriteString(w, news); err != nil || out.Flush() != nil || last {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// mark is Source.Mark, or that of a fleet.
func (s *Server) mark(ctx context.Context, id string) (string, error) {
	if s.fleet != nil {
		return s.fleetMark(ctx)
	}
	return s.source.Mark(ctx, id)
}

// event formats text as one event, a data line for each of its lines.
func event(name, text string) string {
	return "event: " + name + "\ndata: " + strings.ReplaceAll(text, "\n", "\ndata: ") + "\n\n"
}
