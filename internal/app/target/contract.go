package target

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"linerate/internal/app"
	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// Contract is the contracted rate of a path in each direction, which neither host can know:
// that of a WAN, a VPN or a virtual machine. 0 means not given.
type Contract struct {
	To, From units.BitRate
	Source   string // where the rates come from
	forget   bool
}

// noContract makes linerate forget the remembered rates.
const noContract = "none"

// ParseContract reads "200mbit", "to=50mbit,from=10mbit", or "none".
func ParseContract(text string) (Contract, error) {
	c := Contract{Source: "--rate"}
	if text == noContract {
		return Contract{forget: true}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		end, value, named := strings.Cut(part, "=")
		if !named {
			value = end
		}
		rate, err := units.ParseBitRate(value)
		if err == nil && rate < 1000 {
			err = fmt.Errorf("%s is below 1 kbit/s", rate)
		}
		switch {
		case err != nil:
			return Contract{}, err
		case !named && c.To == 0 && c.From == 0 && !strings.Contains(text, ","):
			c.To, c.From = rate, rate
		case end == string(model.To) && c.To == 0:
			c.To = rate
		case end == string(model.From) && c.From == 0:
			c.From = rate
		default:
			return Contract{}, fmt.Errorf("%q: write it like 200mbit, or to=50mbit,from=10mbit", text)
		}
	}
	return c, nil
}

// String writes c as ParseContract reads it.
func (c Contract) String() string {
	var parts []string
	for _, d := range []struct {
		name string
		rate units.BitRate
	}{{"to", c.To}, {"from", c.From}} {
		if d.rate > 0 {
			parts = append(parts, fmt.Sprintf("%s=%.0fbit", d.name, float64(d.rate)))
		}
	}
	return strings.Join(parts, ",")
}

// contractFile holds the rates that the user gave for paths.
const contractFile = "path_rates"

// pathName returns the name of a path in the notes.
func pathName(near, far Target) string {
	return strings.Join(strings.Fields(cmp.Or(Redact(near.Text), app.ThisMachine)+"->"+Redact(far.Text)), "_")
}

// remembered returns the contract of a path: the one given now, which it stores, or else the
// stored one.
func (o *Opener) remembered(near, far Target) Contract {
	given := o.o.Contract
	if far.Kind == Lab {
		return given
	}
	n, err := note(o.env.Getenv, contractFile)
	if err != nil {
		return given
	}
	name := pathName(near, far)
	if given.To > 0 || given.From > 0 || given.forget {
		word := given.String() + "@" + o.env.Now().UTC().Format(time.DateOnly)
		if given.forget {
			word = noContract
		}
		if err := n.set(name, word); err != nil {
			o.env.Observe(app.Trouble{Err: fmt.Errorf("the rate of the path is not remembered: %w", err)})
		}
		return given
	}
	words, err := n.of(name)
	if err != nil || len(words) == 0 || words[len(words)-1] == noContract {
		return given
	}
	text, day, _ := strings.Cut(words[len(words)-1], "@")
	c, err := ParseContract(text)
	if err != nil {
		return given
	}
	c.Source = "--rate, given on " + day
	return c
}

// agreed adds the rates of a contract to the facts of the path. They take precedence over
// those of the interfaces; the rate of the path is the lower one of both directions.
func (e *Ends) agreed(c Contract) {
	for i, rate := range []units.BitRate{c.To, c.From} {
		if rate <= 0 {
			continue
		}
		known := fact.Known(rate, c.Source)
		e.Hosts[i].PathRate = known
		if link, ok := e.WireRate.Get(); !ok || rate < link {
			e.WireRate = known
		}
	}
	if c.To > 0 && c.From > 0 {
		e.WireRate = fact.Known(min(c.To, c.From), c.Source)
	}
}
