package odd

import (
	"fmt"
	"math"

	"linerate/internal/core/fact"
	"linerate/internal/core/fleet"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Thing is an odd host or direction of a mesh, with the reason in a sentence.
type Thing struct {
	Name string `json:"name"` // of the host or direction
	Host bool   `json:"host"` // false: it is a direction
	Text string `json:"text"`
}

// Session lists what is odd in a mesh: hosts that take no part, hosts and directions that carry
// less than the others, and directions that could not be measured.
func Session(s *model.Session) []Thing {
	var out []Thing
	hosts := fleet.Hosts(s.Mesh)
	for _, h := range hosts {
		if h.Problem != "" {
			out = append(out, Thing{h.Name, true, fmt.Sprintf("%s could not be measured: %s", h.Name, h.Problem)})
		}
	}
	out = append(out, among(hosts, fleet.Rates(s))...)
	listed := map[fleet.Pair]string{}
	for _, w := range s.Mesh.Ways {
		if w.Problem == "" || !fleet.Between(s.Mesh, w) {
			continue
		}
		pair := fleet.Pair{Near: min(w.From, w.To), Far: max(w.From, w.To)}
		if listed[pair] != w.Problem { // usually the same for both directions
			out = append(out, Thing{w.Name, false, fmt.Sprintf("%s could not be measured: %s", w.Name, w.Problem)})
			listed[pair] = w.Problem
		}
	}
	return out
}

// owner is the source of a rate that the owner of a host allows.
const owner = "its owner"

// Fleet returns the sentences about a fleet.
func Fleet(s *fleet.Status) []string {
	hosts := lists.Each(s.Hosts, func(h fleet.HostStatus) model.MeshHost {
		link := fact.Unknown[units.BitRate]("not read")
		if h.Limits.Rate > 0 {
			link = fact.Known(h.Limits.Rate, owner)
		}
		return model.MeshHost{Name: h.Name, Link: link}
	})
	return append([]string{}, lists.Each(among(hosts, s.Present.Goodput), func(t Thing) string { return t.Text })...)
}

// among lists the hosts and directions that carry less than the others.
func among(hosts []model.MeshHost, rates fleet.Matrix) (out []Thing) {
	found := Look(rates)
	for _, h := range found.Hosts {
		out = append(out, Thing{hosts[h.Host].Name, true, hostText(h, found.Level, hosts[h.Host])})
	}
	for _, w := range found.Ways {
		name := hosts[w.From].Name + " -> " + hosts[w.To].Name
		against := "what both carry with others"
		if len(hosts) < leastHosts {
			against = "the other way"
		}
		out = append(out, Thing{name, false, fmt.Sprintf("%s carries %s of %s", name, percent(w.Share), against)})
	}
	return out
}

// hostText says how much less than the others a host carries, and whether its link is the
// cause.
func hostText(h Host, level float64, of model.MeshHost) string {
	what, share := "", min(h.Sends, h.Receives)
	switch {
	case h.Receives == 1:
		what = "sends " + percent(h.Sends)
	case h.Sends == 1:
		what = "receives " + percent(h.Receives)
	case math.Abs(h.Sends-h.Receives) < Margin*share:
		share = (h.Sends + h.Receives) / 2
		what = "sends and receives " + percent(share)
	default:
		what = fmt.Sprintf("sends %s and receives %s", percent(h.Sends), percent(h.Receives))
	}
	text := fmt.Sprintf("%s %s of what the others do (%s of %s)", of.Name, what, units.BitRate(share*level), units.BitRate(level))
	if link, known := of.Link.Get(); known && float64(link) < level {
		text += map[bool]string{true: ": its owner allows ", false: ": its link has "}[of.Link.Source() == owner] + link.String()
	}
	return text
}

func percent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }
