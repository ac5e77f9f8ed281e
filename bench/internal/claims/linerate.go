package claims

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"linerate/bench/internal/side"
	"linerate/bench/internal/stand"
	"linerate/internal/core/model"
)

// reports are the reports of both ends of linerate.
type reports struct{ near, far model.EndReport }

// readReports reads the output of both ends.
func readReports(out stand.Outcome) (reports, error) {
	var r reports
	if err := json.Unmarshal(out.Client, &r.near); err != nil {
		return r, fmt.Errorf("read report of near end: %w", err)
	}
	if err := json.Unmarshal(out.Server, &r.far); err != nil {
		return r, fmt.Errorf("read report of far end: %w", err)
	}
	return r, nil
}

// addOwn adds linerate running f, under a name. With watched, both ends sample their host.
func (s *situation) addOwn(b *Bench, name string, f model.Flow, watched string, read func(reports) (values, error)) error {
	pair, err := b.ownPair(f, watched)
	if err != nil {
		return err
	}
	s.contenders = append(s.contenders, contender{name, b.duel(pair, s.reading(name, read))})
	return nil
}

// ownPair returns linerate running f.
func (b *Bench) ownPair(f model.Flow, watched string) (stand.Pair, error) {
	listen, dial, err := side.Ends(b.Self, stand.NearAddress, stand.FarAddress, f, watched)
	return stand.Pair{Server: listen, Client: dial, Port: side.Port, Time: f.Duration}, err
}

// reading returns a function that converts the reports of both ends to values. Their first
// warnings become a note beside the results.
func (s *situation) reading(name string, read func(reports) (values, error)) func(stand.Outcome) (values, error) {
	warned := false
	return func(out stand.Outcome) (values, error) {
		r, err := readReports(out)
		if err != nil {
			return nil, err
		}
		if w := slices.Concat(r.near.Warnings, r.far.Warnings); len(w) > 0 && !warned {
			warned = true
			s.notes = append(s.notes, fmt.Sprintf("%s, %s warns: %s", s.name, name, strings.Join(w, "; ")))
		}
		return read(r)
	}
}

// one returns the single direction of an end's report.
func one(r model.EndReport) (model.FlowReport, error) {
	if len(r.Flows) != 1 || r.Flows[0].Window <= 0 {
		return model.FlowReport{}, fmt.Errorf("the %s end reports %d directions", r.Host, len(r.Flows))
	}
	return r.Flows[0], nil
}
