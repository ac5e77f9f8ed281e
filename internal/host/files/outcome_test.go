package files_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/must"
)

// outcome returns an outcome of "KEY=VALUE" texts, each on a line of its own.
func outcome(all ...string) files.Outcome {
	var o files.Outcome
	for i, text := range all {
		key, value, _ := strings.Cut(text, "=")
		o.Set(key, model.FileLine{File: "/etc/some", Number: i + 1, Text: value})
	}
	return o
}

func TestProve(t *testing.T) {
	before := outcome("link/e1/address/192.0.2.1=yes", "link/e1/link.mtu=1500", "link/e2/link.mtu=1400")
	for name, c := range map[string]struct {
		after files.Outcome
		line  int    // of the refusal; 0: proven
		says  string // part of it
	}{
		"only the wanted": {after: outcome("link/e1/address/192.0.2.1=yes", "link/e1/link.mtu=9000", "link/e2/link.mtu=1400")},
		"without effect":  {before, 2, "would be 1500 after the next start, not 9000"},
		"an address goes": {outcome("x=", "link/e1/link.mtu=9000", "link/e2/link.mtu=1400"), 1, "would no longer hold"},
		"another device":  {outcome("link/e1/address/192.0.2.1=yes", "link/e1/link.mtu=9000", "link/e2/link.mtu=9000"), 3, "would become 9000 after the next start; it is 1400"},
		"something new":   {outcome("link/e1/address/192.0.2.1=yes", "link/e1/link.mtu=9000", "link/e2/link.mtu=1400", "link/e1/name=eth0"), 4, "not set today"},
		"nothing at all":  {files.Outcome{}, 1, "would no longer hold"},
	} {
		t.Run(name, func(t *testing.T) {
			err := files.Prove(before, c.after, map[string]string{"link/e1/link.mtu": "9000"})
			var refusal *files.Refusal
			must.True(t, errors.As(err, &refusal) == (c.line > 0) && (c.line <= 0 || refusal.Line == c.line && strings.Contains(refusal.Why, c.says)), "%v", err)
		})
	}
	must.OK(t, files.Prove(before, before, nil))
}

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
