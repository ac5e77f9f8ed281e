// Package app is linerate without a terminal: the folders below it hold the use cases, this
// package what they share. A use case gets its surroundings as an Env, asks the user through
// Asker, reports events through Observer, and fails with a Fault. The command line, the web
// page, an agent of a fleet and a test each bring their own; no use case knows which.
package app

import (
	"context"
	"errors"
	"time"

	"linerate/internal/core/knob"
	"linerate/internal/core/traffic"
	"linerate/internal/measure/engines"
	"linerate/internal/measure/foreign"
	"linerate/internal/measure/program"
)

// Env holds what a use case needs from its surroundings; tests make their own.
type Env struct {
	Version string
	Self    []string // the argument vector that starts this program again
	Getenv  func(string) string
	Now     func() time.Time
	// AfterStep is for tests: the watchdog calls it after each step of a change; see
	// watchdog.Config.After.
	AfterStep func(step string)
	// Root is for tests: the directory that holds the files of a boot job; see
	// watchdog.Config.Root.
	Root string
	// Timeout bounds how long a host may take to answer when a session is opened; 0 means
	// DefaultTimeout.
	Timeout time.Duration
	// Calm bounds how long a measurement waits for hosts whose CPUs other programs keep busy;
	// 0 means it does not wait.
	Calm time.Duration
	// Engines lists the engines of this program; nil means engines.All.
	Engines Engines
	// Programs lists the foreign programs that linerate can measure with; nil means
	// foreign.All.
	Programs Programs
	// Catalogue indexes the settings; it is made once per process.
	Catalogue *knob.Index
	// Between, if set, is called before each run of an experiment, with the changes that the
	// hosts still hold: none, unless an undo failed. It may wait.
	Between func(ctx context.Context, still []string) error
	Asker
	Observer
}

// DefaultTimeout is how long to wait for a host that does not answer. A command that meets
// one ends within 15 s, even on a busy machine where starting and exiting take a second or
// two.
const DefaultTimeout = 12 * time.Second

// Engines makes the engines of a program.
type Engines = engines.List

// Programs are foreign programs that linerate measures with.
type Programs = program.List

// Flag is a flag of a foreign program.
type Flag = program.Flag

// Values are the flags of a foreign program as the user gives them.
type Values = program.Values

// AllPrograms returns the foreign programs, by default foreign.All.
func (e Env) AllPrograms() Programs {
	if e.Programs == nil {
		return foreign.All()
	}
	return e.Programs
}

// Kinds returns the kinds of traffic of all engines and of the foreign programs.
func (e Env) Kinds() traffic.Kinds {
	kinds := e.Engines.Kinds()
	for _, p := range e.AllPrograms() {
		kinds = append(kinds, p.Kinds...)
	}
	return kinds
}

// Asker puts questions to the user.
type Asker interface {
	// Ask returns the user's answer. It returns ErrNoTerminal at once if no user can answer that
	// kind of question, and the error of ctx if ctx ends before the answer comes.
	Ask(ctx context.Context, q Question) (Answer, error)
}

// ErrNoTerminal reports that there is no terminal to answer a question on.
var ErrNoTerminal = errors.New("there is no terminal to answer on")

// QuestionKind is the kind of a question.
type QuestionKind int

// The closed list of questions.
const (
	// Password asks for the password of sudo on Host; the answer is Answer.Secret.
	Password QuestionKind = iota
	// KeepChange asks whether to keep a change of settings that is in force. Without an
	// answer it is rolled back after Within.
	KeepChange
	// WriteFiles asks whether Count files may be written on Host, which may name several
	// hosts.
	WriteFiles
	// TryRisky asks whether the setting What may be tried for one run, despite the risk Why.
	TryRisky
	// KeepTuned asks whether to keep settings that proved better: Answer.Choice is "reboot"
	// (until the next one), "permanent", "profile", or "".
	KeepTuned
	// KeepProgram asks whether a copy of this program of Count bytes may stay on Host. The
	// answer is remembered.
	KeepProgram
	// TrySettings asks whether harmless settings of Host may each be changed for a moment and
	// undone.
	TrySettings
)

// Question is a question to the user. Fields that do not belong to the kind are zero.
type Question struct {
	Kind   QuestionKind
	Host   string        // for people
	What   string        // TryRisky
	Why    string        // TryRisky
	Count  int           // WriteFiles, KeepProgram
	Within time.Duration // KeepChange: how long there is to decide
}

// Answer is the user's answer. The caller that asked for a Secret may clear it.
type Answer struct {
	Yes    bool
	Choice string // KeepTuned
	Secret []byte
}

// Observer receives events.
type Observer interface {
	// Observe takes one event. It is called from any goroutine of a use case, must
	// not block for long, and must not change what it is given.
	Observe(e Event)
}

// NoUser is an Asker and Observer without a user: it answers no question and drops all
// events.
type NoUser struct{}

// Ask implements Asker: it returns ErrNoTerminal.
func (NoUser) Ask(context.Context, Question) (Answer, error) { return Answer{}, ErrNoTerminal }

// Observe implements Observer: it drops e.
func (NoUser) Observe(Event) {}
