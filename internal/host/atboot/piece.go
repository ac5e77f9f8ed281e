package atboot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"linerate/internal/host/durable"
)

// piece is one part of a job: a file, a symbolic link or a Windows task.
type piece struct {
	Path string `json:"path,omitempty"` // of the file or link, with Keeper.Root
	Sum  string `json:"sha256,omitempty"`
	Link string `json:"link,omitempty"` // target of the link
	Task *task  `json:"task,omitempty"`

	text []byte
	mode fs.FileMode
}

// file returns a piece with text, at a path of the machine.
func (k Keeper) file(name string, mode fs.FileMode, text string) piece {
	return piece{Path: k.real(name), Sum: durable.Sum([]byte(text)), text: []byte(text), mode: mode}
}

// real returns the path below Root for a path of the machine.
func (k Keeper) real(name string) string {
	if k.Root == "" {
		return filepath.FromSlash(name)
	}
	return filepath.Join(k.Root, filepath.FromSlash(name))
}

// names returns the names that pieces may have: nothing else is ever removed.
func names() []string {
	return []string{
		unitName, jobName, jobName + ".start", jobName + ".plist", strings.ReplaceAll(jobName, "-", "_"),
	}
}

// valid refuses a piece that Install never records.
func (p piece) valid() error {
	if p.Task != nil {
		if p.Task.Name != jobName || p.Path+p.Sum+p.Link != "" {
			return fmt.Errorf("task %q", p.Task.Name)
		}
		return nil
	}
	if !filepath.IsAbs(p.Path) || !slices.Contains(names(), filepath.Base(p.Path)) || (p.Sum == "") == (p.Link == "") {
		return fmt.Errorf("path %q", p.Path)
	}
	return nil
}

// state is what is in the place of a piece.
type state int

const (
	absent  state = iota
	ours          // as Install put it there
	foreign       // something else
)

func (p piece) state(ctx context.Context) (state, error) {
	if p.Task != nil {
		return p.Task.state(ctx)
	}
	info, err := os.Lstat(p.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return absent, nil
	case err != nil:
		return absent, err
	case p.Link != "":
		if target, err := os.Readlink(p.Path); err == nil && target == p.Link {
			return ours, nil
		}
		return foreign, nil
	case !info.Mode().IsRegular():
		return foreign, nil
	}
	b, err := os.ReadFile(p.Path)
	if err != nil {
		return absent, err
	}
	if durable.Sum(b) != p.Sum {
		return foreign, nil
	}
	return ours, nil
}

func (p piece) String() string {
	if p.Task != nil {
		return "task " + p.Task.Name
	}
	return p.Path
}

// free returns ErrTaken if something is in the piece's place.
func (p piece) free(ctx context.Context) error {
	s, err := p.state(ctx)
	if err != nil || s == absent {
		return err
	}
	return fmt.Errorf("%s is there already: %w; if it is a leftover, remove it", p, ErrTaken)
}

// put makes the piece, and replaces nothing.
func (p *piece) put(ctx context.Context, k Keeper) error {
	if p.Task != nil {
		return p.Task.create(ctx, k)
	}
	if p.Link != "" {
		if err := os.Symlink(p.Link, p.Path); err != nil {
			return taken(err)
		}
		return durable.SyncDir(filepath.Dir(p.Path))
	}
	if err := writeSynced(p.temp(), p.text, p.mode); err != nil {
		return err
	}
	k.after("job temporary")
	// A link, not a rename: it never replaces a file that was put there meanwhile.
	if err := os.Link(p.temp(), p.Path); err != nil {
		return taken(err)
	}
	k.after("job linked")
	return errors.Join(os.Remove(p.temp()), durable.SyncDir(filepath.Dir(p.Path)))
}

func taken(err error) error {
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: %w", ErrTaken, err)
	}
	return err
}

// temp returns the name of an incomplete file: hidden, and without the suffix that programs
// look for.
func (p piece) temp() string {
	return filepath.Join(filepath.Dir(p.Path), "."+filepath.Base(p.Path)+newSuffix)
}

// remove removes the piece. If it was changed, remove leaves it and returns a sentence that
// says so.
func (p piece) remove(ctx context.Context) (left string, err error) {
	if p.Sum != "" {
		if err := os.Remove(p.temp()); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	s, err := p.state(ctx)
	switch {
	case err != nil:
		return "", err
	case s == absent:
		return "", nil
	case s == foreign:
		return fmt.Sprintf("%s was changed by another program and stays: remove it by hand", p), nil
	case p.Task != nil:
		return "", p.Task.remove(ctx)
	}
	if err := os.Remove(p.Path); err != nil {
		return "", err
	}
	return "", durable.SyncDir(filepath.Dir(p.Path))
}

// exists reports whether a path of the machine exists.
func (k Keeper) exists(elem ...string) bool {
	_, err := os.Stat(k.real(path.Join(elem...)))
	return err == nil
}
