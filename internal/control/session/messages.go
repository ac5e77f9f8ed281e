package session

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/core/packed"
	"linerate/internal/core/probe"
)

// Messages of the calls that are not values of packages model or probe, nor values of a Service
// by themselves. Their bounds are in their tags; see rule.
type (
	nothing struct{}

	factsRequest struct {
		Peer string `json:"peer,omitempty" bound:"address"` // of the other end's data path, with the interface that leads there after %; "" if unknown
	}
	knobNames struct {
		IDs []model.KnobID `json:"ids" bound:"1..1024"`
	}
	knobValues struct {
		Knobs map[model.KnobID]fact.Of[string] `json:"knobs" bound:"1024"` // those that exist
	}
	applyRequest struct {
		Assignments []model.Assignment `json:"assignments" bound:"1..256"`
		Terms       Terms              `json:"terms"`
	}
	changeList struct {
		Changes []model.Change `json:"changes" bound:"1024"`
		Problem string         `json:"problem,omitempty" bound:"text"` // why not all were tried
	}
	extendRequest struct {
		Within time.Duration `json:"within_ns" bound:"1s..24h"` // from now
	}
	runNumber struct {
		Run uint64 `json:"run"` // as in Preparation
	}
	acceptedAt struct {
		Port int `json:"port" bound:"65535"`
	}
	transaction struct {
		Transaction string `json:"transaction"` // "" for nothing, or for all in Revert
	}
	fileLines struct {
		Lines map[model.KnobID]model.FileLine `json:"lines" bound:"1024"`
	}
	probeRequest struct {
		Targets []string      `json:"targets" bound:"1..16,value"`
		Within  time.Duration `json:"within_ns" bound:"1ms..10s"` // timeout of each
		Settle  time.Duration `json:"settle_ns" bound:"15s"`      // time to wait for a link first
	}
	probeResults struct {
		Results []probe.Result `json:"results" bound:"64"` // one or two for each target
	}
	restoreRequest struct {
		Since string `json:"since,omitempty"` // name of the oldest record to undo; "" for all
	}
	keptList struct {
		Records []KeptRecord `json:"records" bound:"256"` // oldest first
	}
	confirmedList struct {
		Settings []Confirmation `json:"settings" bound:"1024"` // oldest first, each knob once
	}
	claimList struct {
		Claims []model.Claim `json:"claims" bound:"1024"` // those of one knob in the order in which they are applied
	}
)

// EventKind is the kind of an Event.
type EventKind int

// The kinds of events, in the order in which they first occur.
const (
	Ready    EventKind = iota + 1 // the connections are open; Warnings
	Samples                       // Samples
	Measured                      // the end's measured windows are complete
	Result                        // Report; the last event
)

func (k EventKind) words() []string { return []string{"", "ready", "samples", "measured", "result"} }

// MarshalText returns the kind as a word.
func (k EventKind) MarshalText() ([]byte, error) {
	if k < Ready || k > Result {
		return nil, fmt.Errorf("%w: event of kind %d", ErrInvalid, k)
	}
	return []byte(k.words()[k]), nil
}

// UnmarshalText reads what MarshalText returns.
func (k *EventKind) UnmarshalText(b []byte) error {
	for i, word := range k.words() {
		if i > 0 && word == string(b) {
			*k = EventKind(i)
			return nil
		}
	}
	return fmt.Errorf("%w: no event is called %.20q", ErrInvalid, b)
}

// Event is one message of an agent about a run.
type Event struct {
	Kind     EventKind       `json:"kind"`
	Warnings []string        `json:"warnings,omitempty" bound:"64,text"`
	Samples  Block           `json:"samples,omitempty" bound:"4096"`
	Report   model.EndReport `json:"report,omitzero"`
}

// Block is some samples. Its JSON is a text: the base64 form (RFC 4648 section 4) of package
// packed's encoding, as in the store.
type Block []model.Sample

