package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"linerate/internal/app"
	"linerate/internal/app/local"
	"linerate/internal/app/target"
	"linerate/internal/app/trial"
	"linerate/internal/core/bottleneck"
	"linerate/internal/core/model"
	"linerate/internal/core/traffic/files"
	"linerate/internal/core/units"
	"linerate/internal/fault"
	"linerate/internal/report"
	"linerate/internal/report/term"
	"linerate/internal/ui/config"
	"linerate/internal/ui/screen"
)

// copyFlags are the flags of file copies.
type copyFlags struct {
	from, path          string
	source, sink        string
	size, state         string
	blocks              int
	reverse, both       bool
	direct, sync, plain bool
}

func (a *console) copyCommand() *cobra.Command {
	var f copyFlags
	c := &cobra.Command{
		Use: "copy HOST", Short: "file copies: memory or disk at each end, and the network apart from both",
		Long: `copy copies a file to HOST from memory and from disk, to memory and to disk, and
measures each part alone: reading the disk, writing the disk, the network, and
copying in memory. So it can say which of them holds a copy back.

Files are made by linerate, with data that nothing can compress, and removed
afterwards, also those of a copy that was killed, at the next start. Memory is a
RAM disk where the system has one. A path in place of disk names a file to read,
a folder to make a file in, or a new file; nothing that was there is overwritten.
What arrived is compared with what was sent, outside the timed part.

With --path DIR the folder itself is measured, written through and read back, as
it is mounted here: NFS, SMB, AFP or a disk.`,
		Example: `  linerate copy lab:rate=1gbit,rtt=1ms --size 16MiB --blocks 1
  linerate copy "$NAS"
  linerate copy "$NAS" --sink disk --size 1GiB --direct
  linerate copy --path /tmp --size 16MiB`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.path != "" {
				return exactArgs()(cmd, args)
			}
			return exactArgs("HOST")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.path != "" {
				return a.copyPath(cmd.Context(), f, cmd.Flags())
			}
			return a.copy(cmd.Context(), f, cmd.Flags(), args[0])
		},
	}
	fl := c.Flags()
	registerPath(c)
	fl.StringVar(&f.from, "from", "", "the near HOST (default: this machine)")
	fl.StringVar(&f.path, "path", "", "measure this folder instead, as it is mounted here")
	fl.StringVar(&f.source, "source", files.OnDisk, "disk, memory or a PATH at the sender")
	fl.StringVar(&f.sink, "sink", files.OnDisk, "disk, memory or a PATH at the receiver")
	fl.StringVar(&f.size, "size", "256MiB", "bytes of a file")
	fl.IntVar(&f.blocks, "blocks", bottleneck.DefaultBlocks, "how often each is measured")
	fl.BoolVarP(&f.reverse, "reverse", "R", false, "copy from HOST")
	fl.BoolVar(&f.both, "both", false, "copy to HOST and from it, in turn")
	fl.BoolVar(&f.direct, "direct", false, "past the page cache (O_DIRECT)")
	fl.BoolVar(&f.sync, "sync", true, "flushing to the disk is part of the timed write; --sync=false measures the page cache")
	fl.BoolVar(&f.plain, "plain", false, "read and write through user memory where sendfile could serve")
	fl.String("cooldown", "0s", "wait after each run")
	fl.String("title", "", "a name for the session")
	fl.StringVar(&f.state, "state", "", "with --path: directory of the list of made files (default: $LINERATE_STATE, else the system's)")
	fl.Uint64("seed", 0, "of the order (default: a new one)")
	return c
}

// ask returns the copy that the flags describe.
func (f *copyFlags) ask(file config.File, bad faults) (trial.Copy, error) {
	c := trial.Copy{
		Source: f.source, Sink: f.sink, Blocks: f.blocks, Seed: file.Seed, Cooldown: file.Cooldown, Bytes: bad.bytes("size", f.size),
		Directions: []model.Direction{model.To}, Params: files.Params{Direct: f.direct, Sync: f.sync, Plain: f.plain},
	}
	switch {
	case f.both && f.reverse:
		return c, fault.Usagef("--both and --reverse exclude each other")
	case f.reverse:
		c.Directions = []model.Direction{model.From}
	case f.both:
		c.Directions = []model.Direction{model.To, model.From}
	}
	f.countable(&bad)
	return c, bad.err()
}

// countable checks the number of blocks.
func (f *copyFlags) countable(bad *faults) {
	if f.blocks < 1 || f.blocks > 1000 {
		bad.add("blocks", fmt.Errorf("%d is not between 1 and 1000", f.blocks))
	}
}

