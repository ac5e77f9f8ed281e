// Package knobtest tests what every backend of a knob must do, and has a backend in memory to
// test others with.
package knobtest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"

	"linerate/internal/core/knob"
	hostknob "linerate/internal/host/knob"
)

// Case is one backend with texts to write to it.
type Case struct {
	Backend hostknob.Backend
	Other   string           // a valid text other than the present one
	Bad     []string         // texts that Check or Write must refuse
	Absent  hostknob.Backend // a place of the same mechanism that does not exist
}

// Run tests c. It restores the value that it found.
func Run(t *testing.T, c Case) {
	ctx := t.Context()
	old := read(t, c.Backend)
	if knob.SameText(old) == knob.SameText(c.Other) {
		t.Fatalf("the backend already holds %q: nothing would be tested", c.Other)
	}

	t.Run("check changes nothing", func(t *testing.T) {
		if err := c.Backend.Check(ctx, c.Other); err != nil {
			t.Errorf("Check(%q) = %v", c.Other, err)
		}
		expect(t, c.Backend, old)
	})
	t.Run("write then read", func(t *testing.T) {
		for _, v := range []string{c.Other, c.Other, old} { // Write accepts what Read returned
			if err := c.Backend.Write(ctx, v); err != nil {
				t.Fatalf("Write(%q) = %v", v, err)
			}
			expect(t, c.Backend, v)
		}
	})
	t.Run("refused values change nothing", func(t *testing.T) {
		for _, bad := range c.Bad {
			err := c.Backend.Check(ctx, bad)
			if err == nil { // a caller writes only then
				err = c.Backend.Write(ctx, bad)
			}
			if err == nil {
				t.Errorf("%q was accepted", bad)
			}
			if errors.Is(err, fs.ErrNotExist) {
				t.Errorf("a bad value reads as a vanished device: %v", err)
			}
			expect(t, c.Backend, old)
		}
	})
	t.Run("ended context", func(t *testing.T) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		host := hostknob.Host{Backend: func(hostknob.Place) (hostknob.Backend, error) { return c.Backend, nil }}
		if _, err := host.ReadRaw(ended, "", hostknob.Place{}); !errors.Is(err, context.Canceled) {
			t.Errorf("Read = %v, want context canceled", err)
		}
		if err := host.WriteRaw(ended, "", hostknob.Place{}, c.Other); !errors.Is(err, context.Canceled) {
			t.Errorf("Write = %v, want context canceled", err)
		}
		expect(t, c.Backend, old)
	})
	t.Run("absent", func(t *testing.T) {
		if _, err := c.Absent.Read(ctx); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Read = %v, want it to wrap fs.ErrNotExist", err)
		}
		if err := c.Absent.Check(ctx, c.Other); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Check = %v, want it to wrap fs.ErrNotExist", err)
		}
		if err := c.Absent.Write(ctx, c.Other); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("Write = %v, want it to wrap fs.ErrNotExist", err)
		}
	})
}

func read(t *testing.T, b hostknob.Backend) string {
	t.Helper()
	raw, err := b.Read(t.Context())
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	return raw
}

func expect(t *testing.T, b hostknob.Backend, want string) {
	t.Helper()
	if got := read(t, b); !knob.Holds(want, got) {
		t.Errorf("holds %q, want %q", got, want)
	}
}

// Memory holds native texts by place. Its zero value is empty; it is safe for
// concurrent use.
type Memory struct {
	mu     sync.Mutex
	texts  map[hostknob.Place]string
	Refuse func(p hostknob.Place, raw string) error // called before each write; nil refuses nothing
	Wrong  func(p hostknob.Place, raw string) error // called by each check; nil finds nothing wrong
}

// Set puts a text at p, like another program.
func (m *Memory) Set(p hostknob.Place, raw string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.texts == nil {
		m.texts = make(map[hostknob.Place]string)
	}
	m.texts[p] = raw
}

// Remove makes p vanish.
func (m *Memory) Remove(p hostknob.Place) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.texts, p)
}

// Open returns the backend of p, for hostknob.Host.Backend.
func (m *Memory) Open(p hostknob.Place) (hostknob.Backend, error) { return cell{m, p}, nil }

type cell struct {
	m *Memory
	p hostknob.Place
}

// Read returns the text.
func (c cell) Read(ctx context.Context) (string, error) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	raw, ok := c.m.texts[c.p]
	if err := ctx.Err(); err != nil {
		return "", err
	}
	if !ok {
		return "", fmt.Errorf("%s: %w", c.p, fs.ErrNotExist)
	}
	return raw, nil
}

// Check refuses the empty text, and what Wrong refuses.
func (c cell) Check(ctx context.Context, raw string) error {
	if raw == "" {
		return errors.New("empty value")
	}
	if c.m.Wrong != nil {
		if err := c.m.Wrong(c.p, raw); err != nil {
			return err
		}
	}
	_, err := c.Read(ctx)
	return err
}

// Write sets the text of a place that exists.
func (c cell) Write(ctx context.Context, raw string) error {
	if _, err := c.Read(ctx); err != nil {
		return err
	}
	if c.m.Refuse != nil {
		if err := c.m.Refuse(c.p, raw); err != nil {
			return err
		}
	}
	c.m.Set(c.p, raw)
	return nil
}
