package health

import (
	"fmt"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/units"
)

// diskShare is the share of the network's rate below which a disk limits copies (diagnosis.md
// section 2.5).
const diskShare = 0.9

// disks returns a line per direction of file copies, if disks were requested.
func (j judge) disks() []Line {
	if j.s.Check == nil || len(j.s.Check.Disks) == 0 {
		return nil
	}
	return []Line{j.disk(model.To), j.disk(model.From)}
}

// disk compares the disks that files of a direction are read from and written to with the rate
// of one stream from memory to memory.
func (j judge) disk(d model.Direction) Line {
	l := Line{Thing: "disk", Direction: d, State: Unseen}
	var least units.BitRate
	for _, part := range []struct {
		host model.Host
		what string
		rate func(model.Disk) fact.Of[units.BitRate]
	}{
		{d.Sender(), "reads", func(k model.Disk) fact.Of[units.BitRate] { return k.Read }},
		{d.Receiver(), "writes", func(k model.Disk) fact.Of[units.BitRate] { return k.Write }},
	} {
		of := fact.Unknown[units.BitRate]("not measured")
		for _, k := range j.s.Check.Disks {
			if k.Host == part.host {
				of = part.rate(k)
			}
		}
		v, ok := of.Get()
		if !ok {
			l.Evidence = append(l.Evidence, fmt.Sprintf("what %s %s: %s", j.name(part.host), part.what, of.Reason()))
			continue
		}
		l.Evidence = append(l.Evidence, fmt.Sprintf("%s %s %s (%s)", j.name(part.host), part.what, v, of.Source()))
		if least == 0 || v < least {
			least, l.Text = v, "is what "+j.name(part.host)+" "+part.what
		}
	}
	if least == 0 {
		l.Text = "neither disk could be measured"
		return l
	}
	l.Number = least.String()
	r, ok := j.valid(d)
	v, measured := r.Value(d, model.Goodput)
	if !ok || !measured || v <= 0 {
		l.Text += "; there is no rate of the network to hold it against"
		return l
	}
	network := units.BitRate(v)
	l.Evidence = append(l.Evidence, fmt.Sprintf("one stream from memory to memory carries %s", network))
	l.State = OK
	if float64(least) < diskShare*v {
		l.State = Poor
		l.Text += fmt.Sprintf(", and the network carries %s: files are held back by the disk", network)
	}
	return l
}
