package watchdog

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"
	"time"

	"linerate/internal/core/fact"
	"linerate/internal/core/model"
	"linerate/internal/host/durable"
	"linerate/internal/host/journal"
)

// The exchange is lines of JSON: the watchdog says hello (reply 0) when it has the journal,
// then each request gets the reply of its number. The watchdog writes nothing else, so that
// an agent that does not read cannot block it.

// maxLine bounds a line in bytes, maxChanges the changes of one request. Both are far more
// than a catalogue of knobs needs.
const (
	maxLine    = 1 << 20
	maxChanges = 256
)

// op is the operation of a request.
type op string

const (
	opApply  op = "apply"
	opVerify op = "verify"
	opExtend op = "extend"
	opUndo   op = "undo"
	opRead   op = "read"
)

type request struct {
	ID       int                `json:"id"` // 1…
	Op       op                 `json:"op"`
	Changes  []model.Assignment `json:"changes,omitempty"`
	Deadline time.Duration      `json:"deadline_ns,omitempty"`
	Knobs    []model.KnobID     `json:"knobs,omitempty"`
}

type reply struct {
	ID         int                              `json:"id"`
	Ready      bool                             `json:"ready,omitempty"` // in the hello: the watchdog has the journal and takes requests
	Changes    []model.Change                   `json:"changes,omitempty"`
	Mismatches []Mismatch                       `json:"mismatches,omitempty"`
	Values     map[model.KnobID]fact.Of[string] `json:"values,omitempty"`
	Error      *RemoteError                     `json:"error,omitempty"`

	// Transaction is the name of the transaction, in the reply to opApply.
	Transaction string `json:"transaction,omitempty"`
}

// RemoteError is an error of the watchdog's process. It wraps those of the sentinels
// fs.ErrPermission, fs.ErrNotExist, errors.ErrUnsupported, syscall.ENOSPC, journal.ErrLocked,
// journal.ErrDamaged, durable.ErrUntrusted, ErrExpired, ErrIdle and ErrForeign that the original
// wrapped.
type RemoteError struct {
	Text   string   `json:"text"`
	Causes []string `json:"causes,omitempty"`
}

// Error returns the text of the original.
func (e *RemoteError) Error() string { return e.Text }

// Unwrap returns the sentinels above that the original wrapped.
func (e *RemoteError) Unwrap() []error {
	var all []error
	for _, c := range e.Causes {
		if s, known := sentinels()[c]; known {
			all = append(all, s)
		}
	}
	return all
}

func sentinels() map[string]error {
	return map[string]error{
		"permission": fs.ErrPermission, "not exist": fs.ErrNotExist, "unsupported": errors.ErrUnsupported,
		"untrusted": durable.ErrUntrusted,
		"full":      syscall.ENOSPC, "locked": journal.ErrLocked, "damaged": journal.ErrDamaged,
		"expired": ErrExpired, "idle": ErrIdle, "foreign": ErrForeign,
	}
}

// remote converts err for the other process; nil stays nil.
func remote(err error) *RemoteError {
	if err == nil {
		return nil
	}
	e := &RemoteError{Text: err.Error()}
	for name, s := range sentinels() {
		if errors.Is(err, s) {
			e.Causes = append(e.Causes, name)
		}
	}
	return e
}

// err returns the reply's error as an error.
func (r reply) err() error {
	if r.Error == nil {
		return nil
	}
	return r.Error
}

// check refuses requests that no linerate agent sends.
func (r *request) check() error {
	if r.ID < 1 || len(r.Changes) > maxChanges || len(r.Knobs) > maxChanges {
		return fmt.Errorf("request %d: out of bounds", r.ID)
	}
	return nil
}

func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// readLines passes each line of r to take, until r ends, a line is too long or not JSON, or
// take returns false.
func readLines[T any](r io.Reader, take func(T) bool) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, maxLine)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			return fmt.Errorf("read message: %w", err)
		}
		if !take(v) {
			return nil
		}
	}
	return s.Err()
}
