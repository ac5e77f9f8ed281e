// Package audit records who used a server: one line per event, including refused attempts.
//
// A line is one JSON object with its keys in a fixed order; see [Event]. Events of anonymous
// clients are limited per source and in total. Omitted events are counted: in the next line of
// that source, or once a minute in a line of their own ("left-out"). Connections that are
// dropped before they identify themselves get one line per reason every 10 s, with their
// number. Lines of keys have limits of their own, so that anonymous clients cannot crowd them
// out, and changes of the host are never omitted.
// Nothing here blocks a session: lines wait in a bounded queue for one writer.
package audit

import (
	"context"
	"io"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"linerate/internal/core/plain"
	"linerate/internal/core/units"
)

// Kind is the kind of an event.
type Kind string

// The kinds of events.
const (
	Started      Kind = "started"       // the server listens; Reason says how
	Stopped      Kind = "stopped"       // the server ended
	Refused      Kind = "refused"       // a connection, a hello, a login or a request was turned away
	SessionBegin Kind = "session-begin" // a controller was admitted
	SessionEnd   Kind = "session-end"   // it left, and its changes are undone
	RunBegin     Kind = "run-begin"     // a run or a foreign client's test begins
	RunEnd       Kind = "run-end"       // it ended
	Change       Kind = "change"        // a setting was changed
	Undo         Kind = "undo"          // a setting was put back, or should have been
	Confirm      Kind = "confirm"       // what another session had changed stays
	Keep         Kind = "keep"          // a file of the system was written
	Restore      Kind = "restore"       // a file of the system was put back
	Dropped      Kind = "dropped"       // Count connections were closed before they identified themselves
	LeftOut      Kind = "left-out"      // LeftOut events, of Sources sources, were not recorded
)

// changesHost reports whether events of this kind are always recorded.
func (k Kind) changesHost() bool {
	switch k {
	case Change, Undo, Confirm, Keep, Restore, Started, Stopped:
		return true
	case Refused, SessionBegin, SessionEnd, RunBegin, RunEnd, Dropped, LeftOut:
	}
	return false
}

// Values of Event.Outcome.
const (
	OK     = "ok"     // it succeeded
	Denied = "denied" // it was refused; Reason says why
	Failed = "failed" // it began, and failed; Reason says why
	Cut    = "cut"    // it was ended from outside: by a limit, a revoked key, the end of the server
)

// Event is one line. Zero fields are omitted. They are written in the order below, under the
// names in the comments. Texts may come from anonymous clients: control characters are removed
// and long texts cut.
type Event struct {
	Time      time.Time     // time; the zero value is now
	Kind      Kind          // event
	Protocol  string        // protocol: linerate, iperf3, iperf2, netpipe, udpstp
	Key       string        // key: name of the key, or of an iperf3 user; "" for an anonymous client
	From      netip.Addr    // address
	Engine    string        // engine of a run
	Direction string        // direction of a run, as the controller sees it: to, from, both
	Took      time.Duration // seconds, as a number
	Sent      units.Bytes   // sent by this host
	Received  units.Bytes   // received by this host
	Knob      string        // knob that was changed or put back
	Place     string        // place: what the knob is called on this host, or a file's path
	Old, New  string        // old, new: values as the host has them
	Outcome   string        // outcome: one of the constants above
	Reason    string        // reason, in words

	// Count is the number of dropped connections, LeftOut that of unrecorded events before
	// this one, and Sources that of their sources, 1024 at most. The log fills them in.
	Count, LeftOut, Sources int // count, left_out, sources
}

// queued is how many lines may wait for the writer. patience is how long an event that must not
// be lost waits for room in the queue.
const (
	queued   = 1024
	patience = 2 * time.Second
)

// Config configures a log. The zero value drops all events.
type Config struct {
	// Lines receives one JSON object per line; nil drops them. If Write fails that line is
	// lost: the writer should report it itself, as [File] does.
	Lines io.Writer
	// Talk receives each event, for a person who watches; nil for none.
	Talk func(Event)
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Log is an audit log. It is safe for concurrent use; a nil Log drops everything.
type Log struct {
	config Config
	lines  *slog.Logger

	mu     sync.Mutex // guards limit and closed
	limit  limiter
	closed bool

	queue chan Event
	quit  chan struct{} // closed by Close
	done  chan struct{} // closed by the writer
}

// New starts a log, whose writer runs until Close.
func New(c Config) *Log {
	if c.Now == nil {
		c.Now = time.Now
	}
	l := &Log{config: c, limit: newLimiter(c.Now()), queue: make(chan Event, queued), quit: make(chan struct{}), done: make(chan struct{})}
	if c.Lines != nil {
		l.lines = slog.New(slog.NewJSONHandler(c.Lines, &slog.HandlerOptions{ReplaceAttr: plainRecord}))
	}
	go l.write()
	return l
}

// Record records e, unless too many events of its kind and source came before. It does not wait
// for a disk; an event that changed the host waits up to 2 s for room in the queue.
func (l *Log) Record(e Event) {
	if l == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = l.config.Now()
	}
	e.From = e.From.Unmap().WithZone("")
	for _, one := range l.admit(e) {
		l.put(one)
	}
}

