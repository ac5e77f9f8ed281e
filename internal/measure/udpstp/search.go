package udpstp

// Search finds the highest row of the table of sending rates that a path carries (section 4).
// The server runs it, once for each status PDU.
type Search struct {
	of      Activation
	last    int // the highest row
	row     int
	slow    int  // consecutive decisions with a bad status PDU
	doubles bool // the next good status doubles the row (C)
	waits   int  // slow steps since the last fast climb (C)
	retryAt int  // that many start another one
}

// firstRetry is after how many slow steps algorithm C first climbs fast again, and by how many
// that number grows each time (obudpst 9.0.0, RETRY_THRESH_ALGOC).
const firstRetry = 5

// backRows is by how many large steps the first congestion lowers the row.
const backRows = 3

// NewSearch returns the search that a requests, up to row last.
func NewSearch(a Activation, last int) *Search {
	s := &Search{of: a, last: last, retryAt: firstRetry}
	if a.Index != Searched {
		s.row = min(int(a.Index), last)
	}
	return s
}

// Row returns the current row.
func (s *Search) Row() int { return s.row }

// Next returns the row after a status.
func (s *Search) Next(f Status) int {
	if s.of.Index != Searched && !s.of.Start {
		return s.row
	}
	errors := int64(f.Lost)
	if !s.of.IgnoreOrder {
		errors += int64(f.Reordered) + int64(f.Twice)
	}
	delay := s.of.Low.Milliseconds() // without a sample the row stays
	switch {
	case s.of.OneWay && f.Delays.Count > 0:
		delay = int64((float64(f.Delays.Sum)/float64(f.Delays.Count) + 0.5))
	case !s.of.OneWay && f.RTTVariation != None:
		delay = int64(f.RTTVariation)
	}
	many := errors > int64(s.of.ErrorLimit)
	switch {
	case !many && delay < s.of.Low.Milliseconds():
		s.good()
	case many || delay > s.of.Upper.Milliseconds():
		s.bad()
	}
	return s.row
}

// fast reports whether the search climbs in large steps.
func (s *Search) fast() bool { return s.row < HighSpeed && s.slow < int(s.of.SlowLimit) }

func (s *Search) good() {
	if !s.fast() {
		if s.row < s.last {
			s.row++
			s.waited(true)
		}
		return
	}
	if s.slow = 0; s.of.Algorithm == AlgorithmB {
		s.row = min(s.row+int(s.of.Delta), HighSpeed, s.last)
		return
	}
	switch {
	case 2*s.row > HighSpeed:
		s.row = HighSpeed
	default:
		s.row = max(s.row, 1)
		if s.doubles {
			s.row *= 2
		}
		s.doubles = !s.doubles
	}
	s.row = min(s.row, s.last)
}

func (s *Search) bad() {
	s.slow++
	if s.row < HighSpeed && s.slow == int(s.of.SlowLimit) {
		s.row = max(s.row-backRows*int(s.of.Delta), 0)
		return
	}
	if s.row > 0 {
		s.row--
		s.waited(false)
	}
}

// waited counts a slow step of algorithm C, and restarts the fast climb after enough of them.
func (s *Search) waited(up bool) {
	if s.of.Algorithm != AlgorithmC {
		return
	}
	if s.waits++; s.waits < s.retryAt {
		return
	}
	s.slow, s.waits = 0, 0
	if up {
		s.retryAt += firstRetry
	}
}
