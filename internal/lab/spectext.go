package lab

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/lab/wire"
)

// String returns the spec as text that ParseSpec reads to the same spec.
func (s Spec) String() string {
	var items []string
	add := func(format string, args ...any) { items = append(items, fmt.Sprintf(format, args...)) }
	for _, d := range []struct {
		name model.Direction
		path wire.Path
	}{{model.To, s.To}, {model.From, s.From}} {
		if d.path.Rate > 0 {
			add("%s.rate=%sbit", d.name, plainRate(d.path.Rate))
		}
		if d.path.Swing.Share > 0 {
			add("%s.swing=%s", d.name, d.path.Swing)
		}
		if d.path.Queue > 0 {
			add("%s.queue=%d", d.name, d.path.Queue)
		}
		for _, v := range []struct {
			key  string
			time time.Duration
		}{{"delay", d.path.Delay}, {"jitter", d.path.Jitter}} {
			if v.time > 0 {
				add("%s.%s=%s", d.name, v.key, v.time)
			}
		}
		for _, v := range []struct {
			key   string
			share units.Percent
		}{{"loss", d.path.Loss}, {"reorder", d.path.Reorder}, {"dup", d.path.Duplicate}} {
			if v.share > 0 {
				add("%s.%s=%s%%", d.name, v.key, plainShare(v.share))
			}
		}
		for _, v := range []struct {
			key  string
			rate units.BitRate
		}{{"stage", d.path.Stage}, {"police", d.path.Police}} {
			if v.rate > 0 {
				add("%s.%s=%sbit", d.name, v.key, plainRate(v.rate))
			}
		}
		if d.path.PathMTU > 0 {
			add("%s.pathmtu=%d", d.name, d.path.PathMTU)
		}
	}
	if s.HalfDuplex {
		add("duplex=half")
	}
	if s.Bus > 0 {
		add("bus=%sbit", plainRate(s.Bus))
	}
	add("mtu=%d", s.MTU)
	add("seed=%d", s.Seed)
	if s.ShapeNear > 0 {
		add("%s=%sbit", model.Near.Of(shapeKey), plainRate(s.ShapeNear))
	}
	if s.ShapeFar > 0 {
		add("%s=%sbit", model.Far.Of(shapeKey), plainRate(s.ShapeFar))
	}
	if s.QuotaNear > 0 {
		add("%s=%s%%", model.Near.Of(quotaKey), plainShare(s.QuotaNear))
	}
	if s.QuotaFar > 0 {
		add("%s=%s%%", model.Far.Of(quotaKey), plainShare(s.QuotaFar))
	}
	for _, k := range s.Knobs {
		add("%s=%s", k.Host.Of(k.Knob), k.Value)
	}
	return strings.Join(items, ",")
}

// plainRate is a rate as ParseSpec reads it, without its unit.
func plainRate(r units.BitRate) string { return strconv.FormatFloat(float64(r), 'f', -1, 64) }

func plainShare(v units.Percent) string { return strconv.FormatFloat(float64(v), 'f', -1, 64) }
