package plan

import (
	"time"

	"linerate/internal/core/limits"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/udp"
	"linerate/internal/core/units"
)

// Resolve returns the flow of a test of a plan after the runs before it, and false if it is not
// to be run: because nothing arrives in one of its directions or, for a test of that case,
// because something arrives or another such test has already failed.
func Resolve(p model.Plan, t model.Test, past []model.Run) (model.Flow, bool) {
	for _, d := range t.Flow.Direction.Parts() {
		if dead(p, past, d) != t.IfDead || t.IfDead && failedAfter(p, past, d) {
			return t.Flow, false
		}
	}
	if t.Share == 0 {
		return t.Flow, true
	}
	u, ok := udp.Of(t.Flow)
	var alone [2]units.BitRate
	for i, d := range t.Flow.Direction.Parts() {
		for _, r := range past {
			if v, ok := r.Value(d, model.Goodput); ok && r.Setting == p.Baseline && r.State == model.RunValid {
				alone[i] = max(alone[i], units.BitRate(v))
			}
		}
	}
	if t.Flow.Direction == model.Both && !unclear(past, alone) || !ok || alone[0] <= 0 {
		return t.Flow, false
	}
	share := units.BitRate(t.Share)
	u.Rate, u.Back = share*alone[0], share*alone[1]
	f := udp.With(t.Flow, u)
	if t.Share <= Gentle {
		due := time.Duration(enough * fullDatagram * 8 / float64(u.Rate) * float64(time.Second)).Round(100 * time.Millisecond)
		f.Duration = max(f.Duration, min(due, longest*f.Duration))
	}
	return f, true
}

// unclear reports whether the last run of both directions at once, of which each carries alone
// what is given, leaves open what they share.
func unclear(past []model.Run, alone [2]units.BitRate) bool {
	o := limits.AtOnce{ToAlone: alone[0], FromAlone: alone[1]}
	for _, r := range past {
		to, _ := r.Value(model.To, model.Goodput)
		if from, ok := r.Value(model.From, model.Goodput); ok && to > 0 && r.State == model.RunValid {
			o.To, o.From = units.BitRate(to), units.BitRate(from)
		}
	}
	return o.Unclear()
}

// Gentle is the share of one stream's rate at which datagrams show the path's loss, not the
// drops of its queue. They are sent until a loss of 0.1 % would show.
const Gentle = 0.5

const (
	// enough datagrams without a loss show less than 0.1 % at 95 % confidence: 3000 by the rule
	// of three (Hanley and Lippman-Hand 1983), with a tenth as a reserve for those not sent in
	// time.
	enough = 3300
	// fullDatagram is the payload that fills an MTU of 1500 over IPv4 (RFC 768, RFC 791).
	fullDatagram = 1472.0
	longest      = 4 // times the usual length on a slow path, at most (p)
)

// dead reports whether nothing arrived in direction d in the baseline's runs, except those that
// lost contact to a host.
func dead(p model.Plan, past []model.Run, d model.Direction) bool {
	silent := false
	for _, r := range past {
		if r.Setting != p.Baseline || r.Flow.Direction != d || r.LostContact {
			continue
		}
		if _, arrived := r.Value(d, model.Goodput); arrived {
			return false
		}
		silent = silent || r.State == model.RunInvalid
	}
	return silent
}

// failedAfter reports whether a test for a dead direction failed in direction d too.
func failedAfter(p model.Plan, past []model.Run, d model.Direction) bool {
	for _, t := range p.Tests {
		for _, r := range past {
			if t.IfDead && t.Name == r.Setting && r.Flow.Direction == d && r.State == model.RunInvalid && !r.LostContact {
				return true
			}
		}
	}
	return false
}

// Left returns the time for the tests of p from index from on, without those for dead
// directions. beside is the overhead per run.
func Left(p model.Plan, from int, beside time.Duration) time.Duration {
	var sum time.Duration
	for _, t := range p.Tests[min(from, len(p.Tests)):] {
		if !t.IfDead {
			sum += p.Settle + t.Flow.Length() + p.Cooldown + beside
		}
	}
	return sum
}

// Beside is the approximate overhead of a run if it was not measured; only a forecast.
const Beside = 300 * time.Millisecond