// admit returns the events to write now that e has happened.
func (l *Log) admit(e Event) []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	all := l.limit.overdue(e.Time)
	if e.Kind == Dropped {
		return append(all, l.limit.drop(e)...)
	}
	if l.limit.admit(&e) {
		all = append(all, e)
	}
	return all
}

// put queues e, or counts it if there is no room.
func (l *Log) put(e Event) {
	select {
	case l.queue <- e:
		return
	default:
	}
	if e.Kind.changesHost() {
		late := time.NewTimer(patience)
		defer late.Stop()
		select {
		case l.queue <- e:
			return
		case <-l.quit:
		case <-late.C:
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit.lose(e)
}

// Close writes the queued lines and the counts of omitted events, and ends the writer. It is
// idempotent. Later events are dropped.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.quit)
	}
	l.mu.Unlock()
	<-l.done
	return nil
}

// write is the writer. Once a minute it writes the counts of omitted events, even if nothing
// else happens.
func (l *Log) write() {
	defer close(l.done)
	tick := time.NewTicker(summary)
	defer tick.Stop()
	for {
		select {
		case e := <-l.queue:
			l.emit(e)
		case <-tick.C:
			l.emitAll((*limiter).overdue)
		case <-l.quit:
			for len(l.queue) > 0 {
				l.emit(<-l.queue)
			}
			l.emitAll((*limiter).sums)
			return
		}
	}
}

// emitAll writes the events that sums returns.
func (l *Log) emitAll(sums func(*limiter, time.Time) []Event) {
	l.mu.Lock()
	all := sums(&l.limit, l.config.Now())
	l.mu.Unlock()
	for _, e := range all {
		l.emit(e)
	}
}

func (l *Log) emit(e Event) {
	if l.lines != nil {
		r := slog.NewRecord(e.Time, slog.LevelInfo, string(e.Kind), 0)
		r.AddAttrs(e.attrs()...)
		_ = l.lines.Handler().Handle(context.Background(), r) // Lines reports its own errors
	}
	if l.config.Talk != nil {
		l.config.Talk(e)
	}
}

// timeFormat is RFC 3339 in UTC, to the millisecond.
const timeFormat = "2006-01-02T15:04:05.000Z"

// plainRecord renames the standard fields of a record to Event's names.
func plainRecord(groups []string, a slog.Attr) slog.Attr {
	if len(groups) > 0 {
		return a
	}
	switch a.Key {
	case slog.TimeKey:
		return slog.String("time", a.Value.Time().UTC().Format(timeFormat))
	case slog.LevelKey:
		return slog.Attr{}
	case slog.MessageKey:
		return slog.String("event", a.Value.String())
	}
	return a
}

// attrs returns the non-zero fields of e, in order.
func (e Event) attrs() []slog.Attr {
	var all []slog.Attr
	text := func(name, s string) {
		if s != "" {
			all = append(all, slog.String(name, clean(s)))
		}
	}
	number := func(name string, n int64) {
		if n != 0 {
			all = append(all, slog.Int64(name, n))
		}
	}
	text("protocol", e.Protocol)
	text("key", e.Key)
	if e.From.IsValid() {
		text("address", e.From.String())
	}
	text("engine", e.Engine)
	text("direction", e.Direction)
	if e.Took > 0 {
		all = append(all, slog.Float64("seconds", e.Took.Round(time.Millisecond).Seconds()))
	}
	number("sent", int64(e.Sent))
	number("received", int64(e.Received))
	text("knob", e.Knob)
	text("place", e.Place)
	if e.Knob != "" { // an old value may be empty
		all = append(all, slog.String("old", clean(e.Old)), slog.String("new", clean(e.New)))
	}
	text("outcome", e.Outcome)
	text("reason", e.Reason)
	number("count", int64(e.Count))
	number("left_out", int64(e.LeftOut))
	number("sources", int64(e.Sources))
	return all
}

// longest is the longest text of an event, in bytes.
const longest = 400

// clean makes s fit on one line of any terminal.
func clean(s string) string { return plain.Brief(s, longest) }
