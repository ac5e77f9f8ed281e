package target

import (
	"context"
	"errors"
	"slices"
	"time"

	"linerate/internal/app"
	"linerate/internal/control/deploy"
	"linerate/internal/control/wire/ssh"
)

// Keep says whether a copy of this program stays on hosts reached over ssh.
type Keep int

// What happens to the copy.
const (
	KeepAsRemembered Keep = iota // as the user answered the first time; asked once
	KeepAgent                    // it stays, from now on
	RemoveAgent                  // the copy is removed, also an earlier one, from now on
)

// The words that are stored for a host.
const (
	keepWord = "keep"
	goWord   = "remove"
)

// keeping returns whether a copy of the program stays on a host, and a function that asks the
// user if that is not known yet.
func (o *Opener) keeping(t ssh.Target) (deploy.Keep, func(context.Context, int) (bool, error), error) {
	host := t.String()
	n, err := note(o.env.Getenv, keepFile)
	if err != nil { // without a file for the answer, do not ask every time
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
		if errors.Is(err, app.ErrNoTerminal) {
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

// remember stores the user's answer, unless it is stored already.
func remember(n notes, host, word string) error {
	if words, err := n.of(host); err != nil || slices.Equal(words, []string{word}) {
		return err
	}
	return n.set(host, word)
}

// copyEvery is the interval between progress events of a copy.
const copyEvery = 250 * time.Millisecond

// copying returns a function that reports the progress of a copy to a host.
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
