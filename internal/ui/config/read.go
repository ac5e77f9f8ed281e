package config

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/plan"
	"linerate/internal/core/traffic"
	"linerate/internal/core/units"
)

// Limits that only a typing error exceeds.
const (
	maxBlocks   = plan.MaxBlocks
	maxBudget   = 30 * 24 * time.Hour
	maxDuration = 24 * time.Hour        // control/session.MaxDuration
	minInterval = 10 * time.Millisecond // engine.MinInterval
	maxText     = 400                   // characters of a title or target
)

// reader fills a File from a document.
type reader struct {
	report
	check KnobChecker
	f     File
	said  []said // options of particular engines, until the engine is known
}

// Parse parses the plan file name with the given content. check knows which knobs exist and
// which values they take; it must not be nil. kinds are the possible kinds of the flow. The
// error is of type Errors and holds all mistakes of the file, except that a mistake in the YAML
// itself ends the parsing.
func Parse(name string, data []byte, check KnobChecker, kinds traffic.Kinds) (File, error) {
	r := &reader{check: check, f: File{Kinds: kinds}}
	r.file, r.at = name, map[string]position{}
	root := r.document(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))) // the byte order mark of Windows editors
	if root == nil {
		return File{}, r.problems.sorted()
	}
	r.at[""] = positionOf(root)
	r.object(root, "", r.fields())
	r.f.at = r.at
	r.engine()
	if _, isMap := root.(ast.MapNode); isMap {
		r.validate(r.f)
	}
	if err := r.problems.sorted(); err != nil {
		return File{}, err
	}
	return r.f, nil
}

// fields are the keys of a plan file.
func (r *reader) fields() []field {
	f := &r.f
	return []field{
		{"title", value(r, &f.Title, parseLine)},
		{"near", value(r, &f.Near, parseLine)},
		{"far", value(r, &f.Far, parseLine)},
		{"data_port", value(r, &f.Path.Ports, model.ParsePorts)},
		{"connect_from", value(r, &f.Path.ConnectFrom, model.ParseConnectFrom)},
		{"through", value(r, &f.Path.Through, model.ParseThrough)},
		{"bind", func(n ast.Node, path string) {
			var e model.Egress
			value(r, &e, model.ParseBind)(n, path)
			f.Path.Bind, f.Path.Device = e.Bind, cmp.Or(e.Device, f.Path.Device)
		}},
		{"bind_dev", value(r, &f.Path.Device, model.ParseDevice)},
		{"client_port", value(r, &f.Path.From, model.ParseClientPorts)},
		{"dscp", value(r, &f.Path.DSCP, model.ParseDSCP)},
		{"flow", func(n ast.Node, path string) { r.object(n, path, r.flowFields()) }},
		{"factors", r.factors},
		{"settings", r.settings},
		{"hooks", r.hooks},
		{"baseline", value(r, &f.Baseline, parseLine)},
		{"blocks", func(n ast.Node, path string) {
			value(r, &f.MaxBlocks, parseBlocks)(n, path)
			f.Mode = model.FixedBlocks
		}},
		{"max_blocks", func(n ast.Node, path string) {
			value(r, &f.MaxBlocks, parseBlocks)(n, path)
			f.Mode = model.Sequential
		}},
		{"budget", value(r, &f.Budget, parseBudget)},
		{"data", value(r, &f.Data, parsePositiveBytes)},
		{"objective", value(r, &f.Objective, ParseObjective)},
		{"guards", r.guards},
		{"margin", value(r, &f.Margin, parseShare)},
		{"tolerance", value(r, &f.Tolerance, parseShare)},
		{"confidence", value(r, &f.Confidence, parseConfidence)},
		{"settle", value(r, &f.Settle, parseSettle)},
		{"cooldown", value(r, &f.Cooldown, parseDuration)},
		{"seed", value(r, &f.Seed, parseSeed)},
		{"twin", value(r, &f.Null, parseTwin)},
		{"incomplete", value(r, &f.Incomplete, parseYes)},
	}
}

// flowFields returns the keys of flow. The flow's knobs are checked like those of settings, so
// that their ranges are defined in one place.
func (r *reader) flowFields() []field {
	f := &r.f.Flow
	fields := []field{
		{"engine", value(r, &f.Engine, r.parseEngine)},
		{"direction", r.directions},
		{"duration", value(r, &f.Duration, parsePositiveDuration)},
		{"bytes", value(r, &f.Bytes, parsePositiveBytes)},
		{"omit", value(r, &f.Omit, parseDuration)},
		{"interval", value(r, &f.Interval, parseInterval)},
	}
	fields = append(fields, r.trafficFields()...)
	for _, id := range flowKnobs() {
		fields = append(fields, field{string(id), func(n ast.Node, path string) {
			text, ok := r.text(n, path)
			if !ok {
				return
			}
			if size, err := units.ParseBytes(text); err == nil && size == 0 && slices.Contains([]model.KnobID{"window", "mss", "block"}, id) {
				r.fault(path, "leave it out for the default", "0 bytes are nothing")
			} else if v, ok := r.checkValue(path, id, text); ok {
				if id == "rate" {
					r.said = append(r.said, said{"rate", path, v})
				} else {
					r.applyFlowKnob(path, id, v)
				}
			}
		}})
	}
	return fields
}

// flowKnobs returns the knobs of the test flow; they belong to no host.
func flowKnobs() []model.KnobID {
	return []model.KnobID{"streams", "window", "mss", "block", "nodelay", "congestion", "rate"}
}

