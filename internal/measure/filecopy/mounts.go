package filecopy

import (
	"strconv"
	"strings"
)

// mount is one line of /proc/self/mountinfo, proc_pid_mountinfo(5).
type mount struct {
	point, kind, source string
}

// parseMounts returns the mounts of a mountinfo, in their order. It skips lines that it cannot
// parse. Input looks like this:
//
//	36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
//	50 29 0:45 / /mnt/with\040space rw shared:7 - nfs4 nas:/export rw,vers=4.2
func parseMounts(text string) []mount {
	var out []mount
	for line := range strings.Lines(text) {
		head, tail, found := strings.Cut(line, " - ")
		before, after := strings.Fields(head), strings.Fields(tail)
		if !found || len(before) < 6 || len(after) < 2 {
			continue
		}
		out = append(out, mount{point: unescape(before[4]), kind: unescape(after[0]), source: unescape(after[1])})
	}
	return out
}

// unescape replaces \040 and the like by the character with that octal number.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountOf returns the mount of an absolute path: the one with the longest mount point above it,
// the last of those with the same mount point.
func mountOf(all []mount, path string) (mount, bool) {
	var best mount
	found := false
	for _, m := range all {
		inside := m.point == "/" || path == m.point || strings.HasPrefix(path, m.point+"/")
		if inside && (!found || len(m.point) >= len(best.point)) {
			best, found = m, true
		}
	}
	return best, found
}
