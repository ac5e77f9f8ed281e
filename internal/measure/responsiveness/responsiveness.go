// Package responsiveness measures how many round trips a minute a path makes while it is full,
// as draft-ietf-ippm-responsiveness-09 defines it, and serves clients that do so.
//
// The client loads the path with endless HTTP/2 transfers, on one connection and then on more,
// and meanwhile requests one byte again and again: on new connections (foreign probes), which
// wait in the queue that all traffic shares, and as one more stream of a load connection (self
// probes), which also wait behind that connection's own data.
package responsiveness

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"
	"slices"
	"time"

	"linerate/internal/core/stats"
)

// Draft is the revision that the results follow. Other revisions give other results.
const Draft = "draft-ietf-ippm-responsiveness-09"

// Parameters of the draft, section "Parameters"; its interval is 5 s, and was 1 s up to -08.
const (
	averaged     = 4 // intervals of a moving average (MAD)
	longInterval = 5 * time.Second
	interval     = time.Second // of runs too short for averaged long ones
	kept         = 0.95        // share of the lowest values in a trimmed mean (TMP)
	settled      = 0.05        // standard deviation below which a series is stable (SDT)
	mostConns    = 16          // load connections of a direction (MNP)
	mostProbes   = 100         // of each kind a second (MPS)
	probeShare   = 0.05        // of the capacity that probes may take (PTC)
)

// Sizes of probes on the wire, bytes (draft, "Expected Bandwidth Used by Probes").
const (
	foreignBytes = 5000
	selfBytes    = 1000
)

// configPaths returns the paths of a server's configuration: the draft's, and that of older
// servers and clients (SERVER_SPEC.md of network-quality/server).
func configPaths() []string { return []string{"/.well-known/nq", "/api/v1/config"} }

// mostConfig bounds a configuration, in bytes.
const mostConfig = 64 << 10

// addresses are the URLs of a configuration.
type addresses struct {
	Small    string `json:"small_download_url"`
	Large    string `json:"large_download_url"`
	Upload   string `json:"upload_url"`
	OldSmall string `json:"small_https_download_url"`
	OldLarge string `json:"large_https_download_url"`
	OldPost  string `json:"https_upload_url"`
}

// config is the JSON object of a server's configuration.
type config struct {
	Version int       `json:"version"`
	URLs    addresses `json:"urls"`
}

// parseConfig parses the configuration of server host. All three URLs must be on one host, over
// HTTPS (draft, "Configuration"); names of older servers count if the draft's are missing.
func parseConfig(b []byte) (addresses, error) {
	var c config
	if err := json.Unmarshal(b, &c); err != nil {
		return addresses{}, fmt.Errorf("read configuration: %w", err)
	}
	if c.Version != 1 {
		return addresses{}, fmt.Errorf("configuration of version %d: linerate knows version 1", c.Version)
	}
	host := ""
	for _, u := range []struct {
		name    string
		now, or *string
	}{{"small_download_url", &c.URLs.Small, &c.URLs.OldSmall}, {"large_download_url", &c.URLs.Large, &c.URLs.OldLarge}, {"upload_url", &c.URLs.Upload, &c.URLs.OldPost}} {
		if *u.now == "" {
			*u.now = *u.or
		}
		at, err := url.Parse(*u.now)
		switch {
		case err != nil || *u.now == "":
			return addresses{}, fmt.Errorf("configuration without a %s", u.name)
		case at.Scheme != "https" || at.Host == "" || at.User != nil:
			return addresses{}, fmt.Errorf("%s of the configuration is not an address of https", u.name)
		case host != "" && at.Host != host:
			return addresses{}, errors.New("the addresses of the configuration are of several hosts")
		}
		host = at.Host
	}
	return c.URLs, nil
}

// probe is one answered probe.
type probe struct {
	at   time.Duration // when it was sent
	self bool
	tcp  time.Duration // handshake of a new connection
	tls  time.Duration // same: TLS, per round trip
	http time.Duration // request to answer
}

// trimmed returns the mean of the lowest 95 % of times, ms; NaN if there are none.
func trimmed(times []float64) float64 {
	slices.Sort(times)
	n := int(math.Ceil(kept * float64(len(times))))
	sum := 0.0
	for _, t := range times[:n] {
		sum += t
	}
	return sum / float64(n)
}

// rpm returns the responsiveness of probes, in round trips a minute; NaN if one kind of probe
// has no answer.
func rpm(probes []probe) float64 {
	var tcp, tls, foreign, self []float64
	for _, p := range probes {
		if p.self {
			self = append(self, ms(p.http))
			continue
		}
		tcp, tls, foreign = append(tcp, ms(p.tcp)), append(tls, ms(p.tls)), append(foreign, ms(p.http))
	}
	const minute = 60000 // ms
	return (minute/((trimmed(tcp)+trimmed(tls)+trimmed(foreign))/3) + minute/trimmed(self)) / 2
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// stable reports whether the moving averages of a series, one value for each interval, have
// settled: the standard deviation of the last ones is below 5 % of the newest.
func stable(series []float64) bool {
	var averages []float64
	for end := averaged; end <= len(series); end++ {
		averages = append(averages, stats.Mean(series[end-averaged:end]))
	}
	if len(averages) < averaged {
		return false
	}
	last := averages[len(averages)-averaged:]
	mean, square := stats.Mean(last), 0.0
	for _, v := range last {
		square += (v - mean) * (v - mean)
	}
	return math.Sqrt(square/averaged) < settled*last[averaged-1]
}

// confidence returns the reliability of a run with that many intervals, in the draft's words;
// "" is high.
func confidence(goodputs, rpms []float64) string {
	switch {
	case len(goodputs) < averaged:
		return "low"
	case !stable(goodputs) || !stable(rpms):
		return "medium"
	}
	return ""
}
