package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"linerate/internal/control/session"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/files/device"
	"linerate/internal/host/files/sysctl"
	"linerate/internal/host/persist"
	"linerate/internal/host/persist/native"
)

// keepPlan is what a Keep would write.
type keepPlan struct {
	files  []files.File
	proven []proven
}

// proven is the proposal of one format.
type proven struct {
	format   files.Format
	proposal files.Proposal
}

// host returns the current state of the machine whose files the keeper writes.
func (f *Files) host(ctx context.Context, keeper persist.Keeper) files.Host {
	h := files.Host{Root: os.DirFS(cmp.Or(keeper.Root, "/")), System: f.System, Ask: f.Ask, Edited: keeper.Edited}
	if f.System == "linux" {
		h.Devices = device.All(h.Tree())
		for i, d := range h.Devices {
			if !d.Hardware {
				continue
			}
			text, known := f.Texts(ctx, d.Name, []model.KnobID{"nic.wol"})["wol.modes"]
			if known {
				h.Devices[i].WakeOnLAN, _ = device.WakeOnLAN(text)
			}
		}
	}
	return h
}

// propose plans the files and proves what they change. It refuses values that conflict with
// the host's current ones. It omits settings whose files cannot be proven, and names the file
// and line in the way.
func (f *Files) propose(ctx context.Context, keeper persist.Keeper, k session.Keep, settings []model.Assignment, comments []string, out *session.Keeping) (keepPlan, error) {
	var plan keepPlan
	var err error
	if out.Format, out.Reason, err = f.format(ctx, k, settings, out); err != nil {
		return plan, err
	}
	ids := lists.Each(f.Catalogue.All(), func(c knob.Knob) model.KnobID { return c.ID })
	in := native.Input{Catalogue: f.Catalogue, Settings: settings, Comments: comments, Before: f.Texts(ctx, k.Link, ids), Interface: k.Link}
	apart := map[string]string{}
	if f.System == "linux" {
		o, err := sysctl.Format{}.Outcome(ctx, f.host(ctx, keeper))
		if err != nil {
			return plan, err
		}
		apart = f.asFilesSay(in.Before, o, settings)
	}
	if f.MAC != nil && k.Link != "" {
		in.MAC = f.MAC(k.Link)
	}
	request, r, err := native.Request(f.System, in)
	if err != nil {
		return plan, invalid(err)
	}
	out.Commands, out.Omitted, out.Notes = r.Commands, r.Omitted, append(out.Notes, r.Notes...)
	for _, s := range request.Settings {
		if note, ok := apart[s.Name]; ok && s.Text != "" {
			out.Notes = append(out.Notes, note)
		}
	}
	for _, format := range native.Formats(out.Format) {
		p, err := files.ProposeMost(ctx, format, f.host(ctx, keeper), request)
		if err != nil {
			return plan, err
		}
		plan.files = append(plan.files, p.Files...)
		if len(p.Files) > 0 {
			plan.proven = append(plan.proven, proven{format, p})
			out.Notes = append(out.Notes, "what holds after the next start follows from the "+p.Judge)
		}
		out.Commands, out.Omitted, out.Notes = append(out.Commands, p.Commands...), append(out.Omitted, p.Omitted...), append(out.Notes, p.Notes...)
	}
	if out.Format == model.FormatLinuxSysctl {
		f.ownerless(request, out)
	}
	return plan, nil
}

// asFilesSay handles texts of three numbers, such as tcp_rmem. It replaces the numbers that are
// not kept by those that files set at the next start, so that only kept numbers change. Where
// these differ from the running ones it returns a note, by the name of the text.
func (f *Files) asFilesSay(texts map[string]string, o files.Outcome, settings []model.Assignment) map[string]string {
	kept := map[string][]int{}
	for _, s := range settings {
		c, _ := f.Catalogue.ByID(s.Knob)
		n := c.Native[f.System]
		kept[n.Name] = append(kept[n.Name], slices.Index([]knob.Encoding{knob.Least, knob.Initial, knob.Ceiling}, n.Encoding))
	}
	notes := map[string]string{}
	for name := range texts {
		l := o.Values[files.SysctlKey(name)]
		now, then := strings.Fields(texts[name]), strings.Fields(l.Text)
		if len(then) != 3 || len(now) != 3 {
			continue
		}
		for i := range then {
			if slices.Contains(kept[name], i) {
				then[i] = now[i]
			}
		}
		if !slices.Equal(now, then) {
			texts[name] = strings.Join(then, " ")
			notes[name] = fmt.Sprintf("%s: the other numbers of this line are those of %s:%d (%s), and not those that run now (%s)", name, l.File, l.Number, l.Text, strings.Join(now, " "))
		}
	}
	return notes
}

