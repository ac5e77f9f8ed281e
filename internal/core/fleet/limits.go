package fleet

import (
	"fmt"
	"strings"
	"time"

	"linerate/internal/core/units"
)

const (
	hour = 3600
	day  = 24 * hour
	// DefaultShare is the part of the time in which a host measures at most, unless its owner
	// says otherwise (p): six looks of Window and one confirmation an hour take as much.
	DefaultShare = 0.1
	// Window is the time of a look in seconds (p): 14 s of traffic and the sessions around it.
	Window = 25
	// BulkTime is the measured time of each bulk run.
	BulkTime = 3 * time.Second
)

// Limits are what the owner of a host allows. The hub plans by them, and the host keeps them
// by itself, whatever a hub asks for.
type Limits struct {
	Rate      units.BitRate `json:"max_rate,omitempty"`   // of TCP, each way; 0 is no limit
	Share     float64       `json:"max_share"`            // of each hour, 0…1
	Quiet     *Quiet        `json:"quiet,omitempty"`      // when not to measure
	ProbeOnly bool          `json:"probe_only,omitempty"` // round trip and loss alone
}

// String says what the owner of a host allows.
func (l Limits) String() string {
	parts := []string{fmt.Sprintf("measures up to %g %% of the time", 100*l.Share)}
	if l.Rate > 0 {
		parts = append(parts, "at up to "+l.Rate.String())
	}
	if q := l.Quiet; q != nil {
		parts = append(parts, fmt.Sprintf("not from %02d:%02d to %02d:%02d", q.From/3600, q.From/60%60, q.Until/3600, q.Until/60%60))
	}
	if l.ProbeOnly {
		parts = append(parts, "round trip and loss alone")
	}
	return strings.Join(parts, ", ")
}

// Validate returns an error for limits that no owner can have set.
func (l Limits) Validate() error {
	if q := l.Quiet; q != nil && (q.From < 0 || q.From >= day || q.Until < 0 || q.Until >= day || q.Zone < -day || q.Zone > day) {
		return fmt.Errorf("quiet hours %v are outside a day", *q)
	}
	if !(l.Share >= 0 && l.Share <= 1) || !(l.Rate >= 0) {
		return fmt.Errorf("a share of %v and a rate of %v", l.Share, float64(l.Rate))
	}
	return nil
}

// Quiet is a part of each day, in seconds since midnight in the time zone of the host. It goes
// over midnight if Until is before From.
type Quiet struct {
	From  int64 `json:"from_s"`
	Until int64 `json:"until_s"`
	Zone  int64 `json:"zone_s"` // east of UTC
}

// ParseRate parses a bound of the rate of TCP: "200mbit".
func ParseRate(text string) (units.BitRate, error) {
	r, err := units.ParseBitRate(text)
	if err == nil && r < 1e6 {
		err = fmt.Errorf("%q is below 1 Mbit/s", text)
	}
	return r, err
}

// ParseShare parses a share of time: "10%" is 0.1.
func ParseShare(text string) (float64, error) {
	share, err := units.ParsePercent(text)
	if err != nil || !(share > 0 && share <= 100) {
		return 0, fmt.Errorf("%q is no share above 0%% and up to 100%%", text)
	}
	return float64(share) / 100, nil
}

// ParseQuiet parses "08:00-18:00".
func ParseQuiet(text string) (*Quiet, error) {
	var q Quiet
	from, until, ok := strings.Cut(text, "-")
	for _, one := range []struct {
		text string
		to   *int64
	}{{from, &q.From}, {until, &q.Until}} {
		var h, m int64
		if n, err := fmt.Sscanf(one.text+"\n", "%d:%d\n", &h, &m); err != nil || n != 2 || !ok || h < 0 || h > 23 || m < 0 || m > 59 {
			return nil, fmt.Errorf("%q: write it like 08:00-18:00", text)
		}
		*one.to = h*hour + m*60
	}
	if q.From == q.Until {
		return nil, fmt.Errorf("%q is the whole day", text)
	}
	return &q, nil
}

// Covers reports whether a moment, in seconds since 1970, is in the quiet hours; false for nil.
func (q *Quiet) Covers(at int64) bool {
	if q == nil {
		return false
	}
	s := ((at+q.Zone)%day + day) % day
	if q.From < q.Until {
		return q.From <= s && s < q.Until
	}
	return s >= q.From || s < q.Until
}

// Span is a time from From to before Until, in seconds since 1970.
type Span struct{ From, Until int64 }

// Overlaps reports whether two spans have a second in common.
func (s Span) Overlaps(o Span) bool { return s.From < o.Until && o.From < s.Until }

// Refusal is the reason why a host does not measure in a window; "" if it does.
type Refusal string

// The reasons for which an owner's limits or another run leave no room for a window.
const (
	Allowed Refusal = ""
	Busy    Refusal = "it measures with another host then"
	Drained Refusal = "it was drained"
	InQuiet Refusal = "its owner's quiet hours"
	UsedUp  Refusal = "its owner's share of time is used up"
)

// Allow returns whether a host with these limits, and with the windows of taken, may measure in
// a window too. It is the one rule of the planner and of the host itself.
func (l Limits) Allow(w Span, taken []Span) Refusal {
	if q := l.Quiet; q.Covers(w.From) || q != nil && ((q.From-q.Zone-w.From)%day+day)%day < w.Until-w.From {
		return InQuiet
	}
	begins := []Span{w}
	for _, t := range taken {
		if t.Overlaps(w) {
			return Busy
		}
		if t.From > w.From-hour && t.From < w.From+hour {
			begins = append(begins, t)
		}
	}
	for _, first := range begins { // an hour is fullest from the beginning of a window on
		used := int64(0)
		for _, t := range begins {
			if t.From >= first.From && t.From < first.From+hour {
				used += t.Until - t.From
			}
		}
		if first.From <= w.From && float64(used) > l.Share*hour {
			return UsedUp
		}
	}
	return Allowed
}
