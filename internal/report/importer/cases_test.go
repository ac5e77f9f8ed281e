package importer

import (
	"math"
	"os"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// published reads a published case, with columns and lines as they are asked for.
func published(t *testing.T, name, where string, columnsOf ...string) (File, error) {
	t.Helper()
	text := must.Get(os.ReadFile("testdata/cases/" + name + ".csv"))(t)
	o := columns(t, columnsOf...)
	if where != "" {
		w := must.Get(ParseWhere(where))(t)
		o.Where = []Where{w}
	}
	return Read("csv", text, o)
}

// TestGigabitSteps: what is a rate is read with the unit of its line; bytes, milliseconds
// and words are none.
func TestGigabitSteps(t *testing.T) {
	rates := []string{"setting=setup", "setting=step", "goodput=value:{unit}"}
	must.Say(t, must.Err(published(t, "gigabit-steps", "", rates...)), `line 5: 262144 bytes as goodput: unit "bytes" is none of`, "bytes as a rate")
	mbit, err := published(t, "gigabit-steps", "unit=Mbit/s", rates...)
	must.Need(t, err == nil && len(mbit.Tests) == 3, "%+v, %v", mbit, err)
	tuned := value(mbit.Tests[1], model.To, model.Goodput)
	must.True(t, tuned == 626e6 && value(mbit.Tests[0], model.To, model.Goodput) == 134e6, "%+v", mbit.Tests)
	// The article prints 626 Mbit/s as 74.6 MB/s: that is MiB/s, of 1048576 bytes.
	for unit, want := range map[string]float64{"MiB/s": 74.6, "MB/s": 78.3} {
		if got := math.Round(tuned/rateUnits[unit]*10) / 10; math.Abs(got-want) > 0.051 { // it is 78.25
			t.Errorf("626 Mbit/s are %g %s, want %g", got, unit, want)
		}
	}
	bytes, err := published(t, "gigabit-steps", "unit=MB/s", rates...)
	must.True(t, err == nil && len(bytes.Tests) == 9 && value(bytes.Tests[1], model.To, model.Goodput) == 1e9 && value(bytes.Tests[8], model.To, model.Goodput) == 504e6, "%+v, %v", bytes.Tests, err)
	wait, err := published(t, "gigabit-steps", "unit=ms", "setting=setup", "rtt=value:{unit}")
	must.True(t, err == nil && len(wait.Tests) == 1 && value(wait.Tests[0], model.To, model.RTT) == 1e-4, "%+v, %v", wait.Tests, err)
	for where, says := range map[string]string{"unit=kB": `unit "kB" is none of`, "unit=furlong": "no line has what is asked for: unit=furlong", "volume=1": `no column is called "volume"`} {
		f, err := published(t, "gigabit-steps", where, rates...)
		must.True(t, err != nil && strings.Contains(err.Error(), says), "%s: %+v, %v, want %q", where, f.Tests, err, says)
	}
}

// TestMatrixOfWords: what an article says of its curves is no measurement, so that the
// table of its cards is refused at its first line.
func TestMatrixOfWords(t *testing.T) {
	f, err := published(t, "nic-matrix", "", "setting=computer", "setting=card", "goodput=what_the_text_says:Mbit/s")
	must.True(t, err != nil && strings.Contains(err.Error(), `line 2: "even speed at every message size" is no number`) && len(f.Tests) == 0,
		"%+v, %v", f.Tests, err)
}

// TestUnitsFitTheirRole: a rate is not told in milliseconds, nor a time in Mbit/s.
func TestUnitsFitTheirRole(t *testing.T) {
	for _, bad := range []string{"goodput=a:ms", "rtt=a:Mbit/s", "loss_ratio=a:ms", "retransmits=a:s"} {
		c, err := ParseColumn(bad)
		must.True(t, err != nil, "%s: %+v", bad, c)
	}
	must.Fail(t, must.Err(ParseWhere("medium")), "a column without a text is taken")
}
