package trial

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"linerate/internal/app"
	"linerate/internal/app/reach"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/files"
)

// Places refuses what cannot be the source or the sink of a copy, before anything runs:
// a word that is neither a place nor a path, and a path of this machine that is not
// there, or would be overwritten. The hosts of a lab have the files of this machine; a
// path of another host is looked at there, by its first copy.
func Places(near, far reach.Target, directions []model.Direction, source, sink string) error {
	for _, end := range []struct{ flag, text string }{{"source", source}, {"sink", sink}} {
		if end.text != files.OnDisk && end.text != files.InMemory && !strings.ContainsAny(end.text, `/\`) {
			return app.WithHint(app.Usagef("--%s: %q is not disk, memory or a path", end.flag, end.text), "a file of the folder that you are in is written ./%s", end.text)
		}
	}
	lab := far.Kind == reach.Lab
	for _, d := range directions {
		sender, receiver := near.Kind == reach.Here, far.Kind == reach.Here
		if d == model.From {
			sender, receiver = receiver, sender
		}
		if (sender || lab) && strings.ContainsAny(source, `/\`) {
			if info, err := os.Stat(source); err != nil {
				return app.WithKind(app.Usage, fmt.Errorf("--source: %w", err))
			} else if !info.Mode().IsRegular() && !info.IsDir() {
				return app.Usagef("--source: %s is neither a file nor a folder", source)
			}
		}
		if (receiver || lab) && strings.ContainsAny(sink, `/\`) {
			if err := mayMake(sink); err != nil {
				return app.WithHint(app.WithKind(app.Usage, fmt.Errorf("--sink: %w", err)), "name a folder to make a file in, or a new file")
			}
		}
	}
	return nil
}

// mayMake demands that path is a folder, or a new name in one.
func mayMake(path string) error {
	if info, err := os.Stat(path); err == nil {
		if info.IsDir() {
			return nil
		}
		return fmt.Errorf("%s is there already; nothing that was there is overwritten", path)
	}
	_, err := os.Stat(filepath.Dir(path))
	return err
}

// unmeasured names a copy of a session of which no run counts, with the reason of its
// last one; "" for none.
func unmeasured(s model.Session) string {
	for _, set := range s.Plan.Settings {
		for _, d := range s.Plan.Directions {
			valid, last := false, ""
			for _, r := range s.Runs {
				if r.Setting == set.Name && r.Flow.Direction == d {
					valid, last = valid || r.State == model.RunValid, r.Reason
				}
			}
			if !valid && last != "" {
				return set.Name + ": " + last
			}
		}
	}
	return ""
}
