package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"linerate/internal/core/diagnose"
	"linerate/internal/core/fact"
	"linerate/internal/core/health"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// CheckDocument is the report of a check. Its JSON form is part of
// docs/schema/session-v1.schema.json.
type CheckDocument struct {
	Quick  bool         `json:"quick,omitempty"`
	Lines  []CheckLine  `json:"lines"`
	Limits []CheckLimit `json:"limits"`
	Path   []Box        `json:"path"`
	Expect []health.Met `json:"expect,omitempty"`
	Longer *Longer      `json:"longer,omitempty"`
}

// CheckLine is the result for one aspect.
type CheckLine struct {
	health.Line
	Label string `json:"label"` // "speed to nas"
}

// CheckLimit is the limit of one direction.
type CheckLimit struct {
	Direction model.Direction `json:"direction"`
	Text      string          `json:"text"`
	Evidence  []string        `json:"evidence,omitempty"`
	Helps     string          `json:"helps,omitempty"` // what helps if no setting does
}

// Longer says whether the two hosts would carry a longer path.
type Longer struct {
	Asked string      `json:"asked"`
	Text  string      `json:"text"`
	Lines []CheckLine `json:"lines"`
}

// Box is one part of the path, from the near host to the far one.
type Box struct {
	Name     string `json:"name"`
	Detail   string `json:"detail,omitempty"` // "MTU 1500", "not visible"
	Note     string `json:"note,omitempty"`   // additional remark
	Limiting bool   `json:"limiting,omitempty"`
}

// buildCheck returns the report of a check, nil for any other session.
func (b *builder) buildCheck() *CheckDocument {
	c := b.s.Check
	if c == nil {
		return nil
	}
	d := CheckDocument{Quick: c.Quick, Lines: b.labelled(health.Judge(b.s)), Limits: b.limits(), Path: b.boxes()}
	if clauses, err := health.ParseExpect(c.Expect); err == nil && c.Expect != "" {
		d.Expect = health.Meets(b.s, clauses)
	}
	if l, err := health.ParseLonger(c.For); err == nil && c.For != "" {
		d.Longer = b.longer(l)
	}
	return &d
}

func (b *builder) labelled(lines []health.Line) []CheckLine {
	return lists.Each(lines, func(l health.Line) CheckLine { return CheckLine{l, l.Label(b.names)} })
}

// longer says whether the hosts would carry l.
func (b *builder) longer(l health.Longer) *Longer {
	lines := health.Carries(b.s, l)
	out := Longer{Asked: fmt.Sprintf("%s at %s", l.Rate, units.FormatDuration(l.RTT)), Lines: b.labelled(lines)}
	seen := map[health.State]bool{}
	for _, line := range lines {
		seen[line.State] = true
	}
	switch {
	case seen[health.Bad]:
		out.Text = "no: as they are, these hosts would not carry " + out.Asked
	case seen[health.Poor]:
		out.Text = "not as they are: these hosts would not carry " + out.Asked + " without the changes below"
	case seen[health.Unseen]:
		out.Text = "nothing was seen that speaks against " + out.Asked + ", and not everything could be seen"
	default:
		out.Text = "yes: nothing was seen that speaks against " + out.Asked
	}
	return &out
}

// limits returns the limit of each direction: its first finding, or "not found".
func (b *builder) limits() []CheckLimit {
	var out []CheckLimit
	for _, d := range []model.Direction{model.To, model.From} {
		l := CheckLimit{Direction: d, Text: b.names.Way(d) + ": not found"}
		if f, ok := b.first(d); ok {
			l.Text = b.finding(f).Text
			if f.Evidence != "" && len(f.Proof) == 0 {
				l.Evidence = append(l.Evidence, f.Evidence) // otherwise it is the first of the proofs
			}
			for _, p := range f.Proof {
				l.Evidence = append(l.Evidence, p.Text+" ("+p.Source+")")
			}
			for _, m := range f.Missing {
				l.Evidence = append(l.Evidence, "missing: "+m.What+"; "+m.How)
			}
			if l.Helps = f.NoKnob; l.Helps == "" && b.loses(d) { // a flow that fills the path in spite of the loss
				l.Helps = "against the loss, " + diagnose.FindLoss
			}
		} else if !b.tried(d) {
			l.Text = b.names.Way(d) + ": not measured"
		} else if !b.measured(d) {
			l.Text = b.names.Way(d) + ": nothing arrives"
			for _, line := range health.Judge(b.s) {
				if line.Thing == "mtu" && line.Direction == d && line.State == health.Bad {
					l.Text, l.Evidence = b.names.Way(d)+": "+line.Text, line.Evidence
				}
			}
		}
		out = append(out, l)
	}
	return out
}

// loses reports whether direction d loses too much.
func (b *builder) loses(d model.Direction) bool {
	return slices.ContainsFunc(health.Judge(b.s), func(l health.Line) bool {
		return l.Thing == "loss" && l.Direction == d && (l.State == health.Poor || l.State == health.Bad)
	})
}

// measured reports whether the baseline has a run of direction d that counts.
func (b *builder) measured(d model.Direction) bool {
	return len(runValues(b.baselineRuns(), d, model.Goodput)) > 0
}

// tried reports whether a run of the baseline in direction d was completed.
func (b *builder) tried(d model.Direction) bool {
	return slices.ContainsFunc(b.s.Runs, func(r model.Run) bool {
		return r.Setting == b.s.Plan.Baseline && r.Flow.Direction == d && !r.LostContact && r.State != model.RunInterrupted
	})
}

// first returns the first finding about direction d.
func (b *builder) first(d model.Direction) (model.Finding, bool) {
	for _, f := range b.s.Findings {
		if f.Direction == d && !f.Loss {
			return f, true
		}
	}
	return model.Finding{}, false
}

