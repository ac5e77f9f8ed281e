package files

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"time"

	"linerate/internal/tail"
)

// Question is a run of an owner's program over a copy of part of the tree. The program must
// not change anything outside the copy.
type Question struct {
	Programs []string // absolute paths; the first one that is installed runs
	Args     []string // CopyDir stands for the folder of the copy
	Parts    []string // files and folders to copy, without a leading slash
	Answers  []string // folders of the copy that the program writes and Asker reads back
	Input    []byte   // standard input
}

// CopyDir stands for the folder of the copy in the arguments of a Question.
const CopyDir = "{copy}"

// Answer is the result of a run.
type Answer struct {
	Program string
	Code    int    // exit status
	Text    string // the last part of its standard output and standard error
	Files   []File // those in the folders of Answers; paths from the root
}

// Asker runs a program over a copy of root. The error wraps errors.ErrUnsupported if none of
// the programs is installed.
type Asker func(ctx context.Context, root fs.FS, q Question) (Answer, error)

// Limits of a copy, and of a program that runs over it.
const (
	maxCopied   = 4096             // files
	maxCopySize = 64 << 20         // bytes
	maxAnswer   = 64 << 10         // bytes of text
	patience    = 30 * time.Second // a generator takes some milliseconds
)

// Programs returns an Asker for the programs installed below dir, "" for those of this
// machine, with env added to their environment.
func Programs(dir string, env ...string) Asker {
	return func(ctx context.Context, root fs.FS, q Question) (a Answer, err error) {
		for _, p := range q.Programs {
			if info, err := os.Stat(dir + p); err == nil && info.Mode().IsRegular() {
				a.Program = p
				break
			}
		}
		if a.Program == "" {
			return a, fmt.Errorf("%s is not installed: %w", strings.Join(q.Programs, ", "), errors.ErrUnsupported)
		}
		to, err := os.MkdirTemp("", "linerate-copy-")
		if err != nil {
			return a, err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
		c := copier{left: maxCopied, size: maxCopySize}
		for _, part := range q.Parts {
			if err := c.out(root, to, part); err != nil {
				return a, err
			}
		}
		if err := a.run(ctx, dir+a.Program, to, q, env); err != nil {
			return a, err
		}
		for _, part := range q.Answers {
			if err := c.in(&a, to, part); err != nil {
				return a, err
			}
		}
		return a, nil
	}
}

// run runs the program. A failure of it is an answer too.
func (a *Answer) run(ctx context.Context, program, dir string, q Question, env []string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	argv := make([]string, len(q.Args))
	for i, one := range q.Args {
		argv[i] = strings.ReplaceAll(one, CopyDir, dir)
	}
	cmd := exec.CommandContext(ctx, program, argv...)
	cmd.Dir, cmd.Env = dir, append(cmd.Environ(), append([]string{"LC_ALL=C"}, env...)...)
	cmd.Stdin = bytes.NewReader(q.Input)
	text := &tail.Tail{Keep: maxAnswer}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = text, text, time.Second
	err := cmd.Run()
	a.Text = strings.ReplaceAll(text.String(), dir, "")
	var exit *exec.ExitError
	if errors.As(err, &exit) && ctx.Err() == nil {
		a.Code = exit.ExitCode()
		return nil
	}
	if err != nil {
		return fmt.Errorf("run %s: %w", a.Program, err)
	}
	return nil
}

// copier copies a limited number of files and bytes.
type copier struct {
	left int
	size int64
}

func (c *copier) take(n int64) error {
	c.left--
	if c.size -= n; c.left < 0 || c.size < 0 {
		return errors.New("the permanent files are too many or too large to be copied")
	}
	return nil
}

// out copies a part of root below dir. A missing part is not an error. Links are followed:
// the copy has their text, and an empty file for a link to /dev/null.
func (c *copier) out(root fs.FS, dir, name string) error {
	entries, err := fs.ReadDir(root, name)
	if err == nil {
		for _, e := range entries {
			if err := c.out(root, dir, path.Join(name, e.Name())); err != nil {
				return err
			}
		}
		return nil
	}
	info, err := fs.Stat(root, name)
	mask := err == nil && info.Mode()&fs.ModeCharDevice != 0 // a link to /dev/null hides files of its name, like an empty file
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() && !mask {
		return nil
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", name, err)
	}
	var b []byte
	if !mask {
		if b, err = fs.ReadFile(root, name); err != nil {
			return fmt.Errorf("copy %s: %w", name, err)
		}
	}
	if err := c.take(int64(len(b))); err != nil {
		return err
	}
	to := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	return os.WriteFile(to, b, info.Mode().Perm())
}

// in reads what the program wrote, except links.
func (c *copier) in(a *Answer, dir, part string) error {
	err := fs.WalkDir(os.DirFS(dir), part, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		f, err := os.Open(filepath.Join(dir, filepath.FromSlash(name)))
		if err != nil {
			return err
		}
		defer f.Close() // nothing was written
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if err := c.take(info.Size()); err != nil {
			return err
		}
		b, err := io.ReadAll(io.LimitReader(f, info.Size()))
		a.Files = append(a.Files, File{Path: "/" + name, Mode: info.Mode().Perm(), Content: b})
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
