package config

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/goccy/go-yaml/ast"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/profile"
	"linerate/internal/core/units"
)

// ParseProfile parses the profile file name with the given content. check knows which knobs
// exist and which values they take; it must not be nil. The returned values are canonical. The
// error is of type Errors and holds all mistakes of the file, as with Parse.
func ParseProfile(name string, data []byte, check KnobChecker) (profile.Profile, error) {
	r := &profileReader{reader: reader{check: check}}
	r.file, r.at = name, map[string]position{}
	root := r.document(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")))
	if root == nil {
		return profile.Profile{}, r.problems.sorted()
	}
	r.at[""] = positionOf(root)
	version := 0
	r.object(root, "", []field{
		{"profile", value(&r.reader, &version, parseVersion)},
		{"title", value(&r.reader, &r.p.Title, parseLine)},
		{"hosts", r.hosts},
		{"evidence", r.evidence},
	})
	if _, isMap := root.(ast.MapNode); isMap && version == 0 && len(r.problems) == 0 {
		r.fault("", fmt.Sprintf("begin with profile: %d", profile.Version), "this is not a profile")
	}
	if err := r.problems.sorted(); err != nil {
		return profile.Profile{}, err
	}
	if err := r.p.Validate(); err != nil {
		r.fault("", "", "%v", err)
		return profile.Profile{}, r.problems.sorted()
	}
	return r.p, nil
}

// profileReader fills a profile from a document.
type profileReader struct {
	reader
	p profile.Profile
}

func parseVersion(s string) (int, error) {
	n, err := strconv.Atoi(s)
	switch {
	case err != nil || n < 1:
		return 0, bad(quote(s)+" is not a version", fmt.Sprintf("write %d", profile.Version))
	case n > profile.Version:
		return 0, bad(fmt.Sprintf("version %d is newer than this linerate", n), "use the linerate that wrote it")
	}
	return n, nil
}

func (r *profileReader) hosts(n ast.Node, path string) {
	for i, item := range r.list(n, path) {
		r.p.Hosts = append(r.p.Hosts, r.host(item, index(path, i)))
	}
}

func (r *profileReader) host(n ast.Node, path string) profile.Host {
	h := profile.Host{}
	r.object(n, path, []field{
		{"role", value(&r.reader, &h.Role, parseRole)},
		{"system", value(&r.reader, &h.System, parseLine)},
		{"kernel", value(&r.reader, &h.Kernel, parseLine)},
		{"link_rate", value(&r.reader, &h.LinkRate, parseRate)},
		{"mtu", value(&r.reader, &h.MTU, parseCount)},
		{"knobs", func(n ast.Node, path string) { h.Settings = r.knobs(n, path) }},
		{"before", func(n ast.Node, path string) { h.Before = r.before(n, path) }},
	})
	if h.Role == "" && !r.faultBelow(path) {
		r.fault(path, "write role: both, near, far, sender or receiver", "has no role")
	}
	if len(h.Settings) == 0 && !r.faultBelow(path) {
		r.fault(path, "write knobs: and below it KNOB: VALUE", "has no knobs")
	}
	return h
}

// faultBelow reports whether there is already a problem at path or below it.
func (r *profileReader) faultBelow(path string) bool {
	return slices.ContainsFunc(r.problems, func(p Problem) bool {
		return len(p.Path) >= len(path) && p.Path[:len(path)] == path
	})
}

func (r *profileReader) knobs(n ast.Node, path string) []profile.Setting {
	var all []profile.Setting
	r.texts(n, func(key string) string { return join(path, key) }, path, func(e entry, at, text string) {
		id := model.KnobID(e.key)
		switch {
		case slices.Contains(flowKnobs(), id):
			r.faultAt(e.at, at, "leave it out", "belongs to the test traffic, not to a host")
		case !slices.Contains(r.check.Known(), id):
			r.faultAt(e.at, path, didYouMean(e.key, plain.Texts(r.check.Known())), "unknown knob %s", quote(e.key))
		default:
			if v, ok := r.checkValue(at, id, text); ok {
				all = append(all, profile.Setting{Knob: id, Value: v})
			}
		}
	})
	return all
}

func (r *profileReader) before(n ast.Node, path string) map[string]string {
	all := map[string]string{}
	r.texts(n, func(key string) string { return join(path, key) }, path, func(e entry, _, text string) { all[e.key] = text })
	return all
}

// fingerprint reads the conditions under which the evidence was found.
func (r *profileReader) fingerprint(n ast.Node, path string) fingerprint.Print {
	p := fingerprint.Print{}
	for key, text := range r.before(n, path) {
		p[fingerprint.Key(key)] = text
	}
	return p
}

func (r *profileReader) evidence(n ast.Node, path string) {
	e := &profile.Evidence{}
	var objective string
	r.object(n, path, []field{
		{"session", value(&r.reader, &e.Session, parseLine)},
		{"setting", value(&r.reader, &e.Setting, parseLine)},
		{"baseline", value(&r.reader, &e.Baseline, parseLine)},
		{"objective", value(&r.reader, &objective, parseLine)},
		{"date", value(&r.reader, &e.Date, parseDate)},
		{"fingerprint", func(n ast.Node, path string) { e.Print = r.fingerprint(n, path) }},
		{"verdicts", func(n ast.Node, path string) {
			for i, item := range r.list(n, path) {
				e.Verdicts = append(e.Verdicts, r.verdict(item, index(path, i)))
			}
		}},
	})
	e.Objective = model.Metric(objective)
	if !e.Empty() {
		r.p.Evidence = e
	}
}

func (r *profileReader) verdict(n ast.Node, path string) profile.Verdict {
	v := profile.Verdict{Low: model.Bound(math.Inf(-1)), High: model.Bound(math.Inf(1))}
	var outcome, metric, direction, guard string
	r.object(n, path, []field{
		{"outcome", value(&r.reader, &outcome, parseLine)},
		{"direction", value(&r.reader, &direction, parseLine)},
		{"metric", value(&r.reader, &metric, parseLine)},
		{"guard", value(&r.reader, &guard, parseLine)},
		{"blocks", value(&r.reader, &v.Blocks, parseCount)},
		{"estimate", value(&r.reader, &v.Estimate, parseNumber)},
		{"low", value(&r.reader, &v.Low, parseBound)},
		{"high", value(&r.reader, &v.High, parseBound)},
		{"confidence", value(&r.reader, &v.Confidence, parseNumber)},
	})
	v.Outcome, v.Metric, v.Direction = model.Outcome(outcome), model.Metric(metric), model.Direction(direction)
	v.Guard = model.GuardState(guard)
	return v
}

func parseRole(s string) (profile.Role, error) {
	if role := profile.Role(s); slices.Contains(profile.Roles(), role) {
		return role, nil
	}
	return "", bad("unknown role "+quote(s), "write both, near, far, sender or receiver")
}

func parseCount(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 || n > math.MaxInt32 {
		return 0, bad(quote(s)+" is not a count", "")
	}
	return n, nil
}

func parseRate(s string) (units.BitRate, error) {
	f, err := parseNumber(s)
	if err != nil || f <= 0 {
		return 0, bad(quote(s)+" is not a rate", "write it in bit/s, like 1000000000")
	}
	return units.BitRate(f), nil
}

func parseNumber(s string) (float64, error) {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return 0, bad(quote(s)+" is not a number", "")
	}
	return f, nil
}

func parseBound(s string) (model.Bound, error) {
	f, err := parseNumber(s)
	return model.Bound(f), err
}

func parseDate(s string) (time.Time, error) {
	for _, layout := range []string{time.RFC3339, time.DateOnly} {
		t, err := time.Parse(layout, s)
		if t = t.UTC().Truncate(time.Second); err == nil && t.Year() >= 1 && t.Year() <= 9999 { // the range of RFC 3339
			return t, nil
		}
	}
	return time.Time{}, bad(quote(s)+" is not a date", "write it like 2026-11-21 or 2026-11-21T13:00:00Z")
}
