package watchdog

import (
	"time"

	"linerate/internal/host/durable"
	"linerate/internal/host/journal"
	"linerate/internal/host/knob/link"
	"linerate/internal/host/knob/linkid"
)

// system is the machine around the settings, as a watchdog needs it. Tests simulate it.
type system struct {
	files  durable.FS
	clock  func() time.Duration        // for deadlines; counts from any point
	now    func() time.Time            // for display
	links  func() ([]linkid.ID, error) // of this network namespace
	around around                      // interfaces that change along with an MTU; nil for none
	kernel func() (kernelLog, error)
	origin func() journal.Origin
	start  func(cfg Config) (*process, error) // starts a watchdog process; nil means Config.Command
	spare  spare
}

// around is link.Around.
type around func(device string, mtu int, was map[string]int) (before, after []link.Member, err error)

// machineItself returns the default system of a Config.
func machineItself() *system {
	return &system{
		files: durable.OS{}, clock: sinceBoot, now: time.Now, links: linkid.All, around: link.Around, kernel: openKernelLog, origin: journal.Here,
		spare: &descriptors{},
	}
}

// spare is a reserve that an undo needs and might not get in time.
type spare interface {
	// hold fills the reserve, or returns an error.
	hold() error
	// release frees the reserve for the undo.
	release()
}

func (c Config) system() *system {
	if c.sys == nil {
		return machineItself()
	}
	return c.sys
}

// state returns the state directory.
func (c Config) state() (journal.Dir, error) {
	dir := c.Dir
	if dir == "" {
		var err error
		if dir, err = journal.DefaultDir(); err != nil {
			return journal.Dir{}, err
		}
	}
	return journal.Dir{Path: dir, FS: c.system().files}, nil
}
