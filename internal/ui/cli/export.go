package cli

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"linerate/internal/app/change"
	"linerate/internal/app/keep"
	"linerate/internal/core/model"
	"linerate/internal/core/plain"
	"linerate/internal/core/profile"
	"linerate/internal/fault"
)

// exportFlags say what to export, and the properties of the host that the files need.
type exportFlags struct {
	format, setting, role, dir, archive string
	in                                  keep.Native
}

func (a *console) exportCommand() *cobra.Command {
	var f exportFlags
	c := &cobra.Command{
		Use: "export PROFILE|SESSION...", Short: "settings as the files of a system, to make them permanent; sessions as an archive",
		Long: `export prints the files in which a system keeps settings over a restart, exactly
as they belong there, with comments that say why. It changes nothing. Several
files are parted by lines with their paths; --output DIR writes them below DIR, and
--json gives them as a list. What the system cannot keep is said on stderr and in
a comment.

Formats (--for):
  linux-sysctl        /etc/sysctl.d/zz-linerate.conf: settings of the kernel only
  systemd-networkd    that, and a .link file for settings of the link
  netplan             that, and /etc/netplan/zz-linerate.yaml
  networkmanager      that, a default for the MTU, and commands for your own profile
  ifupdown            that, and /etc/network/interfaces.d/linerate
  freebsd             blocks of start_if.IF, sysctl.conf and loader.conf
  macos               a property list for launchd, and commands of networksetup
  windows-reg         a file for regedit, and its twin that goes back
  windows-powershell  a script of cmdlets
  ansible             tasks that put the files of the profile's system in place

Where several settings share one line of a file, the others of them are as they
were before the trial, or the kernel's default.

--archive FILE writes the sessions that are named, or all, into one new file, with
all their samples, which linerate import reads on another machine. Others may use
the results meanwhile: it is also how to keep a copy of them.`,
		Example: "  linerate export --for linux-sysctl tall.yaml\n  linerate export --for netplan last --interface eth0 --mac 02:00:00:00:00:01\n  linerate export --for freebsd tall.yaml --role receiver --output files\n  linerate export --archive results.linerate",
		Args: func(cmd *cobra.Command, args []string) error {
			if f.archive != "" && f.format+f.setting+f.role+f.dir != "" {
				return fault.Usagef("--archive stands without --for, --setting, --role and --output: it keeps sessions as they are")
			}
			if f.archive != "" {
				return nil
			}
			return exactArgs("a profile or a session's ID")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.archive != "" {
				return a.exportArchive(cmd.Context(), f.archive, args)
			}
			return a.export(cmd.Context(), args[0], f)
		},
	}
	c.Flags().StringVar(&f.format, "for", "", "format of the files: "+plain.Join(model.FileFormats(), ", "))
	c.Flags().StringVar(&f.setting, "setting", "", "of a session: name of the setting (default: the one that proved better)")
	roleFlag(c, &f.role)
	c.Flags().StringVar(&f.dir, "output", "", "write the files below this directory, which must not hold them yet")
	c.Flags().StringVar(&f.in.Interface, "interface", "", "interface that settings of a link are for")
	c.Flags().StringVar(&f.in.MAC, "mac", "", "its address, to find it by")
	c.Flags().StringVar(&f.in.AdapterKey, "adapter-key", "", "windows-reg: number of the adapter's registry key, such as 0007")
	c.Flags().StringVar(&f.archive, "archive", "", "write sessions with all their samples into this file, for linerate import; all of them unless some are named")
	c.Flags().BoolVar(&f.in.Anyway, "anyway", false, "also values that do not fit together; a comment says why they do not")
	return c
}

// exportDoc is linerate/export/v1.
type exportDoc struct {
	Format   model.FileFormat `json:"format"`
	Files    []exportFile     `json:"files"`
	Commands []string         `json:"commands"` // to run once, after the files are in place
	Omitted  []model.Omission `json:"omitted"`
	Notes    []string         `json:"notes"`
}

type exportFile struct {
	Path     string `json:"path"`
	Mode     string `json:"mode"` // octal
	Block    bool   `json:"block"`
	Encoding string `json:"encoding"` // of content: utf-8, or base64 if the file is not UTF-8 text
	Content  string `json:"content"`
}

