package config

import (
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// TestHooks of flags and of a plan file are one assignment for each host, and what is
// not given does nothing.
func TestHooks(t *testing.T) {
	var hooks []model.Assignment
	var err error
	for _, c := range []struct {
		after bool
		text  string
	}{{false, "sync"}, {true, "far: rm -f near:x"}, {true, "near:date"}} {
		if hooks, err = Hook(hooks, c.after, c.text); err != nil {
			t.Fatal(err)
		}
	}
	near := model.Command{Run: "sync", Undo: "date", Limit: DefaultCommandTime}
	far := model.Command{Run: noCommand, Undo: "rm -f near:x", Limit: DefaultCommandTime}
	got := File{Hooks: hooks}.Options().Hooks
	if len(got) != 2 || got[0].Host != model.Near || got[0].Command != near || got[1].Host != model.Far || got[1].Command != far || got[1].Knob != model.HookKnob {
		t.Errorf("%+v", got)
	}
	file, err := Parse("p", []byte("factors: [{knob: window, levels: [1K, 2K]}]\nhooks:\n- {before: 'sync; date', limit: 7s}\n- {host: far, before: up, after: down}\n- {after: date}\n"), knobs{}, kinds())
	must.Do(t, err)
	near = model.Command{Run: "sync; date", Undo: "date", Limit: 7 * time.Second}
	far = model.Command{Run: "up", Undo: "down", Limit: DefaultCommandTime}
	if got := file.Options().Hooks; len(got) != 2 || got[0].Command != near || got[1].Command != far {
		t.Errorf("%+v", got)
	}
}

// TestHookMistakes are told with what would be right.
func TestHookMistakes(t *testing.T) {
	for in, want := range map[string]string{
		"{limit: 3s}":                "the hook has no command; add before:",
		"{host: left, before: a}":    `unknown host "left"`,
		"{before: a, limit: 1h}":     "too long for a command",
		"{befor: a}":                 "did you mean before?",
		`{before: "a\nb"}`:           "characters that are not shown",
		"{before: a}\n- {before: b}": "two commands before its runs; join them with &&",
	} {
		_, err := Parse("p", []byte("factors: [{knob: window, levels: [1K, 2K]}]\nhooks:\n- "+in+"\n"), knobs{}, kinds())
		must.True(t, err != nil && strings.Contains(err.Error(), want) && strings.HasPrefix(err.Error(), "p:"), "%s: %v, want %s", in, err, want)
	}
	must.Say(t, must.Err(Hook(nil, false, "far: ")), "there is no command")
}
