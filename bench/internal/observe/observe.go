// Package observe records datagrams as they arrive at an interface, independently of the
// programs that send and receive them, so that all programs are judged alike.
package observe

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"
)

// Report describes the arrivals.
type Report struct {
	Packets int     `json:"packets"` // within the window
	Rate    float64 `json:"rate"`    // bit/s of payload over the window
	// Gaps between packets within the window.
	P50 time.Duration `json:"p50_ns"`
	P99 time.Duration `json:"p99_ns"`
	Max time.Duration `json:"max_ns"`
	// Missed is how many packets the observer missed for lack of room: if above 0 the rest is
	// invalid.
	Missed int `json:"missed"`
}

// frameHeaders is the size of the headers of Ethernet, IPv4 without options, and UDP, in bytes.
const frameHeaders = 14 + 20 + 8

// options are the command line.
type options struct {
	device string
	size   int           // payload of the datagrams to count
	margin time.Duration // left out at both ends
	most   int           // packets to keep
}

// Arguments returns the argument vector of an observer run by the program self: it counts at
// most most datagrams with size bytes of payload, except those in the first and the last
// margin.
func Arguments(self, device string, size int, margin time.Duration, most int) []string {
	return []string{
		self, "observe", "-device", device, "-size", fmt.Sprint(size), "-margin", margin.String(), "-most", fmt.Sprint(most),
	}
}

// Run observes until in ends, and writes a Report to out as JSON. When it is ready it writes a
// line. The error wraps errors.ErrUnsupported on systems other than Linux.
func Run(_ context.Context, args []string, in io.Reader, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("observe", flag.ContinueOnError)
	flags.StringVar(&o.device, "device", "", "interface")
	flags.IntVar(&o.size, "size", 0, "bytes of payload")
	flags.DurationVar(&o.margin, "margin", 0, "left out at both ends")
	flags.IntVar(&o.most, "most", 1<<20, "packets that are kept")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.size < 1 || o.most < 1 {
		return fmt.Errorf("%d packets of %d bytes: not positive", o.most, o.size)
	}
	r, err := open(o)
	if err != nil {
		return fmt.Errorf("observe %s: %w", o.device, err)
	}
	defer r.close()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		// The end of input stops it, with or without an error.
		_, _ = io.Copy(io.Discard, in)
	}()
	times, missed, err := r.collect(ended)
	if err != nil {
		return fmt.Errorf("observe %s: %w", o.device, err)
	}
	report, err := Analyse(times, o.size, o.margin)
	if err != nil {
		return fmt.Errorf("observe %s: %w", o.device, err)
	}
	report.Missed = missed
	return json.NewEncoder(out).Encode(report)
}

// Analyse evaluates the arrival times, in ns of any clock, of packets of size bytes of payload;
// it sorts them. Those within margin of the first and of the last one do not count. Fewer than
// two remaining are an error.
func Analyse(times []int64, size int, margin time.Duration) (Report, error) {
	slices.Sort(times)
	if len(times) > 0 {
		low, _ := slices.BinarySearch(times, times[0]+int64(margin))
		high, _ := slices.BinarySearch(times, times[len(times)-1]-int64(margin)+1)
		times = times[low:max(low, high)]
	}
	if len(times) < 2 || times[len(times)-1] == times[0] {
		return Report{}, errors.New("too few packets were seen")
	}
	gaps := make([]int64, len(times)-1)
	for i := range gaps {
		gaps[i] = times[i+1] - times[i]
	}
	slices.Sort(gaps)
	// The quantile at rank ⌈q n⌉, as in package hist.
	at := func(percent int) time.Duration { return time.Duration(gaps[(len(gaps)*percent+99)/100-1]) }
	window := float64(times[len(times)-1]-times[0]) / 1e9
	return Report{
		Packets: len(times), Rate: float64(len(gaps)*size) * 8 / window,
		P50: at(50), P99: at(99), Max: at(100),
	}, nil
}

// trains returns how many datagrams of size bytes a frame of length bytes holds: more than one
// if the sender's kernel has not cut them yet; 0 for another frame.
func trains(length, size int) int {
	payload := length - frameHeaders
	if payload < size || payload%size != 0 {
		return 0
	}
	return payload / size
}
