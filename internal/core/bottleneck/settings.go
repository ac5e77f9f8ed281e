package bottleneck

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/stats"
	"linerate/internal/core/traffic/files"
)

// The names of the settings of a copy session: four copies, and their parts
// alone. Disk stands for whatever the user chose at that end.
const (
	MemoryToMemory = "memory to memory"
	MemoryToDisk   = "memory to disk"
	DiskToMemory   = "disk to memory"
	DiskToDisk     = "disk to disk"
	Network        = "network alone"
	Read           = "read alone"
	Write          = "write alone"
	Memory         = "memory alone"
)

// Knobs of a copy that a setting assigns; they belong to the flow.
const (
	modeKnob   model.KnobID = "copy.mode"
	sourceKnob model.KnobID = "copy.source"
	sinkKnob   model.KnobID = "copy.sink"
)

// inMemory reports whether a source or sink is memory.
func inMemory(place string) bool { return place == "" || place == files.InMemory }

// Settings returns the settings that find the limit of copies from source at the sender to sink
// at the receiver, in the form of files.Params: all eight if both are disks, fewer if an end
// has only memory.
func Settings(source, sink string) []model.Setting {
	set := func(name, mode, from, to string) model.Setting {
		return model.Setting{Name: name, Assignments: []model.Assignment{
			{Knob: modeKnob, Value: mode}, {Knob: sourceKnob, Value: from}, {Knob: sinkKnob, Value: to},
		}}
	}
	const memory = files.InMemory
	out := []model.Setting{set(MemoryToMemory, files.Copy, memory, memory)}
	if !inMemory(sink) {
		out = append(out, set(MemoryToDisk, files.Copy, memory, sink))
	}
	if !inMemory(source) {
		out = append(out, set(DiskToMemory, files.Copy, source, memory))
	}
	if !inMemory(source) && !inMemory(sink) {
		out = append(out, set(DiskToDisk, files.Copy, source, sink))
	}
	out = append(out, set(Network, files.Network, memory, memory))
	if !inMemory(source) {
		out = append(out, set(Read, files.Read, source, memory))
	}
	if !inMemory(sink) {
		out = append(out, set(Write, files.Write, memory, sink))
	}
	return append(out, set(Memory, files.Memory, memory, memory))
}

// DefaultBlocks is the default number of blocks: the least that gives a useful interval
// (statistics.md section 4.3).
const DefaultBlocks = 3

// PlanOptions are the user's choices for a copy session.
type PlanOptions struct {
	Source, Sink string     // as in files.Params
	Flow         model.Flow // Engine, Direction, Bytes, and Params (files.Params) with the values common to all settings
	Blocks       int        // 0 is DefaultBlocks
	Directions   []model.Direction
	Budget       time.Duration // limit for the whole session; 0 is no limit
	Cooldown     time.Duration // after each run
	Seed         uint64
}

// orderStream is the PCG stream of the order, distinct from other uses of the seed.
const orderStream = 0x636f7079 // "copy"

// Plan returns the plan of a copy session: complete blocks in which every
// setting occurs once, in random order, so that a copy and its parts are
// compared inside each block. There is no twin and no baseline to beat.
func Plan(o PlanOptions) (model.Plan, error) {
	o.Blocks = cmp.Or(o.Blocks, DefaultBlocks)
	if len(o.Directions) == 0 {
		o.Directions = []model.Direction{o.Flow.Direction}
	}
	var faults []error
	if o.Blocks < 1 {
		faults = append(faults, fmt.Errorf("%d blocks: not at least 1", o.Blocks))
	}
	for i, d := range o.Directions {
		if d != model.To && d != model.From || slices.Contains(o.Directions[:i], d) {
			faults = append(faults, fmt.Errorf("direction %q: a copy goes to or from, each once", d))
		}
	}
	if o.Flow.Engine == "" {
		faults = append(faults, errors.New("the flow names no engine"))
	}
	if len(faults) > 0 {
		return model.Plan{}, errors.Join(faults...)
	}
	p := model.Plan{
		Settings: Settings(o.Source, o.Sink), Baseline: MemoryToMemory, Flow: o.Flow, Directions: slices.Clone(o.Directions),
		Mode: model.FixedBlocks, MaxBlocks: o.Blocks, Budget: o.Budget, Cooldown: o.Cooldown, Seed: o.Seed,
		Margin: stats.DefaultMargin, Tolerance: stats.DefaultTolerance, Confidence: stats.DefaultConfidence,
	}
	rng := rand.New(rand.NewPCG(o.Seed, orderStream))
	for range o.Blocks {
		block := make([]string, len(p.Settings))
		for i, j := range rng.Perm(len(block)) {
			block[i] = p.Settings[j].Name
		}
		p.Order = append(p.Order, block)
	}
	return p, nil
}