func (a *console) export(ctx context.Context, source string, f exportFlags) error {
	format := model.FileFormat(f.format)
	if !slices.Contains(model.FileFormats(), format) {
		return fault.WithHint(fault.Usagef("--for: %q is no format", f.format), "%sknown are %s", meantWord(f.format, plain.Texts(model.FileFormats())), plain.Join(model.FileFormats(), ", "))
	}
	p, err := a.source(ctx, source, f.setting)
	if err != nil {
		return err
	}
	h, err := change.ChooseHost(p, f.role)
	if err != nil {
		return err
	}
	in := f.in
	in.Settings, in.Before, in.System = change.Assignments(h), h.Before, h.System
	in.Comments = p.Comments(h)
	out, err := keep.Export(format, in)
	if err != nil {
		return err
	}
	if s := format.System(); s != "" && h.System != "" && s != h.System {
		out.Notes = append(out.Notes, fmt.Sprintf("the settings were tried on %s, and these files are for %s", h.System, s))
	}
	a.tellExport(out.Omitted, out.Notes)
	if len(out.Files) == 0 && len(out.Commands) == 0 {
		return fault.WithKind(fault.Unsupported, fmt.Errorf("%s can keep none of these settings: %w", format, errors.ErrUnsupported))
	}
	return a.printExport(format, out, f.dir)
}

// source returns the profile in a file, or one made from a session.
func (a *console) source(ctx context.Context, name, setting string) (profile.Profile, error) {
	switch {
	case !isProfile(name):
		return a.profileOf(ctx, name, setting)
	case setting != "":
		return profile.Profile{}, fault.Usagef("--setting is for sessions; %s is a profile", name)
	}
	return a.readProfile(name) // which reports what is wrong with it
}

// isProfile reports whether name is a file, and not a session.
func isProfile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir() || isYAML(name)
}

// tellExport lists what no file contains, even with --quiet.
func (a *console) tellExport(omitted []model.Omission, notes []string) {
	for _, o := range omitted {
		fmt.Fprintf(a.Err, "left out: %s=%s: %s\n", o.Knob, o.Value, o.Reason)
	}
	for _, n := range notes {
		fmt.Fprintf(a.Err, "note: %s\n", n)
	}
}

func (a *console) printExport(format model.FileFormat, out keep.Rendered, dir string) error {
	if dir != "" {
		if err := a.writeTree(dir, out.Files); err != nil {
			return err
		}
	}
	for _, c := range out.Commands {
		a.talk("then run: %s", c)
	}
	if a.json {
		return a.document("linerate/export/v1", newExportDoc(format, out))
	}
	if dir != "" {
		return nil
	}
	if len(out.Files) == 1 && !a.OutTerminal { // exactly the file, for a shell to redirect
		_, err := a.raw.Out.Write(out.Files[0].Content)
		return err
	}
	for i, f := range out.Files {
		if i > 0 {
			fmt.Fprintln(a.Out)
		}
		fmt.Fprintf(a.Out, "==> %s%s\n%s", f.Path, fileRemark(f), strings.ReplaceAll(f.Text(), "\r\n", "\n"))
	}
	return nil
}

// fileRemark returns what else to know about a file besides its text.
func fileRemark(f keep.File) string {
	s := fmt.Sprintf("  mode %04o", f.Mode)
	if f.Block {
		s += ", a block to put at the end of that file"
	}
	if f.Text() != string(f.Content) {
		s += ", in the encoding that --output writes"
	}
	return s
}

// writeTree writes the files below dir, as if it were the root.
func (a *console) writeTree(dir string, files []keep.File) error {
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.Path))
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := writeNew(name, f.Content); err != nil {
			return err
		}
		if err := os.Chmod(name, f.Mode); err != nil {
			return err
		}
		a.talk("wrote %s", name)
	}
	return nil
}

func newExportDoc(format model.FileFormat, out keep.Rendered) exportDoc {
	d := exportDoc{Format: format, Files: []exportFile{}, Commands: []string{}, Omitted: []model.Omission{}, Notes: []string{}}
	d.Commands, d.Omitted, d.Notes = append(d.Commands, out.Commands...), append(d.Omitted, out.Omitted...), append(d.Notes, out.Notes...)
	for _, f := range out.Files {
		one := exportFile{Path: f.Path, Mode: fmt.Sprintf("%04o", f.Mode), Block: f.Block, Encoding: "utf-8", Content: string(f.Content)}
		if !utf8.Valid(f.Content) {
			one.Encoding, one.Content = "base64", base64.StdEncoding.EncodeToString(f.Content)
		}
		d.Files = append(d.Files, one)
	}
	return d
}
