package atboot

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"linerate/internal/host/durable"
)

// record says what was put where, or is about to be.
type record struct {
	Name     string   `json:"name"`
	Pieces   []piece  `json:"pieces"`
	Made     []string `json:"made,omitempty"` // directories that were missing, outermost first
	Size     int64    `json:"size,omitempty"` // of the program, in bytes
	Complete bool     `json:"complete,omitempty"`
}

// load returns the record, or nil if there is none.
func (k Keeper) load() (*record, error) {
	if err := durable.Trusted(k.State); err != nil {
		return nil, err
	}
	path := filepath.Join(k.dir(), recordName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r, err := decode(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &r, nil
}

// decode decodes a record. It refuses one that would remove something that linerate does not
// make.
func decode(b []byte) (record, error) {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, fmt.Errorf("damaged: %w", errors.Join(err, fs.ErrInvalid))
	}
	for _, p := range r.Pieces {
		if err := p.valid(); err != nil {
			return record{}, fmt.Errorf("damaged: %w", errors.Join(err, fs.ErrInvalid))
		}
	}
	for _, dir := range r.Made {
		if !filepath.IsAbs(dir) {
			return record{}, fmt.Errorf("damaged: directory %q: %w", dir, fs.ErrInvalid)
		}
	}
	return r, nil
}

func (k Keeper) save(r record) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	err = durable.Replace(durable.OS{}, filepath.Join(k.dir(), recordName), append(b, '\n'), 0o600)
	return errors.Join(err, durable.SyncDir(k.State))
}

// newSuffix is the suffix of incomplete files.
const newSuffix = ".linerate-new"

// writeSynced writes data to disk under a name that no program reads yet.
func writeSynced(path string, data []byte, mode fs.FileMode) error {
	return durable.Fill(path, mode, func(f *os.File) error {
		_, err := f.Write(data)
		return err
	})
}
