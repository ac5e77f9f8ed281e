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

// BootMark begins every line for Config.Talk that tells of the job for the next
// start.
const BootMark = "at-boot: "

// boot keeps the job for the next start of the machine where there are changes
// to put back.
type boot struct {
	wanted bool // before the first write
	keeper atboot.Keeper
	talk   io.Writer // nil for nobody
}

func newBoot(cfg Config, state string, after func(string)) boot {
	return boot{
		wanted: cfg.AtBoot, talk: cfg.Talk,
		keeper: atboot.Keeper{State: state, Root: cfg.Root, After: after},
	}
}

// say tells a person. Nobody may be there to read it, which keeps nothing from
// being undone.
func (b boot) say(format string, a ...any) { b.talkf(BootMark, format, a...) }

func (b boot) talkf(mark, format string, a ...any) {
	if b.talk != nil {
		_, _ = fmt.Fprintf(b.talk, mark+format+"\n", a...)
	}
}

// arm has the job installed, where it is wanted, when it returns without error.
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

// disarm removes the job when no change is open that it would put back. What
// cannot be removed is told, and tried again by the next recovery: the job has
// nothing to do then.
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

// BootLines returns a writer that passes on to w, one by one, the lines that
// begin with BootMark, UndoMark or KernelMark, of what a watchdog or its agent says on its standard
// error. Its Write never fails. It is safe for concurrent use if w is not used
// by others.
func BootLines(w io.Writer) io.Writer { return &bootLines{to: w} }

type bootLines struct {
	mu   sync.Mutex
	to   io.Writer
	line []byte
}

// Write takes any part of lines.
func (b *bootLines) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for part := range bytes.Lines(p) {
		b.line = append(b.line, part[:min(len(part), maxTalk-len(b.line))]...)
		if part[len(part)-1] != '\n' {
			break
		}
		if slices.ContainsFunc([]string{BootMark, UndoMark, KernelMark}, func(mark string) bool { return bytes.HasPrefix(b.line, []byte(mark)) }) {
			_, _ = b.to.Write(append(bytes.TrimRight(b.line, "\r\n"), '\n')) // nobody may be there
		}
		b.line = b.line[:0]
	}
	return len(p), nil
}
