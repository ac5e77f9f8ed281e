package iperf3

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"linerate/internal/core/fact"
)

// MaxStreams is the most streams that results may list: two directions of
// MaxParallel.
const MaxStreams = 2 * MaxParallel

// Results are what each end sends the other after the data, client first, in the same form for
// both directions (section 8).
type Results struct {
	CPUTotal, CPUUser, CPUSystem float64 // percent of one CPU over the test

	// SenderHasRetransmits is 1 or 0 for a side that sends, even if its system does not count
	// retransmits, and -1 for one that only receives.
	SenderHasRetransmits int64

	CongestionUsed string          // TCP, since 3.2; "" if absent
	ServerText     string          // the server's report, if requested; "" if absent
	ServerJSON     json.RawMessage // the same as JSON, not interpreted; nil if absent
	Streams        []StreamResult
}

// StreamResult is one end's count of one stream: what a sender sent, or a receiver received.
type StreamResult struct {
	ID          int64 // see StreamID
	Bytes       int64 // after the omitted time
	Retransmits fact.Of[int64]
	Jitter      float64          // seconds; UDP receivers
	Errors      int64            // datagrams counted as lost
	Packets     int64            // a sender's count, a receiver's highest sequence number
	Omitted     fact.Of[Omitted] // since 3.14
	EndSeconds  fact.Of[float64] // length of the measured time, since 3.2
}

// Omitted is the part of Errors and Packets within the omitted time.
type Omitted struct{ Errors, Packets int64 }

// Marshal returns the results as JSON, without the length prefix. The error wraps ErrTooLong
// above MaxResults bytes; more than MaxStreams streams, a NaN or an infinity are errors too.
func (r Results) Marshal() ([]byte, error) {
	if len(r.Streams) > MaxStreams {
		return nil, fmt.Errorf("write results of %d streams, at most %d", len(r.Streams), MaxStreams)
	}
	list := []json.RawMessage{}
	var err error
	for _, s := range r.Streams {
		b, e := s.marshal()
		list, err = append(list, b), errors.Join(err, e)
	}
	all, e := json.Marshal(list)
	raw := json.RawMessage(all)
	b, failed := write(r.fields(&raw))
	if err = errors.Join(err, e, failed); err != nil {
		return nil, fmt.Errorf("write results: %w", err)
	}
	if len(b) > MaxResults {
		return nil, fmt.Errorf("write results of %d bytes: %w", len(b), ErrTooLong)
	}
	return b, nil
}

// fields lists the keys of r; streams stands for r.Streams.
func (r *Results) fields(streams *json.RawMessage) []field {
	return []field{
		{"cpu_util_total", &r.CPUTotal, always}, {"cpu_util_user", &r.CPUUser, always}, {"cpu_util_system", &r.CPUSystem, always},
		{"sender_has_retransmits", &r.SenderHasRetransmits, always}, {"congestion_used", &r.CongestionUsed, optional},
		{"streams", streams, always}, {"server_output_text", &r.ServerText, optional}, {"server_output_json", &r.ServerJSON, optional},
	}
}

// fields lists the keys of s; retransmits stands for s.Retransmits, and o and end, if not nil,
// for s.Omitted and s.EndSeconds.
func (s *StreamResult) fields(retransmits *int64, o *Omitted, end *float64) []field {
	all := []field{
		{"id", &s.ID, always}, {"bytes", &s.Bytes, always}, {"retransmits", retransmits, always},
		{"jitter", &s.Jitter, always}, {"errors", &s.Errors, always}, {"packets", &s.Packets, always},
	}
	if o != nil {
		all = append(all, field{"omitted_errors", &o.Errors, always}, field{"omitted_packets", &o.Packets, always})
	}
	if end != nil {
		all = append(all, field{"start_time", new(int64), digit}, field{"end_time", end, always})
	}
	return all
}

func (s StreamResult) marshal() ([]byte, error) {
	retransmits := s.Retransmits.Or(-1)
	var o *Omitted
	if v, ok := s.Omitted.Get(); ok {
		o = &v
	}
	var end *float64
	if v, ok := s.EndSeconds.Get(); ok {
		end = &v
	}
	return write(s.fields(&retransmits, o, end))
}

