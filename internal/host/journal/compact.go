package journal

import (
	"errors"
	"fmt"
)

// Tidy compacts the journal if it has grown long and has no open intents.
func (j *Journal) Tidy() error {
	if len(j.text) <= compactAbove || len(j.OpenIntents()) > 0 {
		return nil
	}
	return j.Compact()
}

// Compact drops the transactions that are over, atomically for each copy: after a crash each
// is the old journal or the new one.
func (j *Journal) Compact() error {
	if err := j.compact(); err != nil {
		return fmt.Errorf("compact %s: %w", j.Path(), err)
	}
	return nil
}

func (j *Journal) compact() error {
	if err := errors.Join(j.writable(), j.bothAs()); err != nil {
		return err
	}
	unfinished := make(map[string]bool)
	for _, o := range append(j.OpenIntents(), j.ConfirmedIntents()...) {
		unfinished[o.Transaction] = true
	}
	var kept []entry
	for _, e := range j.entries {
		if unfinished[e.Transaction] {
			kept = append(kept, e)
		}
	}
	kept, text, err := j.chain(kept)
	if err != nil {
		return err
	}
	j.setEntries(kept, text)
	j.ok = [2]bool{}
	return j.bothAs()
}

// chain encodes entries again whose predecessor has changed.
func (j *Journal) chain(entries []entry) ([]entry, []byte, error) {
	var text []byte
	out := make([]entry, len(entries))
	prev := uint64(0)
	for i, e := range entries {
		if e.prev != prev {
			var err error
			if e.raw, err = encode(e.Record, e.seq, prev, j.by); err != nil {
				return nil, nil, err
			}
		}
		e.prev, prev = prev, e.seq
		out[i], text = e, append(text, e.raw...)
	}
	return out, text, nil
}
