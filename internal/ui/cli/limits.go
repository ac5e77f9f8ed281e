package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"linerate/internal/core/limits"
	"linerate/internal/core/units"
	"linerate/internal/report/format"
)

// limitsFlags are the quantities from which the ceilings are computed.
type limitsFlags struct {
	rate, window, loss, rtt string
	mtus                    []int
	vlan                    int
	ipv6, noTimestamps, udp bool
}

// limitsDoc is the JSON form: linerate/limits/v1.
type limitsDoc struct {
	Rate   units.BitRate `json:"rate"`
	Links  []linkRow     `json:"links"`
	Window []windowRow   `json:"windows,omitempty"`
	Loss   []lossRow     `json:"loss,omitempty"`
	BDP    *units.Bytes  `json:"bandwidth_delay_product,omitempty"`
}

type linkRow struct {
	MTU     int           `json:"mtu"`
	Options string        `json:"options"`
	Goodput units.BitRate `json:"goodput"`
	Share   float64       `json:"share"` // payload over wire
	PPS     float64       `json:"packets_per_second"`
}

type windowRow struct {
	Window units.Bytes   `json:"window"`
	RTT    time.Duration `json:"rtt_ns"`
	Rate   units.BitRate `json:"rate"`
}

type lossRow struct {
	Loss   float64       `json:"loss"`
	MSS    int           `json:"mss"`
	RTT    time.Duration `json:"rtt_ns"`
	Mathis units.BitRate `json:"mathis"`
	Cubic  units.BitRate `json:"cubic"`
}

func (a *console) limitsCommand() *cobra.Command {
	var f limitsFlags
	c := &cobra.Command{
		Use: "limits", Short: "what a link can carry: goodput by MTU and link, rate by window, round trip and loss",
		Long: `limits computes what a link can carry; nothing is measured.

  goodput = link rate x payload / (MTU + 38 + 4 per VLAN tag)
  rate by window = window x 8 / round trip
  rate by loss = the larger of the Mathis and the CUBIC bound`,
		Example: `  linerate limits
  linerate limits --rate 10gbit --mtu 1500,9000
  linerate limits --rate 1gbit --rtt 10ms --window 64KiB
  linerate limits --rate 1gbit --rtt 100ms --loss 0.001%`,
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			doc, err := f.compute()
			if err != nil {
				return err
			}
			if a.json {
				return a.document(format.LimitsSchema, doc)
			}
			return a.printLimits(doc)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.rate, "rate", "1gbit", "rate of the link")
	fl.IntSliceVar(&f.mtus, "mtu", []int{1500, 9000}, "MTU of the link in bytes, several with commas")
	fl.IntVar(&f.vlan, "vlan", 0, "number of VLAN tags")
	fl.BoolVar(&f.ipv6, "ipv6", false, "IPv6 instead of IPv4")
	fl.BoolVar(&f.noTimestamps, "no-timestamps", false, "without TCP timestamps")
	fl.BoolVar(&f.udp, "udp", false, "UDP instead of TCP")
	fl.StringVar(&f.rtt, "rtt", "", "round-trip time, for windows and loss, such as 10ms; as everywhere a bare number is seconds")
	fl.StringVar(&f.window, "window", "", "window in bytes, for the rate that it allows")
	fl.StringVar(&f.loss, "loss", "", "share of packets lost, for the rate that it allows")
	return c
}

// compute parses the flags, reports all mistakes at once, and fills the document.
func (f limitsFlags) compute() (limitsDoc, error) {
	var bad faults
	rate, err := units.ParseBitRate(f.rate)
	if err == nil && rate <= 0 {
		err = fmt.Errorf("%s carries nothing; write it like 1gbit", f.rate)
	}
	bad.add("rate", err)
	if f.vlan < 0 || f.vlan > 2 {
		bad.add("vlan", fmt.Errorf("%d tags: a frame carries 0 to 2", f.vlan))
	}
	var rtt time.Duration
	var window units.Bytes
	var loss units.Percent
	if f.rtt != "" {
		rtt, err = units.ParseDuration(f.rtt)
		bad.add("rtt", err)
		if err == nil && rtt <= 0 {
			bad.add("rtt", fmt.Errorf("%s is not a round-trip time", f.rtt))
		}
	}
	if f.window != "" {
		window, err = units.ParseBytes(f.window)
		if err == nil && window <= 0 {
			err = fmt.Errorf("%s lets nothing through; write it like 64KiB", f.window)
		}
		bad.add("window", err)
	}
	if f.loss != "" {
		loss, err = units.ParsePercent(f.loss)
		if err == nil && (loss <= 0 || loss >= 100) {
			err = fmt.Errorf("%s is not between 0%% and 100%%; write it like 0.01%%", f.loss)
		}
		bad.add("loss", err)
	}
	if rtt == 0 && f.rtt == "" && (f.window != "" || f.loss != "") {
		bad = append(bad, "--window and --loss need a round trip, such as --rtt 10ms")
	}
	doc := limitsDoc{Rate: rate}
	if len(bad) == 0 {
		for _, mtu := range f.mtus {
			row, err := f.link(rate, mtu)
			bad.add("mtu", err)
			doc.Links = append(doc.Links, row)
		}
	}
	if err := bad.err(); err != nil {
		return limitsDoc{}, err
	}
	f.paths(&doc, rtt, window, loss)
	return doc, nil
}

