// Package probe has the words in which a host is asked whether others answer it:
// the targets, what became of each, and what the answers say of a path.
package probe

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
)

// Result is what became of one question.
type Result struct {
	Target string `json:"target" bound:"value"`
	Full   bool   `json:"full,omitempty"`                // asked with packets as large as the interface takes
	Bytes  int    `json:"bytes,omitempty" bound:"65536"` // of the IP packets; 0 where the system decides
	OK     bool   `json:"ok"`                            // it answered
	Detail string `json:"detail,omitempty" bound:"text"` // how, or why not
}

// String says it for people.
func (r Result) String() string {
	what := r.Target
	if r.Bytes > 0 {
		what += fmt.Sprintf(" (packets of %d bytes)", r.Bytes)
	}
	if r.OK {
		return what + " answers: " + r.Detail
	}
	return what + " does not answer: " + r.Detail
}

// Lost returns the results of after whose question was answered before and is
// not any more.
func Lost(before, after []Result) []Result {
	var lost []Result
	for _, a := range after {
		for _, b := range before {
			if b.Target == a.Target && b.Full == a.Full && b.OK && !a.OK {
				lost = append(lost, a)
			}
		}
	}
	return lost
}

// maxTarget bounds a target in bytes, as browsers bound URLs.
const maxTarget = 2 << 10

// Valid says whether a target can be asked: an address or a name, HOST:PORT for a
// TCP connection, a URL of http and https, or what PathTo and SmallTo return.
func Valid(target string) error {
	_, isQuery := ParseQuery(target)
	switch {
	case target == "" || len(target) > maxTarget || strings.ContainsAny(target, " \t\n"):
		return fmt.Errorf("%q: want an address, HOST:PORT or a URL", target)
	case strings.HasPrefix(target, pathScheme), strings.HasPrefix(target, smallScheme):
		if !isQuery {
			return fmt.Errorf("%q: want path://HOST/BYTES, with ?bind=, bind_dev= or dscp= behind it, or small://HOST", target)
		}
	case strings.Contains(target, "://") && !strings.HasPrefix(target, "http://") && !strings.HasPrefix(target, "https://"):
		return fmt.Errorf("%q: want a URL of http or https", target)
	}
	return nil
}

const (
	pathScheme  = "path://"
	smallScheme = "small://"
)

// Small is the size in bytes of an IP packet that every link carries.
const Small = 128

// PathTo is the target that asks how large packets to a host may be, up to bytes
// of the IP packet. The answers are read by PathOf.
func PathTo(host string, bytes int) string { return PathFrom(model.Egress{}, host, bytes) }

// PathFrom is PathTo with packets that leave as from says, but for its ports.
func PathFrom(from model.Egress, host string, bytes int) string {
	target := pathScheme + host + "/" + strconv.Itoa(bytes)
	v := url.Values{}
	for key, value := range map[string]string{"bind": from.Bind, "bind_dev": from.Device, "dscp": strconv.Itoa(from.DSCP)} {
		if value != "" && value != "0" {
			v.Set(key, value)
		}
	}
	if len(v) > 0 {
		target += "?" + v.Encode()
	}
	return target
}

// SmallTo is the target that asks a host with small packets only.
func SmallTo(host string) string { return smallScheme + host }

// Query is what a target of PathTo or SmallTo asks.
type Query struct {
	Target, Host string
	Bytes        int          // 0: small packets only
	From         model.Egress // where the packets leave from
}

// ParseQuery reads a target of PathTo or SmallTo; it reports false for any other.
func ParseQuery(target string) (Query, bool) {
	if host, ok := strings.CutPrefix(target, smallScheme); ok {
		return Query{Target: target, Host: host}, host != "" && !strings.Contains(host, "/")
	}
	rest, ok := strings.CutPrefix(target, pathScheme)
	if !ok {
		return Query{}, false
	}
	rest, from, _ := strings.Cut(rest, "?")
	host, size, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(size)
	q := Query{Target: target, Host: host, Bytes: n}
	return q, err == nil && host != "" && n >= Small && n <= 65535 && q.from(from) == nil
}

// from reads what PathFrom wrote of where packets leave from.
func (q *Query) from(text string) error {
	v, err := url.ParseQuery(text)
	if err != nil {
		return err
	}
	if bind := v.Get("bind"); bind != "" {
		if q.From, err = model.ParseBind(bind); err != nil {
			return err
		}
	}
	if device := v.Get("bind_dev"); device != "" {
		if q.From.Device, err = model.ParseDevice(device); err != nil {
			return err
		}
	}
	if dscp := v.Get("dscp"); dscp != "" {
		q.From.DSCP, err = model.ParseDSCP(dscp)
	}
	return err
}

// What the answers after the first one of a path are about, and how the first one
// says that the search ended early.
const (
	addressWord = "address"
	routerWord  = "router"
	AtLeast     = "at least"
)

// Address is the answer that tells the address of a path's host.
func (q Query) Address(address string) Result {
	return Result{Target: addressWord + " " + q.Target, OK: true, Detail: address}
}

// Router is the answer that somebody, "" for unknown, said that a packet was too
// big, and which MTU came with it, 0 for none.
func (q Query) Router(router string, mtu int) Result {
	return Result{Target: routerWord + " " + q.Target, Bytes: mtu, OK: true, Detail: router}
}

// Path is how large packets from one host to another may be. A packet that is
// larger than what the other direction carries is seen to arrive where the other
// end refuses a UDP port, so that each direction is told for itself.
type Path struct {
	Host    string // as it was asked for
	Address string // that it has, "" where that is not known
	Asked   int    // bytes of the largest packet that was tried
	Passes  int    // bytes of the largest that was answered; 0: not even a small one
	Exact   bool   // Passes+1 was tried and lost
	Router  string // who said that a packet was too big; "" for nobody, or for somebody unknown
	Told    bool   // somebody said so
	MTU     int    // that was told with it; 0 for none
}

// PathOf reads the answers to a target of PathTo or PathFrom. It reports false where
// there are none.
func PathOf(results []Result, target string) (Path, bool) {
	q, _ := ParseQuery(target)
	i := slices.IndexFunc(results, func(r Result) bool { return r.Target == target })
	if i < 0 {
		return Path{}, false
	}
	r := results[i]
	p := Path{Host: q.Host, Asked: q.Bytes, Passes: r.Bytes, Exact: !strings.HasPrefix(r.Detail, AtLeast)}
	for _, more := range results[i+1:] {
		of, who, ok := strings.Cut(more.Target, " ")
		switch {
		case !ok || who != target:
			return p, true
		case of == addressWord:
			p.Address = more.Detail
		case of == routerWord:
			p.Router, p.Told, p.MTU = more.Detail, true, more.Bytes
		}
	}
	return p, true
}
