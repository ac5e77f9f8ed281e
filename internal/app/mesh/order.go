package mesh

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"linerate/internal/app/target"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/matching"
	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// enough returns an error unless there is a pair to measure.
func (m *mesh) enough() error {
	var reached, why []string
	for _, h := range m.hosts {
		if h.gone == nil {
			reached = append(reached, h.name)
		} else {
			why = append(why, h.name+": "+h.gone.Error())
		}
	}
	if len(reached) >= 2 {
		return nil
	}
	text := fmt.Sprintf("of %d hosts none could be reached", len(m.hosts))
	if len(reached) == 1 {
		text = fmt.Sprintf("of %d hosts only %s could be reached", len(m.hosts), reached[0])
	}
	return fault.New(fault.Unreachable, fmt.Errorf("%s; %s", text, strings.Join(why, "; ")), "try one of them alone: linerate test HOST")
}

// draw writes hosts, ways and the order of all runs into the session.
func (m *mesh) draw() (rounds [][]fleet.Pair) {
	s := &m.session
	var names []string
	for _, h := range m.hosts {
		s.Mesh.Hosts = append(s.Mesh.Hosts, h.stored())
		names = append(names, h.name)
	}
	s.Far = strings.Join(names, ", ")
	if n := len(names); n > mostNames {
		s.Far = fmt.Sprintf("%s and %d more", strings.Join(names[:mostNames-1], ", "), n-mostNames+1)
	}
	for i, a := range m.hosts {
		for j, b := range m.hosts {
			if i != j {
				s.Mesh.Ways = append(s.Mesh.Ways, model.MeshWay{Name: wayName(a, b), From: i, To: j})
			}
		}
	}
	rng := rand.New(rand.NewPCG(m.Seed, 0))
	for range m.Rounds {
		for _, pairs := range matching.AtMost(m.AtOnce, matching.Rounds(len(m.hosts), rng)) {
			pairs = slices.DeleteFunc(slices.Clone(pairs), func(p fleet.Pair) bool {
				a, b := m.hosts[p.Near], m.hosts[p.Far]
				return a.gone != nil || b.gone != nil
			})
			if m.pairs += len(pairs); len(pairs) > 0 {
				rounds = append(rounds, pairs)
			}
		}
	}
	m.planned = len(rounds)
	s.Plan = model.Plan{Flow: m.flow(), Mode: model.FixedBlocks, Confidence: 0.95, Seed: m.Seed}
	for _, p := range slices.Concat(rounds...) {
		a, b := m.hosts[p.Near], m.hosts[p.Far]
		s.Plan.Order = append(s.Plan.Order, []string{wayName(a, b)}, []string{wayName(b, a)})
	}
	s.Plan.MaxBlocks = len(s.Plan.Order)
	return rounds
}

// mostNames is the most hosts that a list of sessions names.
const mostNames = 8

func wayName(a, b *host) string { return a.name + " -> " + b.name }

// serves reports whether a pair needs a server to measure with a host other than the
// controller of its session.
func serves(near, far *host) bool {
	return near.Target.Kind != target.Here && (near.Target.Kind == target.Serve || far.Target.Kind == target.Serve)
}

// errLeftOut is the reason for leaving out a pair with a server.
var errLeftOut = errors.New("a linerate serve measures with other hosts than the one that steers it only where its --peers names them")
