package persist

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"linerate/internal/host/durable"
)

// The reasons why a record cannot be read.
var (
	ErrDamaged = errors.New("damaged: the files that it is about are not taken back")
	ErrNewer   = errors.New("written by a newer linerate, which has to take it back")
)

// recordVersion is the version of the envelope.
const recordVersion = 1

// envelope is the form of a record on disk; Sum is the SHA-256 of the bytes of Record as
// written.
type envelope struct {
	V      int             `json:"v"`
	Sum    string          `json:"sha256"`
	Record json.RawMessage `json:"record"`
}

// copies returns the two files of one record, which are equal.
func copies() []string { return []string{recordFile, "record.copy.json"} }

// sealed returns the text of a record.
func sealed(r Record) ([]byte, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	b, err := json.Marshal(envelope{V: recordVersion, Sum: durable.Sum(body), Record: body})
	return append(b, '\n'), err
}

// unseal decodes the text of a record called id. The error wraps ErrNewer, or fs.ErrInvalid
// for a damaged one.
func unseal(b []byte, id string) (Record, error) {
	var e envelope
	if err := json.Unmarshal(b, &e); err != nil {
		return Record{}, errors.Join(err, fs.ErrInvalid)
	}
	body := []byte(e.Record)
	switch {
	case e.V > recordVersion:
		return Record{}, fmt.Errorf("version %d, this linerate knows %d: %w", e.V, recordVersion, ErrNewer)
	case e.V != recordVersion || durable.Sum(body) != e.Sum:
		return Record{}, fmt.Errorf("its checksum does not match: %w", fs.ErrInvalid)
	}
	var r Record
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&r); err != nil || r.ID != id {
		return Record{}, fmt.Errorf("not a record: %w", errors.Join(err, fs.ErrInvalid))
	}
	return r, nil
}

// readRecord reads one record from an intact copy. If there is none, it returns a record with
// only ID and Damage.
func (k Keeper) readRecord(id string) (Record, error) {
	dir := filepath.Join(k.dir(), id)
	var reasons []error
	var newer error // unless the other copy shows that a flipped bit is the cause
	for _, name := range copies() {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Record{}, err
		}
		if err == nil {
			var r Record
			if r, err = unseal(b, id); err == nil {
				return r, nil
			}
		}
		if errors.Is(err, ErrNewer) {
			newer = wrapName(err, filepath.Join(dir, name))
		}
		reasons = append(reasons, wrapName(err, name))
	}
	if newer != nil {
		return Record{}, newer
	}
	return Record{ID: id, Damage: fmt.Sprintf("%v, in %s", errors.Join(reasons...), dir)}, nil
}

func wrapName(err error, name string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("read %s: %w", name, err)
}
