package judge

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"linerate/internal/core/model"
)

// The bars.
const (
	barFirst       = 0.97
	barFalse       = 0.01
	barCalibration = 0.03
	barBeside      = 0.90
	barSeconds     = 90
	// mostLate is the share of the time that the machine may be late before a case is set
	// apart.
	mostLate = 0.10
)

// Sums are the scores of many rows.
type Sums struct {
	Planted, First, All     int // cases with a plant that bit; right ones of them
	Clean, FalsePaths, Full int // clean paths; with a false claim; reported as full
	NotBit, Failed, Busy    int
	Claims                  int
	Beside, BesideRight     int     // findings beside the first one
	Error                   float64 // expected calibration error
	Bins                    []Bin
	Longest                 float64 // seconds
}

// Bin is one range of confidence.
type Bin struct {
	Low, High float64
	Said      int
	Right     int
	Mean      float64 // of the confidence
}

// Add sums up rows. Failed rows count as wrong; rows during which the machine was late are
// counted, and set apart.
func Add(rows []Row) Sums {
	s := Sums{Bins: []Bin{{High: 0.6}, {Low: 0.6, High: 0.7}, {Low: 0.7, High: 0.8}, {Low: 0.8, High: 0.9}, {Low: 0.9, High: 0.95}, {Low: 0.95, High: 1.01}}}
	for _, r := range rows {
		s.Longest = max(s.Longest, r.Seconds)
		if r.Late > mostLate {
			s.Busy++
			continue
		}
		s.row(r)
		for _, said := range r.Said {
			if said.Kind == model.FindingBeside {
				s.Beside++
				if said.Right {
					s.BesideRight++
				}
			}
			if said.claims() && said.Confidence > 0 {
				s.claim(said)
			}
		}
	}
	for i := range s.Bins {
		b := &s.Bins[i]
		if b.Said > 0 {
			b.Mean /= float64(b.Said)
			s.Error += float64(b.Said) / float64(s.Claims) * math.Abs(b.share()-b.Mean)
		}
	}
	return s
}

func (s *Sums) row(r Row) {
	switch {
	case r.Failed != "":
		s.Failed++
		if r.Clean {
			s.Clean++
		} else {
			s.Planted++
		}
	case r.Clean:
		s.Clean++
		if r.False > 0 {
			s.FalsePaths++
		}
		if r.First {
			s.Full++
		}
	case !r.Bit:
		s.NotBit++
	default:
		s.Planted++
		if r.First {
			s.First++
		}
		if r.All {
			s.All++
		}
	}
}

func (s *Sums) claim(said Said) {
	for i := range s.Bins {
		if b := &s.Bins[i]; said.Confidence >= b.Low && said.Confidence < b.High {
			s.Claims++
			b.Said++
			b.Mean += said.Confidence
			if said.Right {
				b.Right++
			}
		}
	}
}

func (b Bin) share() float64 { return ratio(b.Right, b.Said) }

func ratio(n, of int) float64 {
	if of == 0 {
		return math.NaN()
	}
	return float64(n) / float64(of)
}

// percent returns a share with the 95 % interval of Wilson (1927), which is valid for small
// numbers.
func percent(n, of int) string {
	if of == 0 {
		return "none"
	}
	const z = 1.96
	p, m := ratio(n, of), float64(of)
	middle := (p + z*z/2/m) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/4/m/m)
	return fmt.Sprintf("%d of %d, %.1f %% (95 %%: %.0f to %.0f)", n, of, 100*p, 100*max(0, middle-half), 100*min(1, middle+half))
}

// Table returns the section of the results.
func (o Options) Table(rows []Row, note string) string {
	if o.ofRouters() {
		return placesTable(rows, note)
	}
	return Markdown(rows, note)
}

// Markdown returns the section for limits.
func Markdown(rows []Row, note string) string {
	s := Add(rows)
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n", note)
	b.WriteString("| score | bar | result |\n|---|---|---|\n")
	fmt.Fprintf(&b, "| first finding right, of planted cases that bit | ≥ %.0f %% | %s |\n", 100*barFirst, percent(s.First, s.Planted))
	fmt.Fprintf(&b, "| all findings right, of the same | | %s |\n", percent(s.All, s.Planted))
	fmt.Fprintf(&b, "| findings beside the first one right | ≥ %.0f %% | %s |\n", 100*barBeside, percent(s.BesideRight, s.Beside))
	fmt.Fprintf(&b, "| clean paths with a false finding | ≤ %.0f %% | %s |\n", 100*barFalse, percent(s.FalsePaths, s.Clean))
	fmt.Fprintf(&b, "| clean paths called full in each direction | | %s |\n", percent(s.Full, s.Clean))
	fmt.Fprintf(&b, "| expected calibration error, %d claims | ≤ %.0f points | %.1f points |\n", s.Claims, 100*barCalibration, 100*s.Error)
	fmt.Fprintf(&b, "| longest case | ≤ %d s | %.0f s |\n\n", barSeconds, s.Longest)
	fmt.Fprintf(&b, "%d cases: %d whose plant did not bite are in no share above, and neither are %d during which the machine was late for more than %.0f %% of the time; %d without an answer count as wrong.\n\n", len(rows), s.NotBit, s.Busy, 100*mostLate, s.Failed)
	b.WriteString("| confidence said | claims | right | share right |\n|---|---|---|---|\n")
	for _, bin := range s.Bins {
		if bin.Said > 0 {
			fmt.Fprintf(&b, "| %.0f to %.0f %%, mean %.0f | %d | %d | %.0f %% |\n", 100*bin.Low, 100*min(1, bin.High), 100*bin.Mean, bin.Said, bin.Right, 100*bin.share())
		}
	}
	b.WriteString("\n")
	confusion(&b, rows)
	return b.String()
}

// confusion writes the first findings that each kind got, right ones first.
func confusion(b *strings.Builder, rows []Row) {
	type line struct {
		cases, right int
		busy         int
		seconds      float64
		first        map[string]int
	}
	kinds := map[string]*line{}
	for _, r := range rows {
		k := kinds[r.Kind]
		if k == nil {
			k = &line{first: map[string]int{}}
			kinds[r.Kind] = k
		}
		k.cases++
		k.seconds += r.Seconds
		if r.Late > mostLate {
			k.busy++
			continue
		}
		if r.First && r.Failed == "" {
			k.right++
		}
		k.first[r.answer()]++
	}
	names := make([]string, 0, len(kinds))
	for n := range kinds {
		names = append(names, n)
	}
	slices.Sort(names)
	b.WriteString("| planted | cases | first right | first findings, near to far and back | mean time |\n|---|---|---|---|---|\n")
	for _, n := range names {
		k := kinds[n]
		var found []string
		for f, times := range k.first {
			found = append(found, fmt.Sprintf("%s ×%d", f, times))
		}
		slices.Sort(found)
		fmt.Fprintf(b, "| %s | %d | %d of %d | %s | %.0f s |\n", n, k.cases, k.right, k.cases-k.busy, strings.Join(found, "; "), k.seconds/float64(k.cases))
	}
}

// answer returns the first finding of each direction, with ✗ after a wrong one.
func (r Row) answer() string {
	if r.Failed != "" {
		return "no answer"
	}
	seen := map[string]bool{}
	var out []string
	for _, s := range r.Said {
		if d := string(s.Direction); !seen[d] {
			seen[d] = true
			text := s.Rule
			if s.Host != "" && s.Rule != "ceiling" {
				text += " " + string(s.Host)
			}
			if !s.Right {
				text += " ✗"
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, " / ")
}
