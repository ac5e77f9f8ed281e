package trial

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"linerate/internal/app/target"
	"linerate/internal/core/bottleneck"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// Copy describes copies of a file, and of their parts alone.
type Copy struct {
	Source, Sink string // disk, memory or a path
	Bytes        units.Bytes
	Params       files.Params      // the same for all
	Directions   []model.Direction // one, or both in turn
	Blocks       int               // how often to measure each, 1 to 1000
	Cooldown     time.Duration
	Seed         uint64 // for the order; 0 draws one
}

// directBlock is the size of reads and writes past the page cache.
const directBlock = 1 << 20

// Plan returns the runs of c between near and far. A foreign far end is refused.
func (c Copy) Plan(near, far target.Target) (model.Plan, error) {
	if err := places(near, far, c.Directions, "--", c.Source, c.Sink); err != nil {
		return model.Plan{}, err
	}
	if far.Kind == target.Foreign {
		return model.Plan{}, fault.WithHint(fault.Usagef("%s copies no files", far), "start linerate serve on that host")
	}
	if c.Seed == 0 {
		c.Seed = rand.Uint64()
	}
	f := model.Flow{Engine: files.Name, Bytes: c.Bytes, Interval: time.Second, Direction: c.Directions[0], Params: traffic.Write(c.Params)}
	if c.Params.Direct {
		f.Block = directBlock
	}
	return bottleneck.Plan(bottleneck.PlanOptions{
		Source: c.Source, Sink: c.Sink, Blocks: c.Blocks, Seed: c.Seed, Cooldown: c.Cooldown, Directions: c.Directions, Flow: f,
	})
}

// Places refuses copies among the settings of p with an invalid source or sink.
func Places(near, far target.Target, p model.Plan, kinds traffic.Kinds) error {
	for _, s := range p.Settings {
		flow, err := knob.WithSetting(p.Flow, s, kinds...)
		if c, ok := files.Of(flow); err == nil && ok {
			err = places(near, far, p.Directions, "", cmp.Or(c.Source, files.InMemory), cmp.Or(c.Sink, files.InMemory))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// places refuses an invalid source or sink of a copy before anything runs: a word that is
// neither a place nor a path, and a path on this machine that does not exist, or would be
// overwritten. The hosts of a lab have the files of this machine; a path on another host is
// checked there, by its first copy. Errors begin with dash.
func places(near, far target.Target, directions []model.Direction, dash, source, sink string) error {
	for _, end := range [][2]string{{"source", source}, {"sink", sink}} {
		if _, err := files.Place(end[1]); err != nil {
			return fmt.Errorf("%s%s: %w", dash, end[0], err)
		}
	}
	lab := far.Kind == target.Lab
	for _, d := range directions {
		sender, receiver := near.Kind == target.Here, far.Kind == target.Here
		if d == model.From {
			sender, receiver = receiver, sender
		}
		if (sender || lab) && strings.ContainsAny(source, `/\`) {
			if info, err := os.Stat(source); err != nil {
				return fault.WithKind(fault.Usage, fmt.Errorf("%ssource: %w", dash, err))
			} else if !info.Mode().IsRegular() && !info.IsDir() {
				return fault.Usagef("%ssource: %s is neither a file nor a folder", dash, source)
			}
		}
		if (receiver || lab) && strings.ContainsAny(sink, `/\`) {
			if err := mayMake(sink); err != nil {
				return fault.New(fault.Usage, fmt.Errorf("%ssink: %w", dash, err), "name a folder to make a file in, or a new file")
			}
		}
	}
	return nil
}

// mayMake returns an error unless path is a folder, or a new name in one.
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

// unmeasured names a copy, or a direction of a test, without a valid run, and says why its
// last run is invalid; "" if there is none.
func unmeasured(s model.Session) string {
	for _, set := range s.Plan.Settings {
		for _, d := range s.Plan.Directions {
			valid, last := false, ""
			for _, r := range s.Runs {
				if r.Setting == set.Name && r.Flow.Direction == d {
					valid, last = valid || r.State == model.RunValid, r.Reason
				}
			}
			switch {
			case valid || last == "":
			case set.Name == Current:
				return "direction " + string(d) + " was never measured: " + last
			default:
				return "never measured: " + set.Name + ": " + last
			}
		}
	}
	return ""
}