// boxes returns the path from the near host to the far one, with the limit marked.
func (b *builder) boxes() []Box {
	near, far := b.facts(model.Near), b.facts(model.Far)
	out := []Box{{Name: b.names.Near}}
	left, gateway := b.side(near)
	right, back := b.side(far)
	out = append(out, left...)
	network := -1 // the box of what neither host sees
	if between := b.routers(); between != nil {
		out = append(out, between...)
	} else {
		out, network = b.unseen(out, gateway, back)
	}
	for i := range right {
		out = append(out, right[len(right)-1-i])
	}
	out = append(out, Box{Name: b.names.Far})
	for _, d := range []model.Direction{model.To, model.From} {
		if i := b.limiting(d, len(out), network); i >= 0 {
			out[i].Limiting = true
		}
	}
	return out
}

// unseen adds the part between the hosts as far as they know it without a trace, and returns
// the index of the box for the unknown part.
func (b *builder) unseen(out []Box, gateway, back string) (_ []Box, network int) {
	middle := Box{Name: "network", Detail: "not visible"}
	if gateway != "" {
		out = append(out, b.router(gateway))
	} else if r := b.facts(model.Near).Route; r != nil && r.Gateway.IsKnown() {
		middle.Name = "same link"
	}
	for _, r := range b.reporters() {
		if r != gateway && r != back {
			out = append(out, b.router(r))
		}
	}
	network = len(out)
	out = append(out, middle)
	if back != "" && back != gateway {
		out = append(out, b.router(back))
	}
	return out, network
}

// reporters returns the routers that reported packets as too big.
func (b *builder) reporters() []string {
	var out []string
	for _, w := range b.s.Check.Ways {
		if w.Reported && w.Router != "" && !slices.Contains(out, w.Router) {
			out = append(out, w.Router)
		}
	}
	return out
}

// router returns the box of a router, with the MTU that it reported.
func (b *builder) router(address string) Box {
	box := Box{Name: "router", Detail: address}
	for _, w := range b.s.Check.Ways {
		if w.Reported && w.Router == address && w.RouterMTU > 0 {
			box.Detail += fmt.Sprintf(", MTU %d", w.RouterMTU)
		}
	}
	return box
}

// Boxes returns the default route of a single machine, as far as the machine knows it.
func Boxes(f model.HostFacts) []Box {
	b := builder{s: &model.Session{}}
	out, gateway := b.side(f)
	out = append([]Box{{Name: cmp.Or(f.Name, "this machine")}}, out...)
	if gateway != "" {
		out = append(out, Box{Name: "router", Detail: gateway})
	}
	return out
}

// side returns a host's part of the path, the interface that packets leave by first, and the
// router behind it, "" for none.
func (b *builder) side(f model.HostFacts) (boxes []Box, gateway string) {
	for _, h := range f.Path {
		if h.Kind == model.HopNeighbour || h.Kind == model.HopNetwork {
			continue
		}
		box := Box{Name: strings.TrimSpace(h.Name), Detail: hopDetail(h.MTU, h.Rate), Note: h.Note}
		if h.To != "" {
			box.Note = strings.TrimSuffix("to "+h.To+"; "+h.Note, "; ")
		}
		if string(h.Kind) != "device" && string(h.Kind) != h.Name {
			box.Name = strings.TrimSpace(string(h.Kind) + " " + h.Name)
		}
		boxes = append(boxes, box)
	}
	if len(boxes) == 0 {
		name, known := f.Interface.Get()
		if !known {
			name = "interface"
		}
		boxes = []Box{{Name: name, Detail: hopDetail(f.MTU, f.LinkRate)}}
	}
	if f.Route != nil {
		gateway = f.Route.Gateway.Or("")
	}
	return boxes, gateway
}

func hopDetail(mtu fact.Of[int], rate fact.Of[units.BitRate]) string {
	var parts []string
	if n, ok := mtu.Get(); ok {
		parts = append(parts, fmt.Sprintf("MTU %d", n))
	}
	if r, ok := rate.Get(); ok {
		parts = append(parts, r.String())
	}
	return cmp.Or(strings.Join(parts, ", "), "not visible")
}

// limiting returns the index of the box that limits direction d, out of all boxes; network is
// the index of the part between the hosts. It returns -1 for none.
func (b *builder) limiting(d model.Direction, all, network int) int {
	for _, l := range health.Judge(b.s) {
		if l.Thing == "mtu" && l.Direction == d && l.State == health.Bad {
			return network
		}
	}
	f, ok := b.first(d)
	ofLink := strings.HasPrefix(f.Rule, "B0") && f.Rule <= "B05" || f.Rule == "B18" || f.Rule == "W01"
	switch {
	case !ok && b.measured(d), f.Place != nil, f.Kind == model.FindingNotFound, f.Kind == model.FindingTooShort, f.Kind == model.FindingFull, f.Rule == "ceiling":
		return -1 // there is no known limit, or its place is already marked
	case !ok, f.Kind == model.FindingOutside:
		return network
	case f.Host == "", f.Limit == "packet loss", f.Limit == "reordering":
		return b.slower(all, network)
	case f.Host == model.Near && ofLink:
		return 1
	case f.Host == model.Far && ofLink:
		return all - 2
	case f.Host == model.Far:
		return all - 1
	}
	return 0
}

// slower returns the box of the slower of the two hosts' links, if both report their rates;
// otherwise the network between them.
func (b *builder) slower(all, network int) int {
	near, nearKnown := b.facts(model.Near).LinkRate.Get()
	far, farKnown := b.facts(model.Far).LinkRate.Get()
	switch {
	case nearKnown && farKnown && near < far:
		return 1
	case nearKnown && farKnown && far < near:
		return all - 2
	}
	return network
}
