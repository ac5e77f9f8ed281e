// Package archive writes sessions into one file for transport to other machines, and reads such
// files.
//
// An archive is a store of package sqlite, compressed with gzip (RFC 1952). It holds everything
// that the store holds, and its checksum detects damage; gzip -d turns it into a file that --db
// reads.
package archive

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"linerate/internal/store"
	"linerate/internal/store/sqlite"
	"linerate/internal/store/tables"
)

// ErrDamaged reports an archive that is cut off or changed.
var ErrDamaged = errors.New("the archive is damaged")

// magic begins every SQLite file (sqlite.org/fileformat.html section 1.3).
const magic = "SQLite format 3\x00"

// Is reports whether head, the start of a file, is that of an archive. 4 KiB are enough.
func Is(head []byte) bool {
	z, err := gzip.NewReader(bytes.NewReader(head))
	if err != nil {
		return false
	}
	got := make([]byte, len(magic))
	_, err = io.ReadFull(z, got)
	return err == nil && string(got) == magic
}

// snapshot is a store that can copy itself to a file while other processes write to it.
type snapshot interface {
	Snapshot(ctx context.Context, path string) error
}

// Write writes the sessions with these IDs to w or, without IDs, all of them, as of one moment.
// Other processes may use the store meanwhile. Write needs as much space again in the folder
// for temporary files.
func Write(ctx context.Context, w io.Writer, from tables.Source, ids []string) (err error) {
	dir, err := os.MkdirTemp("", "linerate-archive-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "results.db")
	if all, ok := from.(snapshot); ok && len(ids) == 0 {
		err = all.Snapshot(ctx, path)
	} else {
		err = copyTo(ctx, path, from, ids)
	}
	if err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	z := gzip.NewWriter(w)
	if _, err := io.Copy(z, f); err != nil {
		return err
	}
	return z.Close()
}

func copyTo(ctx context.Context, path string, from tables.Source, ids []string) error {
	to, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	return errors.Join(to.Import(ctx, from, ids), to.Close())
}

// Archive is an open archive. It is unpacked into a folder for temporary files until Close.
type Archive struct {
	*sqlite.Store
	dir string
}

// openTime limits the work on an archive before it opens, which grows with its size.
const openTime = 10 * time.Minute

// Open unpacks an archive and checks that it is intact. The error wraps ErrDamaged if it is
// not, store.ErrForeign if it holds something else, and store.ErrNewer if a newer linerate
// wrote it.
func Open(ctx context.Context, r io.Reader) (a *Archive, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	a = &Archive{}
	if a.dir, err = os.MkdirTemp("", "linerate-archive-"); err != nil {
		return nil, err
	}
	path := filepath.Join(a.dir, "results.db")
	from := &counter{from: r}
	if err = unpack(path, from); err == nil {
		a.Store, err = sqlite.OpenFrozen(ctx, path, tables.Packed(from.bytes))
	}
	if err == nil {
		err = a.Check(ctx)
	}
	switch {
	case err == nil:
		return a, nil
	case errors.Is(err, store.ErrForeign):
		err = fmt.Errorf("%w: %w", ErrDamaged, store.ErrForeign)
	case errors.Is(err, store.ErrNewer):
		err = store.ErrNewer // the rest would name a temporary path
	}
	return nil, errors.Join(err, a.Close())
}

// The limits of what an archive may unpack to: space for a small store, and beyond that a
// multiple of the archive's size. Real ones unpack to three to ten times their size.
const (
	roomAnyway = 16 << 20
	roomTimes  = 50
)

// headLength is the length of a database's header, and pageSize and pageCount are the offsets
// of the fields with the size of the file (sqlite.org/fileformat.html section 1.3).
const (
	headLength = 100
	pageSize   = 16 // 2 bytes
	pageCount  = 28 // 4 bytes
)

// unpack writes the decompressed content of from to path. It stops if that exceeds the size in
// the database's header, or what an archive of this size may hold.
func unpack(path string, from *counter) (err error) {
	z, err := gzip.NewReader(bufio.NewReader(from))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	head := make([]byte, headLength)
	if _, err := io.ReadFull(reading{z}, head); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if string(head[:len(magic)]) != magic {
		return fmt.Errorf("%w: %w", ErrDamaged, store.ErrForeign)
	}
	page := int64(binary.BigEndian.Uint16(head[pageSize:]))
	if page == 1 {
		page = 64 << 10
	}
	declared := page * int64(binary.BigEndian.Uint32(head[pageCount:]))
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	all := io.MultiReader(bytes.NewReader(head), reading{z})
	for done := int64(0); ; {
		n, err := io.CopyN(f, all, 1<<20)
		switch done += n; {
		case done > declared:
			return fmt.Errorf("%w: it unpacks to more than the %d bytes that its database has", ErrDamaged, declared)
		case done > roomAnyway+roomTimes*from.bytes:
			return fmt.Errorf("%w: it unpacks to more than %d times its size", ErrDamaged, roomTimes)
		case errors.Is(err, io.EOF) && done < declared:
			return fmt.Errorf("%w: it unpacks to %d of the %d bytes that its database has", ErrDamaged, done, declared)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// counter counts the bytes read.
type counter struct {
	from  io.Reader
	bytes int64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.from.Read(b)
	c.bytes += int64(n)
	return n, err
}

// reading marks read errors as damage of the archive, to distinguish them from write errors of
// the disk.
type reading struct{ from io.Reader }

func (r reading) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return n, err
}

// Close removes the unpacked files.
func (a *Archive) Close() error {
	var err error
	if a.Store != nil {
		err = a.Store.Close()
	}
	return errors.Join(err, os.RemoveAll(a.dir))
}