func (a *console) copy(ctx context.Context, f copyFlags, fl *pflag.FlagSet, host string) error {
	var bad faults
	file, err := a.over(config.File{}, fl, "blocks")
	bad.join(err)
	asked, err := f.ask(file, bad)
	if err != nil {
		return err
	}
	a.path = file.Path
	near, far, err := target.Pair(f.from, host, a.world())
	if err != nil {
		return err
	}
	p, err := asked.Plan(near, far)
	if err != nil {
		return err
	}
	_, err = a.session(ctx, near, far, model.KindCopy, file.Title, p)
	return f.refused(err)
}

// refused adds a fitting hint to the error of a copy that a host refused.
func (f *copyFlags) refused(err error) error {
	if fault.HintOf(err) != "" || !app.Refused(err) {
		return err
	}
	named := func(end string) bool { return end != files.OnDisk && end != files.InMemory }
	if named(f.source) || named(f.sink) {
		return fault.WithHint(err, "linerate serve gives no path to anybody: leave --source and --sink there, or go to that host by ssh")
	}
	return fault.WithHint(err, "ask for less than --size %s: a server with its defaults gives 64MiB to anybody, and more by a link with a key", f.size)
}

// session opens store and hosts, carries p out and reports. The returned session holds what was
// measured, even with an error.
func (a *console) session(ctx context.Context, near, far target.Target, kind model.Kind, title string, p model.Plan) (model.Session, error) {
	st, e, end, err := a.begin(ctx, near, far)
	if err != nil {
		return model.Session{}, err
	}
	defer end()
	trial.FitSearch(e, &p)
	s, err := trial.New(a.world(), e, st, kind, title, target.RedactAll(os.Args), p).Run(ctx)
	return s, a.finish(ctx, st, s, err)
}

// pathDoc is linerate/path/v1.
type pathDoc struct {
	local.FolderResult
	Complete bool                `json:"complete"`
	Report   report.PathDocument `json:"report"`
}

// copyPath measures a folder. Its result is printed but not stored: it involves no host, path or
// setting.
func (a *console) copyPath(ctx context.Context, f copyFlags, fl *pflag.FlagSet) error {
	for _, flag := range []string{"from", "source", "sink", "reverse", "both", "sync", "plain", "cooldown", "title"} {
		if fl.Changed(flag) {
			return fault.Usagef("--%s: belongs to copies between hosts, not to --path", flag)
		}
	}
	var bad faults
	file, err := a.over(config.File{}, fl, "blocks")
	bad.join(err)
	size := bad.bytes("size", f.size)
	f.countable(&bad)
	if err := bad.err(); err != nil {
		return err
	}
	result, err := local.Folder(ctx, a.world(), f.path, local.FolderOptions{State: f.state, Size: size, Repeats: f.blocks, Direct: f.direct, Seed: file.Seed})
	screen.Line(a.Err, "")
	if len(result.Trials) > 0 || a.json && err == nil {
		if perr := a.printPath(pathDoc{FolderResult: result, Complete: err == nil}); perr != nil {
			err = errors.Join(err, perr)
		}
	}
	return err
}

// folderProgress draws one line: what is done, how far, and about how long it still takes.
func (a *console) folderProgress(p app.FolderProgress) {
	if a.quiet || !a.ErrTerminal {
		return
	}
	screen.Line(a.Err, fmt.Sprintf("%s %d/%d  %.0f %%%s", p.Operation, p.Repeat, p.Repeats, 100*p.Share, moreTime(p)))
}

// moreTime estimates how long a copy still takes, "" if that is unknown.
func moreTime(p app.FolderProgress) string {
	if p.Share <= 0 {
		return ""
	}
	return ", about " + units.FormatDuration(max(0, time.Duration(float64(p.Elapsed)*(1/p.Share-1)).Round(time.Second))) + " more"
}

func (a *console) printPath(d pathDoc) error {
	var trials []report.PathTrial
	for _, t := range d.Trials {
		trials = append(trials, report.PathTrial{
			Operation: string(t.Operation), Size: t.Size, Took: t.Took, Flush: t.Flush, Rate: t.Rate, How: t.How,
		})
	}
	d.Report = report.BuildPath(d.Folder, d.Volume.String(), trials, d.Warnings)
	if a.json {
		return a.document("linerate/path/v1", d)
	}
	return term.RenderPath(a.Out, d.Report, a.termOptions())
}
