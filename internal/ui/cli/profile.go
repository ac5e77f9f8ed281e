package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"linerate/internal/app/keep"
	"linerate/internal/core/profile"
	"linerate/internal/core/yamlshape"
	"linerate/internal/fault"
	"linerate/internal/ui/config"
)

func (a *console) profileCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "profile", Short: "settings with their evidence, as a file that travels from host to host",
		Long: `A profile is a small YAML file: settings for the hosts of a pair, where they were
tried, and the verdicts on them. It is made of a stored session, read by people,
compared with a host, set there under a deadline, and turned into that host's own
files by linerate export.`,
		Example: "  linerate profile save last tall.yaml\n  linerate profile show tall.yaml\n  linerate profile diff tall.yaml\n  linerate profile diff tall.yaml \"$NAS\"\n  linerate profile apply tall.yaml --both root@nas",
		Args:    knownCommand,
		RunE:    knownCommand,
	}
	c.AddCommand(a.profileSave(), a.profileShow(), a.profileDiff(), a.profileApply())
	return c
}

func (a *console) profileSave() *cobra.Command {
	var setting string
	c := &cobra.Command{
		Use: "save SESSION FILE", Short: "make a profile of a session's setting",
		Long: `save writes the setting of SESSION that a verdict calls better, and none worse, as
a profile. Where there are several, or none, name one with --setting. FILE must
not exist yet; - is stdout.`,
		Example: "  linerate profile save last tall.yaml\n  linerate profile save last - --setting 4MiB",
		Args:    exactArgs("a session's ID", "FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := a.profileOf(cmd.Context(), args[0], setting)
			if err != nil {
				return err
			}
			return a.saveProfile(p, args[1])
		},
	}
	c.Flags().StringVar(&setting, "setting", "", "name of the setting")
	return c
}

func (a *console) saveProfile(p profile.Profile, name string) error {
	text := p.Text(a.formatKnob)
	switch {
	case name != "-":
		if err := writeNew(name, text); err != nil {
			return err
		}
		a.talk("saved %s", name)
	case !a.json:
		_, err := a.Out.Write(text)
		return err
	}
	if a.json {
		return a.document("linerate/profile/v1", p)
	}
	return nil
}

// profileOf makes a profile of a stored session.
func (a *console) profileOf(ctx context.Context, ref, setting string) (profile.Profile, error) {
	st, s, err := a.openProof(ctx, ref)
	if err != nil {
		return profile.Profile{}, err
	}
	defer st.Close()
	setting, p, err := keep.Setting(a.world(), s, setting)
	if err != nil {
		return p, err
	}
	names, refused := profile.Candidates(s)
	switch {
	case slices.Contains(refused, setting):
		a.talk("warning: guards of the session speak against %q: %s", setting, keep.GuardLines(p.Evidence))
	case !slices.Contains(names, setting):
		a.talk("warning: no verdict of the session says that %q is better", setting)
	}
	if untrusted(s) {
		a.talk("warning: the session says that its verdicts must not be believed")
	}
	return p, nil
}

// writeNew writes a file, which must not exist.
func writeNew(name string, data []byte) error {
	f, err := newFile(name)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// newFile creates a file, which must not exist.
func newFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		err = fault.WithHint(err, "nothing was written: choose another name, or move that file away")
	}
	return f, err
}

// readText reads a plan or a profile: at most one byte more than such a file may have, which its
// parser then refuses. It may be a pipe.
func readText(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, fault.WithKind(fault.Usage, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fault.WithKind(fault.Usage, fmt.Errorf("%s is a directory", name))
	}
	return io.ReadAll(io.LimitReader(f, yamlshape.MaxBytes+1))
}

// readProfile reads a profile file.
func (a *console) readProfile(name string) (profile.Profile, error) {
	data, err := readText(name)
	if err != nil {
		return profile.Profile{}, err
	}
	return config.ParseProfile(name, data, knobChecker{Index: a.knobs})
}

func (a *console) profileShow() *cobra.Command {
	return &cobra.Command{
		Use: "show FILE", Short: "what a profile says", Args: exactArgs("FILE"),
		Example: "  linerate profile show tall.yaml\n  linerate profile show tall.yaml --json",
		RunE: func(_ *cobra.Command, args []string) error {
			p, err := a.readProfile(args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.document("linerate/profile/v1", p)
			}
			return a.showProfile(p)
		},
	}
}

func (a *console) showProfile(p profile.Profile) error {
	page := a.page()
	if p.Title != "" {
		page.Text("%s", p.Title)
	}
	for _, h := range p.Hosts {
		page.Text("%s", h.Title())
		var rows [][]string
		for _, s := range h.Settings {
			k, _ := a.knobs.ByID(s.Knob)
			rows = append(rows, []string{string(s.Knob), a.formatKnob(s.Knob, s.Value), k.Summary})
		}
		page.Table(nil, rows, nil)
	}
	for _, l := range p.Evidence.Lines() {
		page.Text("%s", l)
	}
	return page.Print(a.Out)
}

// roleFlag adds the flag that selects a host of a profile.
func roleFlag(c *cobra.Command, role *string) {
	c.Flags().StringVar(role, "role", "", "whose settings: near, far, sender or receiver; those for either end come with it")
}
