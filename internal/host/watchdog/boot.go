package watchdog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"sync"

	"linerate/internal/host/atboot"
)

// BootMark begins every line for Config.Talk about the boot job.
const BootMark = "at-boot: "

// boot installs the boot job while there are changes that it would undo.
type boot struct {
	wanted bool // install it before the first write
	keeper atboot.Keeper
	talk   io.Writer // nil for no messages
}

func newBoot(cfg Config, state string, after func(string)) boot {
	return boot{
		wanted: cfg.AtBoot, talk: cfg.Talk,
		keeper: atboot.Keeper{State: state, Root: cfg.Root, After: after},
	}
}

// say writes a message. A failed write is ignored: it must not prevent an undo.
func (b boot) say(format string, a ...any) { b.talkf(BootMark, format, a...) }

func (b boot) talkf(mark, format string, a ...any) {
	if b.talk != nil {
		_, _ = fmt.Fprintf(b.talk, mark+format+"\n", a...)
	}
}

// arm installs the job, if it is wanted, before it returns without error.
func (b boot) arm(ctx context.Context) error {
	if !b.wanted {
		return nil
	}
	name, err := b.keeper.Install(ctx)
	if err == nil && name != "" {
		b.say("installed %s: puts the settings back at the next start, if this machine goes down before", name)
	}
	return err
}

// disarm removes the job if no change is open that it would undo. A failure is reported, and
// the next recovery tries again: until then the job has nothing to do.
func (m *machine) disarm(ctx context.Context) {
	if !atboot.Installed(m.boot.keeper.State) || len(m.j.OpenIntents()) > 0 {
		return
	}
	r, err := m.boot.keeper.Remove(context.WithoutCancel(ctx))
	switch {
	case err != nil:
		m.boot.say("%v; tried again when linerate starts here next", err)
	case r != nil:
		m.boot.say("%s", r)
	}
}

// maxTalk bounds a line for Config.Talk, in bytes.
const maxTalk = 4 << 10

// BootLines returns a writer that passes on to w, one by one, those lines of a watchdog's or
// its agent's standard error that begin with BootMark, UndoMark or KernelMark. Its Write
// never fails. It is safe for concurrent use if w is not used by others.
func BootLines(w io.Writer) io.Writer { return &bootLines{to: w} }

type bootLines struct {
	mu   sync.Mutex
	to   io.Writer
	line []byte
}

// Write takes parts of lines.
func (b *bootLines) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for part := range bytes.Lines(p) {
		b.line = append(b.line, part[:min(len(part), maxTalk-len(b.line))]...)
		if part[len(part)-1] != '\n' {
			break
		}
		if slices.ContainsFunc([]string{BootMark, UndoMark, KernelMark}, func(mark string) bool { return bytes.HasPrefix(b.line, []byte(mark)) }) {
			_, _ = b.to.Write(append(bytes.TrimRight(b.line, "\r\n"), '\n')) // the reader may be gone
		}
		b.line = b.line[:0]
	}
	return len(p), nil
}
