// Package persist writes permanent files on a machine such that the previous ones can be
// restored exactly.
//
// The previous content of a file is on disk in the state directory, synced, before the file
// is touched; files are replaced atomically, by renaming. So after a crash at any step the
// next Restore finds everything that it needs:
//
//	STATE/kept/000001/record.json        what was written where, with checksums
//	STATE/kept/000001/record.copy.json   a copy of it
//	STATE/kept/000001/0                  bytes of the first file as it was before
//
// Restore is compare-and-restore: a file that was changed since is left alone and reported.
// Several records of one file are undone newest first. Extended attributes and modification
// times are not saved.
package persist

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/host/durable"
	"linerate/internal/host/files"
)

// The reasons to write nothing.
var (
	ErrChanged   = errors.New("changed by another program since")
	ErrIrregular = errors.New("not a regular file")
	ErrReadOnly  = fault.Cause(fault.Unsupported, "on a read-only file system: what makes the image of this system has to write it")
	ErrLocked    = durable.ErrLocked
)

// Keeper writes and restores the permanent files of one machine. Several processes may use
// it: while one does, the others get ErrLocked.
type Keeper struct {
	Root  string            // directory that holds the files; "" is the machine itself
	State string            // directory of the records; created if missing
	After func(step string) // for tests: called after each step that a crash may follow
	About About             // for the next Write
}

// About says where the settings of a Write come from. It is stored in the record.
type About struct {
	Source   string             `json:"source,omitempty"`   // a session, a profile
	Comments []string           `json:"comments,omitempty"` // the reasons, as in the files
	Link     string             `json:"link,omitempty"`     // interface that settings of a link are for
	Settings []model.Assignment `json:"settings,omitempty"` // what the files keep, canonical
	Proof    string             `json:"proof,omitempty"`    // the evidence that they are good, in the caller's format
}

// Record is one Write that was not restored.
type Record struct {
	ID    string    `json:"id"` // sorts by age
	Time  time.Time `json:"time"`
	Files []Kept    `json:"files"`
	Made  []string  `json:"made,omitempty"` // directories made for them, outermost first
	About

	// Damage says why the record cannot be read, and where it is; only its ID is known then.
	// "" for a good one.
	Damage string `json:"-"`
}

// Kept is one file of a record.
type Kept struct {
	Path   string   `json:"path"`
	Block  bool     `json:"block,omitempty"`
	Before Snapshot `json:"before"`
	After  string   `json:"after"`                 // SHA-256 of the bytes written
	Inner  string   `json:"after_block,omitempty"` // SHA-256 of the block among them
}

// Snapshot is a file at one moment.
type Snapshot struct {
	Exists bool        `json:"exists"`
	Mode   fs.FileMode `json:"mode,omitempty"`
	UID    int         `json:"uid,omitempty"`
	GID    int         `json:"gid,omitempty"`
	Sum    string      `json:"sha256,omitempty"`
	bytes  []byte
}

// planned is a file to be written.
type planned struct {
	kept Kept
	to   string // real path
	temp string
	data []byte
	mode fs.FileMode
}

// Write writes files, all or none, and returns the record that Restore needs. Files must have
// absolute paths. On an error the machine is unchanged: ErrChanged if a file of linerate's
// own was edited by hand since it was written, ErrIrregular if a path is a link, a directory
// or a device, and others, such as missing disk space or rights.
func (k Keeper) Write(now time.Time, written []files.File) (Record, error) {
	unlock, err := k.lock()
	if err != nil {
		return Record{}, err
	}
	defer unlock()
	records, err := k.records()
	if err != nil {
		return Record{}, err
	}
	id := 1
	if len(records) > 0 {
		if _, err := fmt.Sscanf(records[len(records)-1].ID, "%d", &id); err != nil {
			return Record{}, fmt.Errorf("record %s: %w", records[len(records)-1].ID, err)
		}
		id++
	}
	r := Record{ID: fmt.Sprintf("%06d", id), Time: now.UTC(), About: k.About}
	all, err := k.plan(&r, records, written)
	if err != nil {
		return Record{}, err
	}
	if err := k.save(r, all); err != nil {
		return Record{}, err
	}
	k.after("saved")
	if written, err := k.place(r, all); err != nil {
		_, back := k.restore(r, written)
		if back != nil {
			back = fmt.Errorf("and what was done could not be taken back: %w", back)
		}
		return Record{}, errors.Join(err, back)
	}
	return r, nil
}

func (k Keeper) after(step string) {
	if k.After != nil {
		k.After(step)
	}
}

// real returns the path below Root for a path of the machine.
func (k Keeper) real(name string) string { return filepath.Join(k.Root+"/", filepath.FromSlash(name)) }