// ParseResults parses results from any version. It requires the keys that real readers require,
// and accepts integers in every form that versions write. The error wraps ErrTooLong above
// MaxResults bytes.
//
//	{"cpu_util_total":31.55,"cpu_util_user":0.4,"cpu_util_system":31.15,"sender_has_retransmits":18446744073709551615,"congestion_used":"bbr","streams":[{"id":1,"bytes":828506112,"retransmits":18446744073709551615,"jitter":0,"errors":0,"packets":0,"start_time":0,"end_time":1.0002}]}
func ParseResults(data []byte) (Results, error) {
	if len(data) > MaxResults {
		return Results{}, fmt.Errorf("parse results of %d bytes: %w", len(data), ErrTooLong)
	}
	o, err := parseObject(data)
	if err != nil {
		return Results{}, fmt.Errorf("parse results: %w", err)
	}
	var r Results
	var streams json.RawMessage
	if err := o.read(r.fields(&streams), true); err != nil {
		return Results{}, fmt.Errorf("parse results: %w", err)
	}
	if r.Streams, err = parseStreams(streams); err != nil {
		return Results{}, fmt.Errorf("parse results: streams: %w", err)
	}
	return r, nil
}

// parseStreams fails beyond MaxStreams, before it parses a longer list.
func parseStreams(raw json.RawMessage) ([]StreamResult, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('[') {
		return nil, errors.Join(errors.New("not a JSON array"), err)
	}
	var all []StreamResult
	for d.More() {
		if len(all) == MaxStreams {
			return nil, fmt.Errorf("more than %d", MaxStreams)
		}
		var one json.RawMessage
		if err := d.Decode(&one); err != nil {
			return nil, err
		}
		s, err := parseStream(one)
		if err != nil {
			return nil, fmt.Errorf("number %d: %w", len(all), err)
		}
		all = append(all, s)
	}
	return all, nil
}

func parseStream(raw json.RawMessage) (StreamResult, error) {
	o, err := parseObject(raw)
	if err != nil {
		return StreamResult{}, err
	}
	s := StreamResult{
		Retransmits: fact.Unknown[int64]("the peer does not count them"),
		Omitted:     fact.Unknown[Omitted]("the peer is older than 3.14"), EndSeconds: fact.Unknown[float64]("the peer is older than 3.2"),
	}
	var retransmits int64
	var om *Omitted
	var end *float64
	if o["omitted_errors"] != nil || o["omitted_packets"] != nil {
		om = new(Omitted)
	}
	if o["end_time"] != nil {
		end = new(float64)
	}
	if err := o.read(s.fields(&retransmits, om, end), true); err != nil {
		return StreamResult{}, err
	}
	if retransmits >= 0 {
		s.Retransmits = fact.Known(retransmits, fromPeer)
	}
	if om != nil {
		s.Omitted = fact.Known(*om, fromPeer)
	}
	if end != nil {
		s.EndSeconds = fact.Known(*end, fromPeer)
	}
	return s, nil
}

// Match returns the results of each stream of want, in that order. For a stream that is
// unknown, missing or listed twice, the error wraps a *ServerError with CodeStreamID, with
// which a server refuses it; real servers refuse only unknown ones and take the others as zeros
// (section 8).
func (r Results) Match(want []Stream) ([]StreamResult, error) {
	wrong := func(what string, id int64) error {
		return fmt.Errorf("match results: %s stream %d: %w", what, id, &ServerError{Code: CodeStreamID, HasErrno: true})
	}
	found := make([]StreamResult, len(want))
	seen := make([]bool, len(want))
	for _, s := range r.Streams {
		i := slices.IndexFunc(want, func(w Stream) bool { return int64(w.ID) == s.ID })
		if i < 0 {
			return nil, wrong("unknown", s.ID)
		}
		if seen[i] {
			return nil, wrong("repeated", s.ID)
		}
		found[i], seen[i] = s, true
	}
	if i := slices.Index(seen, false); i >= 0 {
		return nil, wrong("missing", int64(want[i].ID))
	}
	return found, nil
}
