// Package canary checks whether other machines answer, to notice a change that cuts the path
// to them.
//
// It probes an address with small packets and with packets as large as the interface takes: a
// path that carries only the small ones is a black hole. Packets must not be fragmented. Any
// answer counts: an echo reply, if this process may send echo requests, the refusal of a
// closed port, or a TCP connection. TCP copes with a packet that a router reports as too big,
// so such a packet counts if the next try, with the router's size, is answered.
//
// A target made by [probe.PathTo] asks how large packets to an address may be; one made by
// [probe.SmallTo] is probed with small packets only.
package canary

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/probe"
	"linerate/internal/panics"
)

// Probe probes a target until it answers, for at most within: an address or a name, HOST:PORT
// for a TCP connection, or a URL of http or https. For an address the time starts when there
// is a link and a route, which a change may have taken away for seconds; settle is how long
// to wait for that.
func Probe(ctx context.Context, target string, within, settle time.Duration) []probe.Result {
	if q, ok := probe.ParseQuery(target); ok {
		return answer(ctx, q, within, settle)
	}
	switch {
	case strings.HasPrefix(target, "http://"), strings.HasPrefix(target, "https://"):
		return []probe.Result{until(ctx, within, probe.Result{Target: target}, func(ctx context.Context) (string, error) { return fetch(ctx, target) })}
	default:
		if _, _, err := net.SplitHostPort(target); err == nil {
			return []probe.Result{until(ctx, within, probe.Result{Target: target}, func(ctx context.Context) (string, error) { return connect(ctx, target) })}
		}
		return probeHost(ctx, target, within, settle)
	}
}

const (
	// pause is the interval between two tries.
	pause = 300 * time.Millisecond
	// maxBody is how much of a page to read: enough for full packets.
	maxBody = 256 << 10
)

// until repeats a probe until it is answered or the time is up.
func until(ctx context.Context, within time.Duration, r probe.Result, ask func(context.Context) (string, error)) probe.Result {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		how, err := ask(ctx)
		if err == nil {
			r.OK, r.Detail = true, how
			return r
		}
		// The timeout cuts the last try short: the error of an earlier try says more.
		if why := reason(err); r.Detail == "" || ctx.Err() == nil && why != late {
			r.Detail = why
		}
		select {
		case <-ctx.Done():
			return r
		case <-again.C:
		}
	}
}

// late is the reason for a try that the timeout cut short.
const late = "no answer in time"

// reason returns an error in a few words.
func reason(err error) string {
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() || errors.Is(err, context.DeadlineExceeded) {
		return late
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Err != nil {
		return op.Err.Error()
	}
	return err.Error()
}

// fetch reads a page; any answer of the server counts.
func fetch(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	c := http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}} // a new connection each time
	answer, err := c.Do(req)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close() // only read
	n, err := io.Copy(io.Discard, io.LimitReader(answer.Body, maxBody))
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s, %d bytes", answer.Status, n), nil
}

// connect makes a TCP connection.
func connect(ctx context.Context, addr string) (string, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	return "connection accepted", c.Close()
}

// probeHost probes an address with small and with full packets.
func probeHost(ctx context.Context, target string, within, settle time.Duration) []probe.Result {
	small, full := probe.Result{Target: target}, probe.Result{Target: target, Full: true}
	addr, err := resolve(ctx, target, model.Egress{})
	if err == nil {
		err = awaitLink(ctx, addr, settle)
	}
	var size int
	if err == nil {
		size, err = packetSize(ctx, addr)
	}
	if err != nil {
		small.Detail, full.Detail = reason(err), reason(err)
		return []probe.Result{small, full}
	}
	small.Bytes, full.Bytes = probe.Small, size
	var other panics.Group
	other.Go(func() {
		cut, why := size, "" // as routers report
		full = until(ctx, within, full, func(ctx context.Context) (string, error) {
			how, err := anyAnswer(ctx, addr, cut, wait)
			if big, ok := errors.AsType[*tooBig](err); ok && big.mtu >= probe.Small && big.mtu < cut {
				cut, why = big.mtu, fmt.Sprintf(" with %d bytes; %v", big.mtu, big)
			}
			return how + why, err
		})
	})
	small = until(ctx, within, small, func(ctx context.Context) (string, error) { return anyAnswer(ctx, addr, probe.Small, wait) })
	other.Wait()
	return []probe.Result{small, full}
}

// resolve finds the address of a target, with from as the egress of packets to it.
func resolve(ctx context.Context, target string, from model.Egress) (endpoint, error) {
	if a, err := netip.ParseAddr(target); err == nil {
		return endpoint{a.Unmap(), from}, nil
	}
	all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", target)
	if err != nil {
		return endpoint{}, err
	}
	if len(all) == 0 {
		return endpoint{}, fmt.Errorf("%s has no address", target)
	}
	return endpoint{all[0].Unmap(), from}, nil
}