// MarshalJSON packs the samples.
func (b Block) MarshalJSON() ([]byte, error) { return json.Marshal(packed.Quick(b)) }

// UnmarshalJSON unpacks at most MaxSamples samples.
func (b *Block) UnmarshalJSON(text []byte) error {
	var bytes []byte
	if err := json.Unmarshal(text, &bytes); err != nil {
		return err
	}
	samples, err := packed.Unpack(bytes, MaxSamples)
	*b = samples
	return err
}

// whole checks a part of a message against the rules that go beyond one field.
func (b *bounds) whole(part any) {
	switch p := part.(type) {
	case *applyRequest:
		for _, a := range p.Assignments {
			b.that(a.Host == b.end, "an assignment is for the %s host, this is the %s one", a.Host, b.end)
		}
	case *[]model.Assignment:
		unique(&b.check, *p, func(a model.Assignment) string { return string(a.Knob) })
	case *model.Assignment:
		b.command(*p)
	case *model.Flow:
		b.that(p.Interval == 0 || p.Interval >= MinInterval, "interval is %v, the least is %v", p.Interval, MinInterval)
	case *model.Params:
		b.that(len(*p) <= MaxParams, "parameters of the engine have %d bytes, at most %d are allowed", len(*p), MaxParams)
		b.that(*p == "" || (*p)[0] == '{', "parameters of the engine are no JSON object")
	case *model.Ports:
		b.that(p.Valid(), "no ports: %s", p)
	case *Preparation:
		b.that(p.Run != 0, "the run has no number")
		b.hostPort("address to connect to", p.Connect)
	case *Event:
		b.that(p.Kind != 0, "an event has no kind")
		b.that((p.Kind == Samples) == (len(p.Samples) > 0), "an event of kind %d has %d samples", p.Kind, len(p.Samples))
	case *[]model.NIC:
		unique(&b.check, *p, func(n model.NIC) string { return n.Name })
	case *model.Latency:
		b.that(p.Lost <= p.Sent, "%d probes lost of %d", p.Lost, p.Sent)
	case *probeRequest:
		for _, t := range p.Targets {
			if err := probe.Valid(t); err != nil {
				b.fail("target %v", err)
			}
		}
	case *Keep:
		b.that(p.Renew != "" || len(p.Settings) > 0, "no settings")
	case *[]Confirmation:
		unique(&b.check, *p, func(c Confirmation) string { return string(c.Knob) })
	}
}

// unique requires that no two elements have the same name.
func unique[T any](c *check, list []T, name func(T) string) {
	seen := make(map[string]bool, len(list))
	for _, one := range list {
		c.that(!seen[name(one)], "%s occurs twice", name(one))
		seen[name(one)] = true
	}
}

// command checks an assignment of a command, and that no other assignment has one.
func (b *bounds) command(a model.Assignment) {
	b.that(strings.HasPrefix(string(a.Knob), model.CommandPrefix) == a.IsCommand(), "a command is called %sNAME, and nothing else is", model.CommandPrefix)
	if !a.IsCommand() {
		return
	}
	b.that(a.Value == model.On || a.Value == model.Off, "a command is %s or %s, not %q", model.On, model.Off, a.Value)
	b.that(strings.TrimSpace(a.Command.Run) != "" && strings.TrimSpace(a.Command.Undo) != "", "a command has nothing to run")
	b.that(a.Command.Limit >= time.Millisecond, "a command may take %v, the least is a millisecond", a.Command.Limit)
}

// hostPort checks an address to connect to. It accepts "", which means no address.
func (b *bounds) hostPort(field, s string) {
	if s == "" {
		return
	}
	host, port, err := net.SplitHostPort(s)
	n, perr := strconv.ParseUint(port, 10, 16)
	b.that(err == nil && perr == nil && host != "" && n != 0 && n <= math.MaxUint16, "%s is not a host with a port", field)
}
