package app

import (
	"fmt"
	"time"

	"linerate/internal/core/model"
)

// Event is something that happened, as data: one of the types of this package, and no other.
// The user interface that shows an event chooses the words.
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

// Trouble is a failure beside the main task: the use case continues, or fails for a reason of
// its own.
type Trouble struct{ Err error }

// Waiting reports, once, that a host has not answered for a while.
type Waiting struct {
	Side model.Host
	Most time.Duration // total time to wait; 0 if the user may have to answer a question of ssh first
}

// Warning is a warning about the connection to a host, reported once.
type Warning struct{ Text string }

// Recovered is a change, left by an earlier session that was cut short, that an agent rolled
// back, or tried to, when it started.
type Recovered struct {
	Host   string // for people
	Change model.Change
}

// String returns one line, which a session stores among its warnings.
func (r Recovered) String() string {
	line := fmt.Sprintf("%s: %s was left changed by a session that was cut short: %s", r.Host, r.Change.Knob, r.Change.State)
	if r.Change.Detail != "" {
		line += " (" + r.Change.Detail + ")"
	}
	return line
}

// HostSaid is a message line from the agent of a host or its watchdog. The same line may come
// many times.
type HostSaid struct {
	Host string // "" for this machine
	Line string
}

// Copying is the progress of copying this program to a host: at the start, a few times a
// second, and at the end.
type Copying struct {
	Host        string
	Done, Bytes int
	Elapsed     time.Duration
}

// SweptUp is a file that a killed copy had left and that was removed.
type SweptUp struct{ Path string }

// String returns the event as one line.
func (s SweptUp) String() string {
	return fmt.Sprintf("removed %s, which a copy that was killed had left", s.Path)
}

// ServerSaid is a line that a foreign server printed.
type ServerSaid struct{ Line string }

// LabSaid is a message line from a process of the lab.
type LabSaid struct{ Line string }

// Serving is a message line of this machine as a server. Visit means that a visit event
// carries the same as data.
type Serving struct {
	Line  string
	Visit bool
}

// FolderProgress is the progress of measuring a folder.
type FolderProgress struct {
	Operation       string // write or read
	Repeat, Repeats int    // 1…
	Share           float64
	Elapsed         time.Duration
}

// Located is a link in front of which packets queued in the run of a check that has just
// ended, reported before the check is over.
type Located struct {
	Names model.Names
	Place model.Place
}

// Looking names the check that is running.
type Looking struct{ At string }