// link computes one row of the goodput table.
func (f limitsFlags) link(rate units.BitRate, mtu int) (linkRow, error) {
	w := limits.Wire{Rate: rate, MTU: mtu, VLANTags: f.vlan, IPv6: f.ipv6, Timestamps: !f.noTimestamps && !f.udp, UDP: f.udp}
	g, err := w.Goodput()
	if err != nil {
		return linkRow{}, err
	}
	pps, err := w.PacketsPerSecond()
	if err != nil {
		return linkRow{}, err
	}
	options := []string{"IPv4", "TCP"}
	if f.ipv6 {
		options[0] = "IPv6"
	}
	if f.udp {
		options[1] = "UDP"
	} else if w.Timestamps {
		options = append(options, "timestamps")
	}
	if f.vlan > 0 {
		options = append(options, fmt.Sprintf("%d VLAN", f.vlan))
	}
	return linkRow{
		MTU: mtu, Options: strings.Join(options, ", "), Goodput: g,
		Share: float64(g) / float64(rate), PPS: pps,
	}, nil
}

// paths adds the values that depend on the round trip.
func (f limitsFlags) paths(doc *limitsDoc, rtt time.Duration, window units.Bytes, loss units.Percent) {
	if rtt <= 0 {
		return
	}
	bdp := limits.WindowFor(doc.Rate, rtt)
	doc.BDP = &bdp
	windows := []units.Bytes{65535, 256 << 10, 1 << 20, 4 << 20, 16 << 20}
	if window > 0 {
		windows = []units.Bytes{window}
	}
	for _, w := range windows {
		doc.Window = append(doc.Window, windowRow{w, rtt, limits.WindowBound(w, rtt)})
	}
	if loss <= 0 {
		return
	}
	for _, mtu := range f.mtus {
		mss := mtu - 40
		if f.ipv6 {
			mss -= 20
		}
		if !f.noTimestamps {
			mss -= 12
		}
		p := float64(loss) / 100
		doc.Loss = append(doc.Loss, lossRow{
			p, mss, rtt, limits.Mathis(mss, rtt, p, false), limits.LossBound(mss, rtt, p),
		})
	}
}

func (a *console) printLimits(doc limitsDoc) error {
	p := a.page()
	var rows [][]string
	for _, r := range doc.Links {
		rows = append(rows, []string{fmt.Sprint(r.MTU), rate2(r.Goodput), fmt.Sprintf("%.3f %%", 100*r.Share), fmt.Sprintf("%.0f", r.PPS), r.Options})
	}
	p.Title("goodput of a link at %s", doc.Rate)
	p.Table([]string{"MTU", "goodput", "share", "packets/s", "options"}, rows, nil)
	if doc.BDP != nil {
		rows = nil
		for _, r := range doc.Window {
			rows = append(rows, []string{r.Window.String(), r.Rate.String()})
		}
		p.Title("window at a round trip of %s; the full link needs %s", units.FormatDuration(doc.Window[0].RTT), doc.BDP.Binary())
		p.Table([]string{"window", "allows"}, rows, nil)
	}
	if len(doc.Loss) > 0 {
		rows = nil
		for _, r := range doc.Loss {
			rows = append(rows, []string{fmt.Sprint(r.MSS), r.Mathis.String(), r.Cubic.String()})
		}
		p.Title("what a loss of %.4g %% allows one connection, by congestion control", 100*doc.Loss[0].Loss)
		p.Table([]string{"MSS", "Mathis (Reno)", "CUBIC"}, rows, nil)
	}
	return p.Print(a.Out)
}

// rate2 formats a ceiling with decimals, as tables of the field do.
func rate2(r units.BitRate) string {
	switch {
	case r >= 1e9:
		return fmt.Sprintf("%.3f Gbit/s", float64(r)/1e9)
	default:
		return fmt.Sprintf("%.2f Mbit/s", float64(r)/1e6)
	}
}
