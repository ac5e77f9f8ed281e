package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/store"
	"linerate/internal/store/archive"
)

// archiveDoc is linerate/archive/v1: the sessions written to an archive, or read from one.
type archiveDoc struct {
	File     string   `json:"file"`
	Sessions []string `json:"sessions"` // written, or now here
	Skipped  []string `json:"skipped"`  // of an import: already here, and left unchanged
}

// exportArchive writes the sessions named by refs, or all, to a new file.
func (a *console) exportArchive(ctx context.Context, path string, refs []string) (err error) {
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	doc := archiveDoc{File: path, Sessions: []string{}, Skipped: []string{}}
	for _, ref := range refs {
		s, err := find(ctx, st, ref)
		if err != nil {
			return err
		}
		doc.Sessions = append(doc.Sessions, s.ID)
	}
	ids := doc.Sessions
	if len(refs) == 0 {
		items, err := st.Sessions(ctx, store.Filter{})
		if err != nil {
			return err
		}
		for _, i := range items {
			doc.Sessions = append(doc.Sessions, i.ID)
		}
		if ids = nil; st.Path() == inMemory || len(items) == 0 {
			return fault.WithHint(fault.Usagef("no session is stored yet"), "the first one is made by: linerate test HOST; another store is named with --db")
		}
	}
	if err := writeNew(path, nil); err != nil { // created before the work begins
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = archive.Write(ctx, f, st, ids)
	info, serr := f.Stat()
	if err := errors.Join(err, serr, f.Close()); err != nil {
		return err
	}
	a.talk("wrote %s to %s, %s", plain.Count(len(doc.Sessions), "session"), path, units.Bytes(info.Size()))
	if a.json {
		return a.document("linerate/archive/v1", doc)
	}
	return nil
}

// isArchive reports whether a file begins like an archive.
func isArchive(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, 4<<10)
	n, err := io.ReadFull(f, head)
	return (err == nil || errors.Is(err, io.ErrUnexpectedEOF)) && archive.Is(head[:n])
}

// importArchive copies the sessions of an archive that are not here yet, all or none.
func (a *console) importArchive(ctx context.Context, path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fault.Usagef("%w", err)
	}
	defer f.Close()
	from, err := archive.Open(ctx, f)
	switch {
	case errors.Is(err, archive.ErrDamaged):
		return fault.WithHint(fault.Usagef("%s: %w", path, err), "nothing was kept; copy it once more from where it was written")
	case errors.Is(err, store.ErrNewer):
		return fault.New(fault.Store, fmt.Errorf("%s: %w", path, err), "use the linerate that wrote it")
	case err != nil:
		return fault.WithKind(fault.Store, fmt.Errorf("%s: %w", path, err))
	}
	defer from.Close()
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	theirs, err := from.Sessions(ctx, store.Filter{})
	if err != nil {
		return err
	}
	ours, err := st.Sessions(ctx, store.Filter{})
	if err != nil {
		return err
	}
	here := map[string]bool{}
	for _, i := range ours {
		here[i.ID] = true
	}
	doc := archiveDoc{File: path, Sessions: []string{}, Skipped: []string{}}
	var fresh []model.Item
	for _, i := range theirs {
		if here[i.ID] {
			doc.Skipped = append(doc.Skipped, i.ID)
			continue
		}
		doc.Sessions = append(doc.Sessions, i.ID)
		fresh = append(fresh, i)
	}
	if err := st.Import(ctx, from, doc.Sessions); err != nil {
		return fault.New(fault.Store, fmt.Errorf("%s: %w", path, err), "nothing was kept")
	}
	for _, id := range doc.Skipped {
		a.talk("%s is here already, and was left as it is", id)
	}
	a.talk("%s of %d from %s", plain.Count(len(fresh), "session"), len(theirs), path)
	if a.json {
		return a.document("linerate/archive/v1", doc)
	}
	if len(fresh) == 0 {
		return nil
	}
	return a.printList(ctx, from, fresh)
}
