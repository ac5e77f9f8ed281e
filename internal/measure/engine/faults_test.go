package engine

import (
	"math"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/must"
)

func TestFaults(t *testing.T) {
	all := func(f model.Flow) error {
		var faults Faults
		faults.Engine(f, "bulk")
		faults.Direction(f)
		faults.Amount(f)
		faults.Interval(f)
		faults.Window(f)
		faults.MSS(f)
		return faults.Err()
	}
	must.OK(t, all(model.Flow{Direction: model.From, Duration: 1, Interval: MinInterval, MSS: MaxMSS, Window: math.MaxInt32}), "a good flow")
	bad := model.Flow{
		Engine: "other", Direction: "up", Duration: -1, Omit: -1, Bytes: units.Bytes(-1), Interval: time.Millisecond, Window: -1, MSS: MinMSS - 1,
	}
	err := all(bad)
	must.Need(t, err != nil, "no fault")
	for _, want := range []string{
		`engine "other"`, `direction "up"`, "duration -1ns is negative", "omit -1ns is negative", "-1 bytes: negative", "duration and bytes exclude",
		"omit and bytes exclude", "interval 1ms", "window of -1", "segment size of 87",
	} {
		must.True(t, strings.Contains(err.Error(), want), "no fault with %q in\n%v", want, err)
	}
	if err := all(model.Flow{Direction: model.To}); err == nil || err.Error() != "neither duration nor bytes given" {
		t.Errorf("a flow without an end: %v", err)
	}
}
