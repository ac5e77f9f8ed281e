// Package app is what linerate can do for somebody, without a terminal: the
// folders below it hold the use cases, this one what they share. A use case is
// given the world as an Env, asks a person through Asker, tells what happens
// through Observer, and fails with a Fault. The command line, a web page, an
// agent of a fleet and a test bring their own; no use case knows which.
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

// Env is the world as the use cases see it; tests make their own.
type Env struct {
	Version string
	Self    []string // the argument vector that starts this program again
	Getenv  func(string) string
	Now     func() time.Time
	// AfterStep, where tests set it, is called by the watchdog after each step
	// of a change; see watchdog.Config.After.
	AfterStep func(step string)
	// Root, where tests set it, is below which the files of a job for the next start
	// of the machine lie; see watchdog.Config.Root.
	Root string
	// Timeout bounds how long a host may take to answer when a session is opened; 0 is
	// DefaultTimeout.
	Timeout time.Duration
	// Calm bounds how long a measurement waits for hosts whose processors other programs have;
	// 0 is not at all.
	Calm time.Duration
	// Engines are those of this program; nil is engines.All.
	Engines Engines
	// Programs are those of another kind that this program measures with; nil is
	// foreign.All.
	Programs Programs
	// Catalogue is that of the settings, made once for each process.
	Catalogue *knob.Index
	// Between, where given, is called before each run of an experiment, with what the
	// hosts still hold of what it changed: nothing, unless an undo failed. It may wait.
	Between func(ctx context.Context, still []string) error
	Asker
	Observer
}

// DefaultTimeout is how long anybody waits for a host of which nothing is heard. A
// command that meets one ends within 15 s, also on a busy machine where its start and
// its end take a second or two.
const DefaultTimeout = 12 * time.Second

// Engines makes the engines of a program.
type Engines = engines.List

// Programs are programs of another kind.
type Programs = program.List

// Flag is a flag of one of them.
type Flag = program.Flag

// Values are their flags as people give them.
type Values = program.Values

// AllPrograms are the programs of another kind.
func (e Env) AllPrograms() Programs {
	if e.Programs == nil {
		return foreign.All()
	}
	return e.Programs
}

// Kinds are the kinds of traffic of all engines, and of programs of another kind that
// no engine makes.
func (e Env) Kinds() traffic.Kinds {
	kinds := e.Engines.Kinds()
	for _, p := range e.AllPrograms() {
		kinds = append(kinds, p.Kinds...)
	}
	return kinds
}

// Asker puts questions to a person.
type Asker interface {
	// Ask returns the person's answer. It returns ErrNobody at once where nobody is
	// there to answer that kind of question, and the error of ctx when that ends
	// before the answer comes.
	Ask(ctx context.Context, q Question) (Answer, error)
}

// ErrNobody is of a question that there is no terminal to answer on.
var ErrNobody = errors.New("there is no terminal to answer on")

// QuestionKind says what is asked.
type QuestionKind int

// The closed list of questions.
const (
	// Password asks for the password of sudo on Host; the answer is Answer.Secret.
	Password QuestionKind = iota
	// KeepChange asks whether a change of settings that holds now is to stay. It goes
	// back by itself after Within.
	KeepChange
	// WriteFiles asks whether Count files may be written on Host, or on the hosts
	// that it names.
	WriteFiles
	// TryRisky asks whether the setting What may be tried for the length of a run,
	// although Why.
	TryRisky
	// KeepTuned asks whether settings that proved better are to stay: Answer.Choice is
	// "reboot" for until then, "permanent", "profile", or "".
	KeepTuned
	// KeepProgram asks whether a copy of this program of Count bytes may stay on Host. The
	// answer is remembered.
	KeepProgram
	// TrySettings asks whether harmless settings of Host may each be changed for a
	// moment and taken back.
	TrySettings
)

// Question is asked of a person. Fields that do not belong to the kind are zero.
type Question struct {
	Kind   QuestionKind
	Host   string        // for people
	What   string        // TryRisky
	Why    string        // TryRisky
	Count  int           // WriteFiles, KeepProgram
	Within time.Duration // KeepChange: how long there is to decide
}

// Answer is what the person said. Who asked for a Secret may clear it.
type Answer struct {
	Yes    bool
	Choice string // KeepTuned
	Secret []byte
}

// Observer is told what happens.
type Observer interface {
	// Observe takes one event. It is called from any goroutine of a use case, must
	// not block for long, and must not change what it is given.
	Observe(e Event)
}

// Nobody answers no question and hears nothing.
type Nobody struct{}

// Ask implements Asker: it returns ErrNobody.
func (Nobody) Ask(context.Context, Question) (Answer, error) { return Answer{}, ErrNobody }

// Observe implements Observer: it drops e.
func (Nobody) Observe(Event) {}
