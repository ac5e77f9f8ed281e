package knob

import (
	"context"
	"errors"
	"fmt"

	"linerate/internal/core/knob"
	"linerate/internal/host/knob/sysctl"
)

// elsewhere returns an error if the driver of the interface keeps a pause setting elsewhere:
// Intel drivers use dev.em.0.fc (em_set_flowcntl, sys/dev/e1000/if_em.c of 12.1: 0 off, 1
// received, 2 sent, 3 both), initially 3, and offer no medium with rxpause or txpause. Their
// media word, which has neither, would read as off.
func (h Host) elsewhere(n knob.Native) error {
	if n.Encoding != knob.MediaRxPause && n.Encoding != knob.MediaTxPause {
		return nil
	}
	name := h.Expand("dev.{dev}.fc")
	key, err := sysctl.Open(h.ProcSys, name)
	if err == nil {
		_, err = key.Read(context.Background())
	}
	if err != nil {
		return nil //nolint:nilerr // the driver's media words have it
	}
	return knob.Because(knob.NotByLinerate, fmt.Errorf("the driver of %s keeps it in %s (0 off, 1 received, 2 sent, 3 both), which linerate does not set: %w",
		h.Interface, name, errors.ErrUnsupported))
}
