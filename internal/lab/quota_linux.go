package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"linerate/internal/core/model"
	"linerate/internal/core/units"
	"linerate/internal/fault"
)

// controlGroups is the usual mount point of control groups (cgroups(7)).
const controlGroups = "/sys/fs/cgroup"

// groupPrefix begins the names of the labs' control groups; the id of the creating process
// follows.
const groupPrefix = "linerate-lab-"

// quotaPeriod is the kernel's default period of a quota, in microseconds (Linux
// Documentation/scheduler/sched-bwc.rst, admin-guide/cgroup-v2.rst cpu.max).
const quotaPeriod = 100_000

// groups are the control groups of hosts, by their folders.
type groups map[model.Host]string

// newGroups creates a control group below root for each host with a quota.
func newGroups(root string, s Spec) (groups, error) {
	g := groups{}
	for host, quota := range map[model.Host]units.Percent{model.Near: s.QuotaNear, model.Far: s.QuotaFar} {
		if quota == 0 {
			continue
		}
		if err := g.add(root, host, quota); err != nil {
			return nil, errors.Join(fault.New(fault.Unsupported, fmt.Errorf("%s: no control group with a CPU quota can be made here: %w", host.Of(quotaKey), err),
				"run it as root, where the cpu controller is mounted (version 1), or stands in cgroup.subtree_control below %s (version 2)", controlGroups), g.remove())
		}
	}
	return g, nil
}

func (g groups) add(root string, host model.Host, quota units.Percent) error {
	parent, unified, err := groupParent(root)
	if err != nil {
		return err
	}
	sweepGroups(parent)
	dir, err := os.MkdirTemp(parent, fmt.Sprintf("%s%d-%s-", groupPrefix, os.Getpid(), host))
	if err != nil {
		return err
	}
	g[host] = dir
	share := strconv.Itoa(int(quota / 100 * quotaPeriod))
	if unified {
		return os.WriteFile(filepath.Join(dir, "cpu.max"), fmt.Appendf(nil, "%s %d", share, quotaPeriod), 0o644)
	}
	return errors.Join(os.WriteFile(filepath.Join(dir, "cpu.cfs_period_us"), []byte(strconv.Itoa(quotaPeriod)), 0o644),
		os.WriteFile(filepath.Join(dir, "cpu.cfs_quota_us"), []byte(share), 0o644))
}

// groupParent returns the folder in which a group of this process may have a quota: its own
// group in version 1, or in version 2 the innermost group around it that passes the controller
// to its children. Limits of this process also apply to the hosts.
func groupParent(root string) (dir string, unified bool, err error) {
	text, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return "", false, err
	}
	for l := range strings.Lines(string(text)) { // "1:cpu,cpuacct:/a", "0::/a"
		_, rest, _ := strings.Cut(strings.TrimSpace(l), ":")
		controllers, at, _ := strings.Cut(rest, ":")
		switch {
		case slices.Contains(strings.Split(controllers, ","), "cpu"):
			return filepath.Join(root, controlGroups, controllers, at), false, nil
		case controllers != "":
			continue
		}
		for _, mount := range []string{controlGroups, filepath.Join(controlGroups, "unified")} {
			for dir := filepath.Clean("/" + at); ; dir = filepath.Dir(dir) {
				given, _ := os.ReadFile(filepath.Join(root, mount, dir, "cgroup.subtree_control")) // a missing mount provides nothing
				if slices.Contains(strings.Fields(string(given)), "cpu") {
					return filepath.Join(root, mount, dir), true, nil
				}
				if dir == "/" {
					break
				}
			}
		}
	}
	return "", false, errors.ErrUnsupported
}

// sweepGroups removes the groups of labs whose process was killed.
func sweepGroups(parent string) {
	folders, _ := filepath.Glob(filepath.Join(parent, groupPrefix+"*-*"))
	for _, dir := range folders {
		pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), groupPrefix), "-")
		if _, err := os.Stat(filepath.Join("/proc", pid)); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(dir) // the kernel refuses while it is in use
		}
	}
}

// join moves this process, and so its children, into the group of host.
func (g groups) join(host model.Host) error {
	if g[host] == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(g[host], "cgroup.procs"), []byte("0"), 0o644)
}

// remove removes the groups, whose processes must have ended.
func (g groups) remove() error {
	var errs []error
	for _, dir := range g {
		err := os.Remove(dir)
		for until := time.Now().Add(time.Second); errors.Is(err, unix.EBUSY) && time.Now().Before(until); err = os.Remove(dir) {
			<-time.After(10 * time.Millisecond) // the kernel releases a process a moment after its end
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
