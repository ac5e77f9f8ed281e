package machine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
)

// preloaded matches the kernel's line about its root:
//
//	md0: Preloaded image </mfsroot> 130015232 bytes at 0xffffffff81000000
var preloaded = regexp.MustCompile(`md0: Preloaded image <\S+> (\d+) bytes at 0x([0-9a-f]+)`)

// kernelBase is the start of the kernel's addresses: KERNBASE of sys/amd64/include/vmparam.h.
const kernelBase = 0xffffffff80000000

// resetRoot resets a machine whose root is an image in its memory, md(4): md0 writes at once,
// so that the image is what a disk would hold at that moment, without anything that the kernel
// only caches. It is saved from the memory of the paused machine, which then restarts with it.
func (m *Machine) resetRoot(ctx context.Context) error {
	all := preloaded.FindAllStringSubmatch(m.Console(), -1)
	if all == nil || len(m.cfg.Initrd) != 2 {
		return errors.New("the kernel never said where its root is")
	}
	found := all[len(all)-1]
	size, err := strconv.ParseUint(found[1], 10, 64)
	if err != nil {
		return err
	}
	at, err := strconv.ParseUint(found[2], 16, 64)
	if err != nil || at < kernelBase {
		return fmt.Errorf("the root is at %s: %w", found[2], err)
	}
	image, err := filepath.Abs(m.cfg.Initrd[1])
	if err != nil {
		return err
	}
	if err := m.monitor.do(ctx, "stop", nil); err != nil {
		return err
	}
	if err := m.monitor.do(ctx, "pmemsave", map[string]any{"val": at - kernelBase, "size": size, "filename": image + ".saved"}); err != nil {
		return err
	}
	if err := os.Rename(image+".saved", image); err != nil {
		return err
	}
	return m.restart()
}
