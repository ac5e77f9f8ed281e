package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	wirefleet "linerate/internal/control/fleet"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/lists"
)

// mostPast is how many earlier starts of an agent a hub remembers, to recognise a twin.
const mostPast = 32

// handler answers agents, known by the key that they prove to own, and people with a view link.
func (h *Hub) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /fleet/v1/sync", agentCall(h, h.sync))
	mux.HandleFunc("POST /fleet/v1/push", agentCall(h, h.push))
	mux.HandleFunc("GET /fleet/v1/status", h.people(func(*http.Request) (any, error) { return h.status(), nil }))
	mux.HandleFunc("POST /fleet/v1/present", h.people(h.present))
	mux.HandleFunc("GET /fleet/v1/path", h.people(h.history))
	mux.HandleFunc("POST /fleet/v1/operate", h.people(h.operate))
	return mux
}

// shows returns the right of the key that a request shows, and its hash.
func (h *Hub) shows(r *http.Request) (right fleet.Right, hash string) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok {
		return "", ""
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.right(token), hashOf(token)
}

func reply(w http.ResponseWriter, out any, err error) {
	if err != nil {
		wirefleet.Fail(w, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if write, ok := out.(func(io.Writer)); ok {
		write(w)
		return
	}
	_ = json.NewEncoder(w).Encode(out) // a client that is gone does not need it
}

func (h *Hub) people(answer func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if right, _ := h.shows(r); right != fleet.Views && right != fleet.Operates {
			wirefleet.Fail(w, fmt.Errorf("%w: use the view link that linerate hub printed last", wirefleet.ErrDenied))
			return
		}
		if err := admit(r); err != nil {
			wirefleet.Fail(w, err)
			return
		}
		out, err := answer(r)
		reply(w, out, err)
	}
}

// caller is an agent that calls.
type caller struct {
	pin, addr string
	key       string // the hash of its join link, "" if it shows none that is valid
}

// agentCall reads a message of an agent whose key the hub knows, or that may join.
func agentCall[In any, Out any, P interface {
	*In
	Validate() error
}](h *Hub, answer func(context.Context, caller, P) (Out, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := caller{pin: tls.PeerPin(r)}
		right, hash := h.shows(r)
		if right == fleet.Joins {
			c.key = hash
		}
		c.addr, _, _ = net.SplitHostPort(r.RemoteAddr)
		known, err := h.known(r, c)
		in := P(new(In))
		switch {
		case err != nil:
		case known == nil && right != "" && right != fleet.Joins:
			err = fmt.Errorf("%w: this is the link in %s, for people: join with the link that linerate hub prints", wirefleet.ErrDenied, linkFiles()[right])
		case c.pin == "" || known == nil && c.key == "":
			err = fmt.Errorf("%w: it does not know this host: join with the link that linerate hub prints now", wirefleet.ErrDenied)
		case known != nil && known.Removed:
			err = fmt.Errorf("%w: %s was removed from the fleet", wirefleet.ErrDenied, known.Name)
		default:
			if err = admit(r); err == nil {
				err = wirefleet.Read(r.Body, in)
			}
			if err == nil {
				err = in.Validate()
			}
		}
		if err != nil {
			wirefleet.Fail(w, err)
			return
		}
		out, err := answer(r.Context(), c, in)
		reply(w, out, err)
	}
}

func admit(r *http.Request) error {
	if err := tls.Admit(r); err != nil {
		return fmt.Errorf("%w: %w", wirefleet.ErrLater, err)
	}
	return nil
}

// known returns the host that calls, nil if no hub knows it.
func (h *Hub) known(r *http.Request, c caller) (*fleet.Host, error) {
	h.mu.Lock()
	one := h.find(c.pin)
	h.mu.Unlock()
	if one != nil || c.pin == "" || c.key != "" {
		return one, nil
	}
	if err := admit(r); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.follow(r.Context()); err != nil { // it may have joined at another hub a moment ago
		return nil, fmt.Errorf("%w: %w", wirefleet.ErrLater, err)
	}
	return h.find(c.pin), nil
}

// find returns the host with a pin, nil if there is none.
func (h *Hub) find(pin string) *fleet.Host {
	return h.host(func(one *fleet.Host) bool { return one.Pin == pin })
}

// host returns the first host that matches is, or nil.
func (h *Hub) host(is func(*fleet.Host) bool) *fleet.Host {
	for _, one := range h.hosts {
		if is(one) {
			return one
		}
	}
	return nil
}

// sync takes what an agent says of itself, and answers when there is news for it.
func (h *Hub) sync(ctx context.Context, c caller, in *wirefleet.Sync) (*wirefleet.Synced, error) {
	if in.Protocol != wirefleet.Protocol {
		return nil, fmt.Errorf("%w: the hub speaks %d, linerate %s here speaks %d: update the older one, the hub first", wirefleet.ErrVersion, wirefleet.Protocol, in.Version, in.Protocol)
	}
	came := time.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	one, err := h.meet(ctx, c, in)
	if err != nil {
		return nil, err
	}
	out := &wirefleet.Synced{Protocol: wirefleet.Protocol, Host: one.ID, Name: one.Name}
	late := time.NewTimer(patient)
	defer late.Stop()
	for waiting := true; ; {
		for _, l := range h.orders[one.ID] {
			if l.Until < h.now() || slices.Contains(in.Have, l.ID) || len(out.Orders) >= wirefleet.MostResults {
				continue
			}
			if o, ok := h.order(l, one); ok {
				out.Orders = append(out.Orders, o)
			}
		}
		if len(out.Orders) > 0 || !waiting || in.First || in.Drained != one.Drained {
			out.Now, out.Waited, out.Drained = h.clock().UnixNano(), int64(time.Since(came)), one.Drained
			return out, nil
		}
		news := h.waits(one.ID)
		h.mu.Unlock()
		select {
		case <-news:
		case <-late.C:
			waiting = false
		case <-ctx.Done():
			waiting = false
		}
		h.mu.Lock()
		one.Seen = h.now()
	}
}

// meet returns the host that calls, and registers it if it is new.
func (h *Hub) meet(ctx context.Context, c caller, in *wirefleet.Sync) (*fleet.Host, error) {
	one, now := h.find(c.pin), h.now()
	if one == nil {
		if len(h.hosts) >= h.c.Most {
			return nil, fmt.Errorf("%w: it has %d hosts, the most that it takes (%d with SQLite, %d with PostgreSQL)", wirefleet.ErrDenied, h.c.Most, MostHosts, MostOnServer)
		}
		var err error
		if one, err = h.join(ctx, c, in); err != nil {
			return nil, err
		}
	}
	if slices.Contains(one.Past, in.Boot) {
		one.Twin = c.addr
		h.dirty[one.ID] = true
		// Each of the two may start again: the alert about both is the same.
		two := []string{strings.Join(one.Addrs, ", "), strings.Join(addrs(c, in), ", ")}
		slices.Sort(two)
		a := fleet.Alert{Kind: "twin", Subject: one.Name, Text: fmt.Sprintf("a host at %s and one at %s use the key of %s; the one that started first is refused", two[0], two[1], one.Name)}
		if !slices.ContainsFunc(h.raised, func(o fleet.Alert) bool { return o.Text == a.Text }) {
			h.alert(a)
		}
		return nil, fmt.Errorf("%w: %s at %s, which started later", wirefleet.ErrTwin, one.Name, strings.Join(one.Addrs, ", "))
	}
	if h.silent[one.ID] {
		h.alert(fleet.Alert{Kind: "back", Subject: one.Name, Text: one.Name + " is back"})
		h.silent[one.ID], h.joined = false, true
	}
	ahead := (in.Clock - h.clock().UnixNano()) / int64(time.Second)
	if wrong := max(ahead, -ahead) >= astray; wrong && one.Ahead == 0 {
		h.alert(fleet.Alert{Kind: "clock", Subject: one.Name, Text: fmt.Sprintf("the clock of %s is wrong by %s; that changes nothing in what is measured", one.Name, time.Duration(ahead)*time.Second)})
	} else if !wrong {
		ahead = 0
	}
	one.Ahead = ahead
	h.dirty[one.ID] = true
	if describe(one, c, in, now) { // other hubs have to know it before they plan
		if err := h.putHosts(ctx); err != nil {
			h.fault = err
		}
	}
	return one, nil
}

// describe takes what a host says of itself. It reports whether that changes how others measure
// with it.
func describe(one *fleet.Host, c caller, in *wirefleet.Sync, now int64) (changed bool) {
	was := *one
	if one.Boot != in.Boot {
		if one.Boot != "" {
			one.Past = append(one.Past[max(0, len(one.Past)-mostPast+1):], one.Boot)
		}
		one.Boot, one.Twin = in.Boot, ""
	}
	one.Seen, one.Version, one.Session, one.Port, one.Limits, one.Waiting, one.Lost = now, in.Version, in.Session, in.Port, in.Limits, in.Waiting, in.Lost
	one.Addrs = addrs(c, in)
	return !reflect.DeepEqual([]any{was.Boot, was.Addrs, was.Port, was.Session, was.Limits}, []any{one.Boot, one.Addrs, one.Port, one.Session, one.Limits})
}

// addrs returns the addresses of a host: its own list, and the one that the hub sees.
func addrs(c caller, in *wirefleet.Sync) []string {
	return lists.Once(slices.Clone(in.Addrs), c.addr)
}

// join registers a new host.
func (h *Hub) join(ctx context.Context, c caller, in *wirefleet.Sync) (*fleet.Host, error) {
	now := h.now()
	one := &fleet.Host{Pin: c.pin, Name: h.unique(in.Name), Joined: now}
	describe(one, c, in, now)
	err := h.store.Join(ctx, one, c.key, now)
	if errors.Is(err, fleet.ErrKey) {
		return nil, fmt.Errorf("%w: %w", wirefleet.ErrDenied, err)
	}
	if err == nil {
		err = h.follow(ctx)
	}
	if err != nil { // another hub may have taken a host of that name: the next call sees it
		return nil, fmt.Errorf("%w: %w", wirefleet.ErrLater, err)
	}
	h.alert(fleet.Alert{Kind: "joined", Subject: one.Name, Text: fmt.Sprintf("%s has joined from %s", one.Name, c.addr)})
	return h.hosts[one.ID], nil
}

// unique returns a name that no other host has.
func (h *Hub) unique(name string) string {
	out := name
	for n := 2; h.host(func(one *fleet.Host) bool { return one.Name == out }) != nil; n++ {
		out = fmt.Sprintf("%s-%d", name, n)
	}
	return out
}

// push stores results. The agent may forget those that are kept, new or not.
func (h *Hub) push(ctx context.Context, c caller, in *wirefleet.Push) (*wirefleet.Pushed, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.find(c.pin)
	if one == nil {
		return nil, wirefleet.ErrDenied
	}
	fresh, err := h.store.Finish(ctx, one.ID, h.now(), in.Results)
	if ctx.Err() == nil { // else the agent has hung up
		h.refused = err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", wirefleet.ErrLater, err)
	}
	for _, id := range fresh {
		h.mine[id] = true
	}
	if err := h.follow(ctx); err != nil {
		h.fault = err // it is stored, and taken later
	}
	return &wirefleet.Pushed{Kept: lists.Each(in.Results, func(r fleet.Lease) int64 { return r.ID })}, nil
}

// present returns the present numbers between hosts.
func (h *Hub) present(r *http.Request) (any, error) {
	var hosts []int64
	if err := wirefleet.Read(r.Body, &hosts); err != nil {
		return nil, err
	}
	if len(hosts) > h.c.Most {
		return nil, fmt.Errorf("%w: %d hosts", wirefleet.ErrInvalid, len(hosts))
	}
	return func(w io.Writer) { h.rows(w, hosts) }, nil
}

// history returns the history of a path for display.
func (h *Hub) history(r *http.Request) (any, error) {
	low, lerr := strconv.ParseInt(r.FormValue("low"), 10, 64)
	high, herr := strconv.ParseInt(r.FormValue("high"), 10, 64)
	if err := errors.Join(lerr, herr); err != nil {
		return nil, fmt.Errorf("%w: %w", wirefleet.ErrInvalid, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	p := h.paths.Path(fleet.Way{Low: low, High: high})
	if p == nil {
		p = new(series.Path)
	}
	return series.HistoryOf(h.name(high), p, h.clock().In(h.paths.Zone)), nil
}
