// Package wintcp reads and writes the network settings of Windows that only its own commands
// can reach: PowerShell's cmdlets and netsh.
//
// Pure functions build the commands and parse the answers. A trial writes to the active store
// if there is one, so that a reboot resets it.
package wintcp

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Setting is one setting of the machine or of one adapter. It is safe for
// concurrent use.
type Setting struct {
	source  source
	adapter string
	run     Run
}

// Run starts a command and returns its output. Its error output is the text of the error.
type Run func(ctx context.Context, argv []string) (output string, err error)

// Open returns the setting called name, a parameter of Get-NetTCPSetting (of the template
// Internet), of Get-NetOffloadGlobalSetting or of Get-NetIPInterface, or a keyword of an
// adapter with its star. Settings of interfaces need the adapter's name, "Ethernet". It
// starts no command. It wraps errors.ErrUnsupported for other names, and on systems other
// than Windows.
func Open(adapter, name string) (*Setting, error) {
	run, err := system()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return OpenWith(run, adapter, name)
}

// OpenWith is Open with a function to start commands.
func OpenWith(run Run, adapter, name string) (*Setting, error) {
	s, ok := sourceOf(name)
	if !ok {
		return nil, fmt.Errorf("windows setting %q: %w", name, errors.ErrUnsupported)
	}
	if s.ofAdapter() && (adapter == "" || len(adapter) > maxAdapter || strings.ContainsFunc(adapter, isControl)) {
		return nil, fmt.Errorf("adapter %q: not a name", adapter)
	}
	return &Setting{source: s, adapter: adapter, run: run}, nil
}

// System returns the function that starts commands on this system. It wraps
// errors.ErrUnsupported on systems other than Windows.
func System() (Run, error) { return system() }

// Remember returns a Run that starts each command once and repeats its answer: for reading
// many settings at one moment, as a command takes half a second to start and covers many
// settings. Never use it for writes.
func Remember(run Run) Run {
	type reply struct {
		output string
		err    error
	}
	var mu sync.Mutex
	answers := make(map[string]reply)
	return func(ctx context.Context, argv []string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		key := strings.Join(argv, "\x00")
		a, ok := answers[key]
		if !ok {
			a.output, a.err = run(ctx, argv)
			answers[key] = a
		}
		return a.output, a.err
	}
}

// maxAdapter is the longest name of an interface in characters, IF_MAX_STRING_SIZE of
// ifdef.h.
const maxAdapter = 256

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// Read returns the value as the cmdlet prints it. It wraps fs.ErrNotExist if there is no such
// adapter or template, and errors.ErrUnsupported if this Windows or driver has no such
// setting.
func (s *Setting) Read(ctx context.Context) (string, error) {
	a, err := s.ask(ctx)
	if err != nil {
		return "", err
	}
	return a.value, nil
}

// Check reports whether raw could be written: one word, one of the driver's values or within
// its range, and not overridden by group policy.
func (s *Setting) Check(ctx context.Context, raw string) error {
	a, err := s.ask(ctx)
	if err != nil {
		return err
	}
	switch {
	case s.source.fact:
		return fmt.Errorf("%s is a fact and no setting: %w", s.source.name, errors.ErrUnsupported)
	case raw == "" || strings.Trim(raw, wordBytes) != "":
		return fmt.Errorf("%s %q: want one word or number", s.source.name, raw)
	case a.policy:
		return fmt.Errorf("%s: group policy sets it: %w", s.source.name, errors.ErrUnsupported)
	}
	if err := a.allows(raw); err != nil {
		return fmt.Errorf("%s: %w", s.source.name, err)
	}
	return s.source.allows(raw)
}

const wordBytes = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// Write sets the value. It wraps fs.ErrPermission without administrator rights, and
// errors.ErrUnsupported if the setting is read-only in this edition of Windows. An adapter
// restarts when one of its keywords changes.
func (s *Setting) Write(ctx context.Context, raw string) error {
	if err := s.Check(ctx, raw); err != nil {
		return err
	}
	_, err := s.start(ctx, s.source.set(s.adapter, raw))
	return s.wrap(err)
}

// commandTime is the timeout of one command: PowerShell needs seconds to start on a busy
// machine, and an adapter up to 10 s to come back. An undo waits no longer for a command, and
// tries again.
const commandTime = 30 * time.Second

// start runs a command with that timeout.
func (s *Setting) start(ctx context.Context, argv []string) (string, error) {
	limited, cancel := context.WithTimeout(ctx, commandTime)
	defer cancel()
	output, err := s.run(limited, argv)
	if limited.Err() != nil && ctx.Err() == nil {
		return "", fmt.Errorf("%s did not end within %s", argv[0], commandTime)
	}
	return output, err
}

func (s *Setting) ask(ctx context.Context) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	output, err := s.start(ctx, s.source.get(s.adapter))
	if err != nil {
		return answer{}, s.wrap(err)
	}
	a, err := s.source.parse(output)
	if err != nil {
		return answer{}, fmt.Errorf("%s: %w", s.source.name, err)
	}
	return a, nil
}

// wrap finds the sentinels in a command's error text. The words are those of
// FullyQualifiedErrorId, which are the same in every language, and the texts of the two cases
// that have none.
func (s *Setting) wrap(err error) error {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	text := err.Error()
	has := func(words ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(text, w) })
	}
	switch {
	case has("System Error 5,", "PermissionDenied", "Access is denied", "requires elevation"):
		return fmt.Errorf("%s: %w", s.source.name, fs.ErrPermission)
	case has("CmdletizationQuery_NotFound"):
		return fmt.Errorf("%s of %q: %w", s.source.name, s.adapter, fs.ErrNotExist)
	case has("CommandNotFoundException", "is read-only", "ParameterBindingException", "NamedParameterNotFound"):
		return fmt.Errorf("%s on this Windows: %s: %w", s.source.name, text, errors.ErrUnsupported)
	}
	return fmt.Errorf("%s: %s", s.source.name, text)
}

// answer is a cmdlet's answer about one setting.
type answer struct {
	value           string
	policy          bool     // AutoTuningLevelEffective is GroupPolicy
	values          []string // the valid ones, if the driver lists them
	least, most     int64    // the range, if the driver has one; both 0 for none
	step            int64
	valueIsAKeyword bool
}

// allows checks raw against the driver's answer.
func (a answer) allows(raw string) error {
	if len(a.values) > 0 && !slices.Contains(a.values, raw) {
		return fmt.Errorf("value %q: the driver takes %s", raw, strings.Join(a.values, ", "))
	}
	n, err := strconv.ParseInt(raw, 10, 64)
	if a.valueIsAKeyword && len(a.values) == 0 && err != nil {
		return fmt.Errorf("value %q: want a number", raw)
	}
	if a.least == 0 && a.most == 0 {
		return nil
	}
	if err != nil || n < a.least || n > a.most || a.step > 0 && (n-a.least)%a.step != 0 {
		return fmt.Errorf("value %q: the driver takes %d to %d in steps of %d", raw, a.least, a.most, a.step)
	}
	return nil
}
