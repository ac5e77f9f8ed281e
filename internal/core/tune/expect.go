package tune

import (
	"time"

	"linerate/internal/core/stats"
)

// Cost is the approximate time of a search's runs, including overhead.
type Cost struct{ Pilot, Run time.Duration }

// Expected blocks if a setting helps a lot.
const (
	usualRace    = leastBlocks
	usualPlateau = 4
)

// Expect estimates how much longer the search and its confirmation take if the candidates help
// a lot and so many directions are measured: all remaining steps together. It is short if
// nothing is left to gain.
func (m *Machine) Expect(c Cost, directions int) time.Duration {
	proof := time.Duration(3*stats.RankBlocks+2*stats.WatchBlocks*(directions-1)) * c.Run // the third one at equal load
	plateau := time.Duration(0)
	if !m.o.NoPlateau {
		plateau = 2 * usualPlateau * c.Run
	}
	switch left := m.race.blocks; m.kind {
	case KindLook, KindAsk:
		if len(m.accepted) > 0 {
			return time.Duration(directions-1)*c.Pilot + plateau + proof
		}
		return time.Duration(directions+3)*c.Pilot + 3*(usualRace-1)*c.Run + time.Duration(directions-1)*c.Pilot + plateau + proof
	case KindRace, KindScreen:
		return time.Duration(max(1, usualRace-left)*(len(m.race.settings)+1))*c.Run + time.Duration(directions-1)*c.Pilot + plateau + proof
	case KindTrim, KindPlateau:
		return time.Duration(max(1, usualPlateau-left)*len(m.race.settings))*c.Run + proof
	case KindConfirm:
		return proof
	case KindEnd:
	}
	return 0
}