// plan reads the present files and computes the new ones.
func (k Keeper) plan(r *Record, records []Record, written []files.File) ([]planned, error) {
	if len(written) == 0 {
		return nil, errors.New("no files to write")
	}
	var all []planned
	for _, f := range written {
		if !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || strings.ContainsAny(f.Path, "\\\x00") {
			return nil, fmt.Errorf("write %q: want an absolute path", f.Path)
		}
		if slices.ContainsFunc(all, func(p planned) bool { return p.kept.Path == f.Path }) {
			return nil, fmt.Errorf("write %s: given twice", f.Path)
		}
		p := planned{to: k.real(f.Path), data: f.Content, mode: f.Mode}
		before, err := look(p.to)
		if err != nil {
			return nil, err
		}
		if readOnly(path.Dir(p.to)) {
			return nil, fmt.Errorf("%s: %w", f.Path, ErrReadOnly)
		}
		if written, edited := editedSince(f.Path, before, records); edited {
			return nil, fmt.Errorf("%s: written by linerate on %s and %w", f.Path, written.Format(time.DateOnly), ErrChanged)
		}
		p.kept = Kept{Path: f.Path, Block: f.Block, Before: before}
		if f.Block {
			if p.data, err = files.Merge(before.bytes, f.Content); err != nil {
				return nil, fmt.Errorf("write %s: %w", f.Path, err)
			}
			p.kept.Inner = durable.Sum(f.Content)
			if before.Exists {
				p.mode = before.Mode
			}
		}
		p.kept.After = durable.Sum(p.data)
		p.temp = k.temp(*r, p.kept)
		r.Files = append(r.Files, p.kept)
		all = append(all, p)
	}
	paths := make([]string, len(written))
	for i, f := range written {
		paths[i] = f.Path
	}
	r.Made = durable.Missing(paths, k.real)
	return all, nil
}

// Edited reports whether a file was edited by hand since it was written, and when it was
// written. It returns false if it cannot read the files; Preview reports why.
func (k Keeper) Edited(name string) (written time.Time, edited bool) {
	now, err := look(k.real(name))
	records, peekErr := k.Peek()
	if err != nil || peekErr != nil {
		return time.Time{}, false
	}
	return editedSince(name, now, records)
}

// editedSince reports whether a file differs from what its newest record wrote, and when the
// record wrote it. In a shared file only linerate's own block counts.
func editedSince(name string, now Snapshot, records []Record) (written time.Time, edited bool) {
	for _, r := range slices.Backward(records) {
		i := slices.IndexFunc(r.Files, func(f Kept) bool { return f.Path == name })
		if i < 0 {
			continue
		}
		f := r.Files[i]
		if !now.Exists || now.Sum == f.After || now.Exists == f.Before.Exists && now.Sum == f.Before.Sum {
			return time.Time{}, false
		}
		if f.Block {
			if _, inner, _, err := files.Split(now.bytes); err == nil && (len(inner) == 0 || durable.Sum(inner) == f.Inner) {
				return time.Time{}, false
			}
		}
		return r.Time, true
	}
	return time.Time{}, false
}

// place makes the directories, then writes all files under temporary names, then renames
// them, so that a full disk shows before the first file is replaced. It returns how many
// files were replaced.
func (k Keeper) place(r Record, all []planned) (int, error) {
	for _, dir := range r.Made {
		if err := os.Mkdir(k.real(dir), 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return 0, err
		}
		k.after("made " + dir)
	}
	for _, p := range all {
		if err := writeTemp(p.temp, p.data, p.mode, p.kept.Before); err != nil {
			return 0, err
		}
		k.after("temporary " + p.kept.Path)
	}
	for i, p := range all {
		now, err := look(p.to)
		if err != nil {
			return i, err
		}
		if now.Exists != p.kept.Before.Exists || now.Sum != p.kept.Before.Sum {
			return i, fmt.Errorf("%s: %w it was read", p.kept.Path, ErrChanged)
		}
		if err := os.Rename(p.temp, p.to); err != nil {
			return i, err
		}
		k.after("renamed " + p.kept.Path)
		if err := durable.SyncDir(filepath.Dir(p.to)); err != nil {
			return i + 1, err
		}
		k.after("synced " + p.kept.Path)
	}
	return len(all), nil
}

// look reads a file in its present state.
func look(name string) (Snapshot, error) {
	info, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Snapshot{}, nil
	}
	if err != nil {
		return Snapshot{}, err
	}
	if !info.Mode().IsRegular() {
		return Snapshot{}, fmt.Errorf("%s: %w: linerate replaces no links and no devices", name, ErrIrregular)
	}
	s := Snapshot{Exists: true, Mode: info.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)}
	s.UID, s.GID = owner(info)
	if s.bytes, err = os.ReadFile(name); err != nil {
		return Snapshot{}, err
	}
	s.Sum = durable.Sum(s.bytes)
	return s, nil
}

// writeTemp writes data to disk under a name that no program reads. The file gets the owner
// of like if that exists.
func writeTemp(name string, data []byte, mode fs.FileMode, like Snapshot) error {
	return durable.Fill(name, mode, func(f *os.File) error {
		if _, err := f.Write(data); err != nil || !like.Exists {
			return err
		}
		return chown(f, like.UID, like.GID) // before the mode, since it clears some bits of that
	})
}
