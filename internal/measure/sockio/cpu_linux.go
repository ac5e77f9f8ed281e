package sockio

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func threadCPU() (CPUTime, error) { return usage("thread", unix.RUSAGE_THREAD) }

const statPath = "/proc/stat"

func systemCPU() (time.Duration, error) {
	b, err := os.ReadFile(statPath)
	if err != nil {
		return 0, fmt.Errorf("read busy time of the machine: %w", err)
	}
	busy, err := parseStat(b)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", statPath, err)
	}
	return busy, nil
}

// tick is the unit of /proc/stat: 1/USER_HZ, which is 1/100 s on every architecture that Go
// supports (include/uapi/asm-generic/param.h).
const tick = 10 * time.Millisecond

// parseStat returns the busy time in the first line of /proc/stat, proc_stat(5):
//
//	cpu  3357 0 4313 1362393 120 0 88 0 0 0
//	cpu0 1393 0 2216 681198 60 0 40 0 0 0
//
// The columns are user, nice, system, idle, iowait, irq, softirq, steal, guest
// and guest_nice. The guest columns are contained in user and nice. Kernels
// before 2.6.0 end after idle.
func parseStat(b []byte) (time.Duration, error) {
	line, _, _ := bytes.Cut(b, []byte("\n"))
	f := bytes.Fields(line)
	if len(f) < 5 || string(f[0]) != "cpu" {
		return 0, errors.New("first line is not the sum over all cpus")
	}
	var busy time.Duration
	for _, column := range []int{1, 2, 3, 6, 7} {
		if column >= len(f) {
			break
		}
		n, err := strconv.ParseInt(string(f[column]), 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("column %d: %q is not a number of ticks", column, f[column])
		}
		busy += time.Duration(n) * tick
	}
	return busy, nil
}
