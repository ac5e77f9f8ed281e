// Package probe has the messages that ask a host whether others answer it: the targets, the
// results, and their meaning for a path.
package probe

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/model"
)

// Result is the result of probing one target.
type Result struct {
	Target string `json:"target" bound:"value"`
	Full   bool   `json:"full,omitempty"`                // with packets as large as the interface sends
	Bytes  int    `json:"bytes,omitempty" bound:"65536"` // of the IP packets; 0 if the system decides
	OK     bool   `json:"ok"`                            // it answered
	Detail string `json:"detail,omitempty" bound:"text"` // how, or why not
}

// String formats the result for people.
func (r Result) String() string {
	if r.OK {
		return r.Probed() + " answers: " + r.Detail
	}
	return r.Probed() + " does not answer: " + r.Detail
}

// Probed names the target, and the packets if they have a size.
func (r Result) Probed() string {
	if r.Bytes > 0 {
		return fmt.Sprintf("%s (packets of %d bytes)", r.Target, r.Bytes)
	}
	return r.Target
}

// Lost returns the results of after that failed although the same target answered before.
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

// maxTarget limits a target in bytes, as browsers limit URLs.
const maxTarget = 2 << 10

// Valid returns an error unless target is an address or a name, HOST:PORT for a TCP connection,
// a URL of http or https, or a target of PathTo or SmallTo.
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

// Small is the size in bytes of an IP packet that passes every link.
const Small = 128

// PathTo returns the target that asks for the largest packet that reaches a host, up to bytes
// of the IP packet. PathOf reads the results.
func PathTo(host string, bytes int) string { return PathFrom(model.Egress{}, host, bytes) }

// PathFrom is PathTo with packets that leave as from says, except for its ports.
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

// SmallTo returns the target that probes a host with small packets only.
func SmallTo(host string) string { return smallScheme + host }

// Query is a parsed target of PathTo or SmallTo.
type Query struct {
	Target, Host string
	Bytes        int          // 0: small packets only
	From         model.Egress // where the packets leave from
}

// ParseQuery parses a target of PathTo or SmallTo; it reports false for any other.
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

// from parses the parameters that PathFrom added.
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

// The subjects of the results after the first one of a path, and how the first one says that
// the search ended early.
const (
	addressWord = "address"
	routerWord  = "router"
	AtLeast     = "at least"
)

// Address returns the result with the address of a path's host.
func (q Query) Address(address string) Result {
	return Result{Target: addressWord + " " + q.Target, OK: true, Detail: address}
}

// Router returns the result that a router, "" if unknown, reported a packet as too big, with
// the MTU in its report, 0 for none.
func (q Query) Router(router string, mtu int) Result {
	return Result{Target: routerWord + " " + q.Target, Bytes: mtu, OK: true, Detail: router}
}

// Path is the largest packet from one host to another. Packets larger than the reverse
// direction carries are seen to arrive by the refusal of a UDP port, so each direction has its
// own result.
type Path struct {
	Host     string // as requested
	Address  string // its address, "" if unknown
	Asked    int    // bytes of the largest packet that was tried
	Passes   int    // bytes of the largest answered one; 0: not even a small one
	Exact    bool   // Passes+1 was tried and lost
	Router   string // that reported a packet as too big; "" for none, or if unknown
	Reported bool   // a router or host reported a packet as too big
	MTU      int    // the MTU in that report; 0 for none
}

// PathOf evaluates the results for a target of PathTo or PathFrom. It reports false if there
// are none.
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
			p.Router, p.Reported, p.MTU = more.Detail, true, more.Bytes
		}
	}
	return p, true
}
