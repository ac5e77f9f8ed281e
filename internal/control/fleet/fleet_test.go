package fleet

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"errors"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"

	"linerate/internal/core/fingerprint"
	"linerate/internal/core/fleet"
	"linerate/internal/core/fleet/series"
	"linerate/internal/core/model"
	"linerate/internal/must"
)

func newKey(t testing.TB) *ecdsa.PrivateKey {
	return must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
}

// TestTicket: a ticket reads as it was signed, and no other bytes and no other key's are one.
func TestTicket(t *testing.T) {
	key := newKey(t)
	want := Ticket{Lease: 1 << 40, Near: 3, Far: 7, Span: fleet.Span{From: 1_800_000_000, Until: 1_800_000_150}, Confirm: true, Rate: 200e6}
	b := must.Get(want.Sign(key))(t)
	must.Equal(t, len(b), 92, "bytes")
	must.Equal(t, must.Get(ReadTicket(b, &key.PublicKey))(t), want, "read")
	must.Is(t, must.Err(ReadTicket(b, &newKey(t).PublicKey)), ErrTicket, "of another signer")
	must.Is(t, must.Err(ReadTicket(b, nil)), ErrEarly, "without a key")
	for i := range b {
		bad := bytes.Clone(b)
		bad[i] ^= 1
		must.Is(t, must.Err(ReadTicket(bad, &key.PublicKey)), ErrTicket, "byte %d changed", i)
	}
}

// FuzzTicket: no bytes panic, and none but a signed ticket is one.
func FuzzTicket(f *testing.F) {
	key := newKey(f)
	f.Add(must.Get(Ticket{Lease: 1}.Sign(newKey(f)))(f))
	f.Fuzz(func(t *testing.T, b []byte) { must.Is(t, must.Err(ReadTicket(b, &key.PublicKey)), ErrTicket) })
}

// TestMessages: what breaks a rule is refused, what has control characters is cleaned, and a field
// of a later version does no harm.
func TestMessages(t *testing.T) {
	var s Sync
	must.Do(t, Read(strings.NewReader(`{"protocol":1,"name":"n\u001b[31mas","boot":"b","addrs":["10.0.0.1","nas.example"],"port":5299,"later":{"x":[1]}}`), &s))
	must.Do(t, s.Validate())
	must.True(t, !strings.Contains(s.Name, "\x1b"), "%q", s.Name)
	must.Is(t, Read(strings.NewReader(strings.Repeat(" ", maxMessage+1)), &s), ErrInvalid, "too long")
	for name, change := range map[string]func(*Sync){
		"no name": func(s *Sync) { s.Name = "" }, "no boot": func(s *Sync) { s.Boot = "" }, "no port": func(s *Sync) { s.Port = 0 },
		"many addresses": func(s *Sync) { s.Addrs = make([]string, 9) }, "an address with a user": func(s *Sync) { s.Addrs = []string{"a@b"} },
		"two addresses in one": func(s *Sync) { s.Addrs = []string{"a,b"} }, "a share of NaN": func(s *Sync) { s.Limits.Share = math.NaN() },
		"quiet hours of years": func(s *Sync) { s.Limits.Quiet = &fleet.Quiet{From: 1 << 40} }, "too many tickets": func(s *Sync) { s.Have = make([]int64, mostTickets+1) },
	} {
		bad := s
		change(&bad)
		must.Is(t, bad.Validate(), ErrInvalid, "%s", name)
	}
	half, much, less := .5, 1e15, -1.0
	good := fleet.Lease{ID: 1, State: fleet.Done, Runs: []fleet.Run{{Part: series.Probes, Direction: model.To, Loss: &half}}}
	must.Do(t, (&Push{[]fleet.Lease{good}}).Validate())
	for name, change := range map[string]func(*fleet.Lease){
		"a state": func(l *fleet.Lease) { l.State = fleet.Planned }, "many runs": func(l *fleet.Lease) { l.Runs = make([]fleet.Run, 99) },
		"a part": func(l *fleet.Lease) { l.Runs = []fleet.Run{{Part: "x", Direction: model.To}} },
		"a rate": func(l *fleet.Lease) { l.Runs = []fleet.Run{{Part: series.Bulk, Direction: model.To, Goodput: &much}} },
		"less": func(l *fleet.Lease) {
			l.Runs = []fleet.Run{{Part: series.Probes, Direction: model.From, RoundTrip: &less}}
		},
		"text": func(l *fleet.Lease) {
			l.Print = map[fingerprint.Key]string{"near.host": strings.Repeat("x", maxText+1)}
		},
	} {
		bad := good
		change(&bad)
		must.Is(t, (&Push{[]fleet.Lease{bad}}).Validate(), ErrInvalid, "%s", name)
	}
	must.Is(t, (&Push{make([]fleet.Lease, MostResults+1)}).Validate(), ErrInvalid, "many results")
}

// TestCallFails: an error names what failed, and not the URL, whose host is any.
func TestCallFails(t *testing.T) {
	refused := errors.New("connect to hub:5300: connection refused")
	c := Client{HTTP: &http.Client{Transport: &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) { return nil, refused }}}}
	must.Equal(t, c.Call(t.Context(), "/fleet/v1/sync", nil, nil, 1).Error(), refused.Error())
}

// TestNoMessageForSettings: what a hub can send to an agent holds no setting, command or path.
func TestNoMessageForSettings(t *testing.T) {
	b := must.Get(json.Marshal(Order{Stream: &series.Stream{}, Doubt: &series.Suspicion{}, Rate: 1, Runs: 1, Lease: fleet.Lease{ProbeOnly: true, Reason: "x", Look: 1, Reported: 1, Runs: []fleet.Run{{}}, Print: map[fingerprint.Key]string{"k": "v"}}}))(t)
	var fields map[string]any
	must.Do(t, json.Unmarshal(b, &fields))
	for _, name := range []string{"lease", "ticket", "far", "addr", "pin", "max_rate", "stream", "doubt", "runs"} {
		delete(fields, name)
	}
	must.Equal(t, len(fields), 0, "an order has more: %v; is SECURITY.md still right?", fields)
}
