package app

import (
	"fmt"
	"time"

	"linerate/internal/core/model"
)

// Event is something that happened, as data: one of the types of this package, and no
// other. Whoever shows events decides on the words.
type Event interface{ event() }

// The closed list of events.
func (Trouble) event()        {}
func (Waiting) event()        {}
func (Warning) event()        {}
func (Recovered) event()      {}
func (HostSaid) event()       {}
func (Copying) event()        {}
func (SweptUp) event()        {}
func (ServerSaid) event()     {}
func (LabSaid) event()        {}
func (Serving) event()        {}
func (FolderProgress) event() {}
func (Looking) event()        {}
func (Located) event()        {}

// Trouble is a failure beside what a use case does: the use case goes on, or fails
// for a reason of its own.
type Trouble struct{ Err error }

// Waiting says once that a host has not answered for a while.
type Waiting struct {
	Side model.Host
	Most time.Duration // how long it is waited for in all
}

// Warning is something to know of the way to a host, told once.
type Warning struct{ Text string }

// Recovered is a change that an agent put back, or tried to, when it started: a
// session before it was cut short.
type Recovered struct {
	Host   string // for people
	Change model.Change
}

// String says it in a line, which a session keeps among its warnings.
func (r Recovered) String() string {
	line := fmt.Sprintf("%s: %s was left changed by a session that was cut short: %s", r.Host, r.Change.Knob, r.Change.State)
	if r.Change.Detail != "" {
		line += " (" + r.Change.Detail + ")"
	}
	return line
}

// HostSaid is a line that the agent of a host or its watchdog has written for people.
// The same one may come many times.
type HostSaid struct {
	Host string // "" for this machine
	Line string
}

// Copying is how far a copy of this program to a host is: at its beginning, a few times
// a second, and at its end.
type Copying struct {
	Host        string
	Done, Bytes int
	Elapsed     time.Duration
}

// SweptUp is a file of a copy that was killed, which was removed.
type SweptUp struct{ Path string }

// String says it in a line.
func (s SweptUp) String() string {
	return fmt.Sprintf("removed %s, which a copy that was killed had left", s.Path)
}

// ServerSaid is a line that a foreign server printed.
type ServerSaid struct{ Line string }

// LabSaid is a line that a process of the lab has written for people.
type LabSaid struct{ Line string }

// Serving is a line about what this machine does as a server. Visit says that an event
// of a visit tells the same as data.
type Serving struct {
	Line  string
	Visit bool
}

// FolderProgress is how far the measuring of a folder is.
type FolderProgress struct {
	Operation       string // write or read
	Repeat, Repeats int    // 1…
	Share           float64
	Elapsed         time.Duration
}

// Located is a link in front of which packets waited in the run of a check that has just
// ended, told before the check is over.
type Located struct {
	Names model.Names
	Place model.Place
}

// Looking is what is looked at now.
type Looking struct{ At string }