// applyFlowKnob sets a canonical value in the flow.
func (r *reader) applyFlowKnob(path string, id model.KnobID, canonical string) {
	next, err := knob.ApplyFlow(r.f.Flow, []model.Assignment{{Knob: id, Value: canonical}})
	if err != nil {
		r.badValue(path, err)
		return
	}
	r.f.Flow = next
}

// directions reads one direction or a list of them; "each" is both in turn.
func (r *reader) directions(n ast.Node, path string) {
	var all []model.Direction
	if text, _ := scalarText(n); text == "each" {
		r.f.Directions, r.f.Flow.Direction = []model.Direction{model.To, model.From}, model.To
		return
	}
	r.each(n, path, func(n ast.Node, path string) {
		var d model.Direction
		value(r, &d, parseDirection)(n, path)
		switch {
		case d == "":
		case slices.Contains(all, d):
			r.fault(path, "leave one of them out", "direction %s is given twice", d)
		default:
			all = append(all, d)
		}
	})
	if len(all) > 0 {
		r.f.Directions, r.f.Flow.Direction = all, all[0]
	}
}

// value returns a function that reads a single value into to with parse.
func value[T any](r *reader, to *T, parse func(string) (T, error)) func(ast.Node, string) {
	return func(n ast.Node, path string) {
		text, ok := r.text(n, path)
		if !ok {
			return
		}
		v, err := parse(text)
		if err != nil {
			r.badValue(path, err)
			return
		}
		*to = v
	}
}

func parseLine(s string) (string, error) {
	s = strings.TrimSpace(s)
	switch {
	case s == "":
		return "", bad("is empty", "give it a value or leave it out")
	case len([]rune(s)) > maxText:
		return "", bad(fmt.Sprintf("has more than %d characters", maxText), "")
	case !plain.Printable(s):
		return "", bad(quote(s)+" has a line break or another control character", "write it on one line")
	}
	return s, nil
}

func parseBlocks(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxBlocks {
		return 0, bad(quote(s)+" is not a number of blocks", fmt.Sprintf("write 1 to %d", maxBlocks))
	}
	return n, nil
}

func parseDuration(s string) (time.Duration, error) { return parseUpTo(s, maxDuration) }

func parseUpTo(s string, most time.Duration) (time.Duration, error) {
	d, err := units.ParseDuration(s)
	if err == nil && d > most {
		return 0, bad(quote(s)+" is longer than "+units.FormatDuration(most), "write it like 10s, 250ms or 1m30s")
	}
	return d, err
}

func parseBudget(s string) (time.Duration, error) { return positive(parseUpTo(s, maxBudget)) }

func parseInterval(s string) (time.Duration, error) {
	d, err := parsePositiveDuration(s)
	if err == nil && d < minInterval {
		return 0, bad(quote(s)+" is shorter than "+units.FormatDuration(minInterval), "")
	}
	return d, err
}

// parseSettle parses a wait for plan.New: 0 means no wait, not the default.
func parseSettle(s string) (time.Duration, error) {
	d, err := parseDuration(s)
	if d == 0 {
		d = -1
	}
	return d, err
}

func parsePositiveDuration(s string) (time.Duration, error) { return positive(parseDuration(s)) }

func positive(d time.Duration, err error) (time.Duration, error) {
	if err == nil && d == 0 {
		return 0, bad("must be longer than 0", "write it like 10s, 250ms or 1m30s")
	}
	return d, err
}

func parsePositiveBytes(s string) (units.Bytes, error) {
	b, err := units.ParseBytes(s)
	if err == nil && b == 0 {
		return 0, bad("must be more than 0", "write it like 1GiB")
	}
	return b, err
}

// parseShare parses a margin or tolerance.
func parseShare(s string) (units.Percent, error) {
	p, err := units.ParsePercent(s)
	if err == nil && (p <= 0 || p >= 100) {
		return 0, bad(quote(s)+" is not between 0 % and 100 %", "write it like 3%")
	}
	return p, err
}

// parseConfidence parses 0.95 or 95%.
func parseConfidence(s string) (float64, error) {
	p, err := units.ParsePercent(s)
	c := float64(p)
	if strings.HasSuffix(s, "%") {
		c /= 100
	}
	if err != nil || !(c > 0.5 && c < 1) {
		return 0, bad(quote(s)+" is not a confidence between 0.5 and 1", "write it like 0.95")
	}
	return c, nil
}

func parseSeed(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, bad(quote(s)+" is not a seed", "write a whole number from 0 to 18446744073709551615")
	}
	return n, nil
}

func parseTwin(s string) (plan.Null, error) {
	switch strings.ToLower(s) {
	case "true", "yes", "on":
		return plan.NullTwin, nil
	case "false", "no", "off":
		return plan.NullNone, nil
	}
	return "", bad(quote(s)+" is neither true nor false", "leave it out for the default")
}

func parseYes(s string) (bool, error) {
	null, err := parseTwin(s)
	return null == plan.NullTwin, err
}

func parseDirection(s string) (model.Direction, error) {
	d := model.Direction(s)
	if d != model.To && d != model.From && d != model.Both {
		hint := "write to (near sends), from (far sends), both (at the same time), or each (one after the other)"
		if meant := plain.Nearest(s, []string{"to", "from", "both", "each"}); meant != "" {
			hint = "did you mean " + meant + "? " + hint
		}
		return "", bad("unknown direction "+quote(s), hint)
	}
	return d, nil
}
