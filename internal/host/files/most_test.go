package files_test

import (
	"context"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/must"
)

// broken is a format whose program refuses the owner's files, whatever is asked for.
type broken struct{ files.Format }

func (broken) Plan(context.Context, files.Host, files.Request) (files.Draft, error) {
	return files.Draft{}, files.Refuse(model.FileLine{File: "/etc/a", Number: 3}, "mend it", "it is broken")
}

// TestAllRefused: where the owner's files are broken, each setting is left out with the reason.
func TestAllRefused(t *testing.T) {
	r := files.Request{Link: "eth0", Settings: []files.Setting{{Knob: "link.mtu", Value: "9000"}, {Knob: "nic.ring.tx", Value: "512"}}}
	p, err := files.ProposeMost(t.Context(), broken{}, files.Host{}, r)
	must.OK(t, err)
	must.True(t, len(p.Omitted) == 2 && len(p.Files) == 0, "%+v", p)
	for _, o := range p.Omitted {
		must.Contain(t, o.Reason, "it is broken")
	}
}