// ownerless omits settings of links if the owner of the link is unknown.
func (f *Files) ownerless(request files.Request, out *session.Keeping) {
	for _, s := range request.Settings {
		if s.Text == "" {
			out.Omitted = append(out.Omitted, model.Omission{Knob: s.Knob, Value: s.Value,
				Reason: "not a sysctl: the owner of the interface keeps it (systemd-networkd, netplan, networkmanager, ifupdown)"})
		}
	}
}

// invalid marks errors in the controller's request.
func invalid(err error) error {
	if errors.Is(err, knob.ErrConstraint) || errors.Is(err, native.ErrInput) {
		return fmt.Errorf("%w: %w", session.ErrInvalid, err)
	}
	return err
}

// check compares the meaning of the files on disk with the proposal. If they differ, it
// restores the files of record.
func (f *Files) check(ctx context.Context, keeper persist.Keeper, p keepPlan, record string) error {
	for _, one := range p.proven {
		err := files.Check(ctx, one.format, f.host(ctx, keeper), one.proposal)
		if err == nil {
			continue
		}
		err = fmt.Errorf("%w: the files would not do what was shown: %w", session.ErrState, err)
		if record != "" {
			_, back := keeper.Restore(record)
			err = errors.Join(err, back)
		}
		return err
	}
	return nil
}

// notProven refuses to write files on macOS: launchd(8) does not define in which order daemons
// that set the same value run, and scripts that they run cannot be parsed.
func notProven() error {
	return fmt.Errorf("what macOS will do with a launch daemon beside its others after the next start cannot be proven: linerate export --for macos writes one to put in place by hand: %w", errors.ErrUnsupported)
}

// reads returns an error if the owner of the link does not read k.Format. udev reads the .link
// files of systemd for every owner, and a link without one uses that format too.
func (f *Files) reads(ctx context.Context, k session.Keep) error {
	if f.System != "linux" || k.Link == "" || f.Owner == nil {
		return nil
	}
	anyway := []model.FileFormat{k.Format, model.FormatSystemdNetworkd, model.FormatLinuxSysctl}
	owner, reason, err := f.Owner(ctx, k.Link)
	if err != nil || slices.Contains(anyway, owner) || slices.Contains(anyway[1:], k.Format) {
		return nil
	}
	return fmt.Errorf("files of %s do not reach %s: %s; leave the format out, and they are those of %s", k.Format, k.Link, reason, owner)
}

// format returns the format that the controller names, or for settings of a link the format of
// its owner.
func (f *Files) format(ctx context.Context, k session.Keep, settings []model.Assignment, out *session.Keeping) (model.FileFormat, string, error) {
	if k.Format != "" {
		if k.Format == model.FormatMacOS && f.System == "darwin" {
			return "", "", notProven()
		}
		if !slices.Contains(model.FileFormats(), k.Format) || k.Format.System() != f.System || f.System == "windows" {
			return "", "", fmt.Errorf("%w: %s is no format of files that %s reads by itself", session.ErrInvalid, k.Format, f.System)
		}
		return k.Format, "asked for", f.reads(ctx, k)
	}
	switch f.System {
	case "linux":
	case "freebsd":
		return model.FormatFreeBSD, "", nil
	case "darwin":
		return "", "", notProven()
	default:
		return "", "", fmt.Errorf("%s keeps what is set over a restart by itself: there is no file to write: %w", f.System, errors.ErrUnsupported)
	}
	link := slices.ContainsFunc(settings, func(s model.Assignment) bool {
		c, _ := f.Catalogue.ByID(s.Knob)
		return c.Native[f.System].Mechanism != knob.Sysctl
	})
	switch {
	case !link:
		return model.FormatLinuxSysctl, "", nil
	case k.Link == "" || f.Owner == nil:
		return model.FormatLinuxSysctl, "", nil // its proposal reports the missing interface
	}
	owner, reason, err := f.Owner(ctx, k.Link)
	if errors.Is(err, errors.ErrUnsupported) {
		out.Notes = append(out.Notes, fmt.Sprintf("settings of %s: %v", k.Link, err))
		return model.FormatLinuxSysctl, "", nil
	}
	return owner, reason, err
}
