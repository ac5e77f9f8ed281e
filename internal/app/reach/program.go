package reach

import (
	"context"
	"errors"
	"slices"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/deploy"
	"linerate/internal/control/wire/ssh"
)

// Keep says whether a copy of this program stays on hosts that are reached over ssh.
type Keep int

// What becomes of the copy.
const (
	KeepAsRemembered Keep = iota // as the person said the first time, who is asked once
	KeepAgent                    // it stays, from now on
	RemoveAgent                  // it goes, also an earlier one, from now on
)

// The words that are remembered of a host.
const (
	keepWord = "keep"
	goWord   = "remove"
)

// keeping returns what becomes of the program on a host, and who is asked where that is
// not known yet.
func (o *Opener) keeping(t ssh.Target) (deploy.Keep, func(context.Context, int) (bool, error), error) {
	host := t.String()
	n, err := note(o.env.Getenv, keepFile)
	if err != nil { // nobody to be asked every time
		return map[Keep]deploy.Keep{KeepAsRemembered: deploy.KeepNo, KeepAgent: deploy.KeepYes, RemoveAgent: deploy.KeepNone}[o.o.Keep], nil, nil
	}
	switch o.o.Keep {
	case KeepAgent:
		return deploy.KeepYes, nil, remember(n, host, keepWord)
	case RemoveAgent:
		return deploy.KeepNone, nil, remember(n, host, goWord)
	case KeepAsRemembered:
	}
	words, err := n.of(host)
	switch {
	case err != nil:
		return deploy.KeepNo, nil, err
	case slices.Contains(words, keepWord):
		return deploy.KeepYes, nil, nil
	case len(words) > 0:
		return deploy.KeepNo, nil, nil
	}
	return deploy.KeepAsked, func(ctx context.Context, bytes int) (bool, error) {
		answer, err := o.env.Ask(ctx, app.Question{Kind: app.KeepProgram, Host: t.Host, Count: bytes})
		if errors.Is(err, app.ErrNobody) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		word := goWord
		if answer.Yes {
			word = keepWord
		}
		return answer.Yes, remember(n, host, word)
	}, nil
}

// remember notes what a person has said, where it is not noted already.
func remember(n notes, host, word string) error {
	if words, err := n.of(host); err != nil || slices.Equal(words, []string{word}) {
		return err
	}
	return n.set(host, word)
}

// copyEvery is how often one is told of a copy that goes on.
const copyEvery = 250 * time.Millisecond

// copying tells how far a copy to a host is.
func (o *Opener) copying(host string) func(done, bytes int) {
	var began, last time.Time
	return func(done, bytes int) {
		now := o.env.Now()
		if done == 0 {
			began = now
		}
		if done > 0 && done < bytes && now.Sub(last) < copyEvery {
			return
		}
		last = now
		o.env.Observe(app.Copying{Host: host, Done: done, Bytes: bytes, Elapsed: now.Sub(began)})
	}
}
