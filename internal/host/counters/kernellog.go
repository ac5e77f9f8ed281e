//go:build linux || freebsd

package counters

import "linerate/internal/host/kmsg"

// kernelLog is the log of the machine's kernel, if this user may read it.
type kernelLog struct {
	reader *kmsg.Reader // nil if not
	failed error        // the reason
	lines  logLines
}

func (k *kernelLog) open(device string) error {
	k.lines = logLines{device: device, count: map[id]uint64{}}
	k.reader, k.failed = kmsg.Open()
	return k.failed
}

// read counts the lines logged since the last call into v.
func (k *kernelLog) read(v *values) error {
	if k.reader == nil {
		return k.failed
	}
	if err := k.reader.Each(k.lines.add); err != nil {
		return err
	}
	k.lines.set(v)
	return nil
}

func (k *kernelLog) close() error {
	if k.reader == nil {
		return nil
	}
	return k.reader.Close()
}
