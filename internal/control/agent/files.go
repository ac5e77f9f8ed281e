package agent

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"linerate/internal/control/session"
	"linerate/internal/core/knob"
	"linerate/internal/core/lists"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/persist"
)

// Files describes how a host keeps settings across a restart. System, Keeper, Link and Texts
// are required.
type Files struct {
	System    string                         // GOOS
	Catalogue *knob.Index                    // of settings
	Keeper    func() (persist.Keeper, error) // of this host's files
	Link      func() string                  // interface of the data path, "" if unknown
	MAC       func(link string) string       // its address, "" if unknown
	Now       func() time.Time               // nil is time.Now
	Ask       files.Asker                    // runs the owners' programs on copies; nil: the documented rules decide
	// Texts returns the current native texts of knobs, by native name as in the catalogue. It
	// omits what cannot be read.
	Texts func(ctx context.Context, link string, ids []model.KnobID) map[string]string
	// Origins returns the lines that will set knobs after changes are made to the files.
	// nil: unknown.
	Origins func(ctx context.Context, link string, ids []model.KnobID, changes []persist.Change) (map[model.KnobID]model.FileLine, error)
	// Owner, if set, returns the format in which this host keeps settings of a link, and why.
	Owner func(ctx context.Context, link string) (model.FileFormat, string, error)
	// Confirmed, if set, lists the confirmed changes.
	Confirmed func(ctx context.Context) ([]session.Confirmation, error)
	// Claims, if set, returns which other programs set knobs.
	Claims func(ctx context.Context, link string, ids []model.KnobID) ([]model.Claim, error)
}

// takesBack is the comment in a file that says how to undo it.
const takesBack = "Kept by linerate keep; linerate undo --kept takes it back."

// files returns an error if this host cannot keep settings across a restart.
func (a *agent) files() (*Files, error) {
	if err := a.mayTune(); err != nil {
		return nil, err
	}
	if a.Files == nil {
		return nil, fmt.Errorf("this agent writes no files of the system: %w", errors.ErrUnsupported)
	}
	return a.Files, nil
}

// Keep writes settings into the system's files.
func (a *agent) Keep(ctx context.Context, k session.Keep) (session.Keeping, error) {
	f, err := a.files()
	if err != nil {
		return session.Keeping{}, err
	}
	keeper, err := f.Keeper()
	if err != nil {
		return session.Keeping{}, err
	}
	if k.Renew != "" {
		return renew(keeper, k)
	}
	if k.Link == "" {
		k.Link = f.Link()
	}
	out := session.Keeping{}
	settings, comments, err := f.join(keeper, k, &out)
	if err != nil {
		return out, err
	}
	plan, err := f.lasting(ctx, keeper, k, &settings, comments, &out)
	if err != nil {
		return out, err
	}
	if k.Plan != "" && k.Plan != out.Plan {
		return out, fmt.Errorf("%w: the files, or what belongs into them, changed since they were shown", session.ErrState)
	}
	if !k.DryRun {
		keeper.About = persist.About{Source: k.Source, Comments: comments, Link: k.Link, Settings: held(settings, &out), Proof: k.Proof}
		if out.Record, err = f.write(keeper, plan.files, out.Files); err != nil {
			return out, err
		}
		if err := f.check(ctx, keeper, plan, out.Record); err != nil {
			out.Record = ""
			return out, err
		}
		f.others(ctx, k.Link, settings, nil, &out)
	}
	return out, nil
}

// lasting plans the files. It takes those of k's settings out of settings that another file
// sets to another value later at every start, and omits them with that line as the reason.
func (f *Files) lasting(ctx context.Context, keeper persist.Keeper, k session.Keep, settings *[]model.Assignment, comments []string, out *session.Keeping) (keepPlan, error) {
	var lost []model.Omission
	joined := *out
	for {
		*out = joined
		plan, err := f.propose(ctx, keeper, k, *settings, comments, out)
		if err != nil {
			return plan, err
		}
		changes, err := f.preview(keeper, plan.files, out)
		if err != nil {
			return plan, err
		}
		f.others(ctx, k.Link, *settings, changes, out)
		n := len(lost)
		*settings = slices.DeleteFunc(*settings, func(s model.Assignment) bool {
			l, other := out.Others[s.Knob]
			asked := slices.ContainsFunc(k.Settings, func(a model.Assignment) bool { return a.Knob == s.Knob })
			if !asked || !other || l.Text == s.Value {
				return false
			}
			lost = append(lost, model.Omission{Knob: s.Knob, Value: s.Value, By: l,
				Reason: fmt.Sprintf("%s:%d sets it to %q at every start, after any file of linerate: change or remove that line first", l.File, l.Number, l.Text)})
			return true
		})
		if len(lost) == n {
			out.Omitted = append(out.Omitted, lost...)
			return plan, nil
		}
	}
}

// renew replaces the proof of a record.
func renew(keeper persist.Keeper, k session.Keep) (session.Keeping, error) {
	err := keeper.Renew(k.Renew, k.Proof)
	if errors.Is(err, persist.ErrLocked) {
		err = fmt.Errorf("%w: %w", session.ErrBusy, err)
	}
	if err != nil {
		return session.Keeping{}, err
	}
	return session.Keeping{Record: k.Renew}, nil
}

// join adds to the settings of k those that an earlier Keep wrote and that are still there, so
// that its file does not lose them. Settings of another link keep their own files or are
// dropped; lost notes the dropped ones.
func (f *Files) join(keeper persist.Keeper, k session.Keep, out *session.Keeping) (settings []model.Assignment, comments []string, err error) {
	for _, s := range k.Settings {
		settings = append(settings, model.Assignment{Knob: s.Knob, Value: s.Value})
	}
	comments = slices.Clone(k.Comments)
	if !slices.Contains(comments, takesBack) {
		comments = slices.Insert(comments, 0, takesBack)
	}
	standing, err := keeper.Standing()
	if err != nil {
		return nil, nil, err
	}
	for _, r := range standing {
		joined := false
		for _, s := range r.Settings {
			if slices.ContainsFunc(settings, func(o model.Assignment) bool { return o.Knob == s.Knob }) || r.Link != k.Link && f.ofLink(s.Knob) {
				continue
			}
			settings, joined = append(settings, s), true
			out.Added = append(out.Added, s)
		}
		if !joined {
			continue
		}
		source := r.Source
		if source == "" {
			source = "on " + r.Time.Format(time.DateOnly)
		}
		for _, c := range append([]string{"and what was kept before: " + source}, r.Comments...) {
			if !slices.Contains(comments, c) && len(comments) < session.MaxComments {
				comments = append(comments, c)
			}
		}
	}
	if len(settings) > session.MaxAssignments {
		return nil, nil, fmt.Errorf("%w: %d settings with those that are kept already, at most %d", session.ErrInvalid, len(settings), session.MaxAssignments)
	}
	return settings, comments, nil
}

// ofLink reports whether a knob is kept per interface.
func (f *Files) ofLink(id model.KnobID) bool {
	k, _ := f.Catalogue.ByID(id)
	n := k.Native[f.System]
	return n.Mechanism != knob.Sysctl || strings.Contains(n.Name, "{")
}

// preview fills out with what writing the files would change.
func (f *Files) preview(keeper persist.Keeper, written []files.File, out *session.Keeping) (changes []persist.Change, err error) {
	digest := sha256.New()
	if len(written) > 0 {
		if changes, err = keeper.Preview(written); errors.Is(err, persist.ErrChanged) {
			err = fmt.Errorf("%w: %w", session.ErrState, err)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, c := range changes {
		one := session.KeepFile{Path: c.Path, Change: session.FileChanged, Block: c.Block, Mode: c.Mode, Diff: c.Diff()}
		switch {
		case c.Same():
			one.Change = session.FileSame
		case !c.Exists:
			one.Change = session.FileNew
		}
		if len(one.Diff) > session.MaxDiff {
			const cut = "… (cut)\n"
			one.Diff = strings.ToValidUTF8(one.Diff[:session.MaxDiff-len(cut)], "") + cut
		}
		out.Files = append(out.Files, one)
		out.Notes = append(out.Notes, lost(c)...)
		fmt.Fprintf(digest, "%q %v %q %q\n", c.Path, c.Exists, c.Before, c.After)
	}
	out.Plan = hex.EncodeToString(digest.Sum(nil)[:16])
	return changes, nil
}

// held returns the settings that the files hold.
func held(settings []model.Assignment, out *session.Keeping) []model.Assignment {
	return slices.DeleteFunc(slices.Clone(settings), func(s model.Assignment) bool {
		return slices.ContainsFunc(out.Omitted, func(o model.Omission) bool { return o.Knob == s.Knob })
	})
}

// others fills out.Others with the lines of other files that set the kept knobs once changes are
// made. An error becomes a note, since the files may be written by now; they may be even if ctx
// has ended.
func (f *Files) others(ctx context.Context, link string, settings []model.Assignment, changes []persist.Change, out *session.Keeping) {
	out.Others = nil
	ids := lists.Each(held(settings, out), func(s model.Assignment) model.KnobID { return s.Knob })
	if f.Origins == nil || len(ids) == 0 {
		return
	}
	found, err := f.Origins(context.WithoutCancel(ctx), link, ids, changes)
	if err != nil {
		out.Notes = lists.Once(out.Notes, fmt.Sprintf("whether other files count more is not known: %v", err))
	}
	maps.DeleteFunc(found, func(_ model.KnobID, l model.FileLine) bool {
		return slices.ContainsFunc(out.Files, func(f session.KeepFile) bool { return f.Path == l.File })
	})
	out.Others = found
}

// lost returns the settings that a file, or linerate's block in it, no longer holds after c.
func lost(c persist.Change) []string {
	after := make(map[string]bool)
	for l := range strings.Lines(string(c.After)) {
		after[key(l)] = true
	}
	var notes []string
	for l := range strings.Lines(string(c.Before)) {
		if k := key(l); k != "" && !after[k] {
			notes = append(notes, fmt.Sprintf("%s no longer holds %q, which it holds now", c.Path, strings.TrimSpace(l)))
		}
	}
	return notes
}

// key returns the name that a line sets, "" if it sets nothing.
func key(line string) string {
	line = strings.TrimSpace(line)
	name, _, ok := strings.Cut(line, "=")
	if !ok || strings.ContainsAny(line[:1], "#;<[") {
		return ""
	}
	return strings.TrimSpace(name)
}

// write replaces the files that change.
func (f *Files) write(keeper persist.Keeper, written []files.File, changes []session.KeepFile) (record string, err error) {
	var all []files.File
	for i, c := range changes {
		if c.Change != session.FileSame {
			all = append(all, written[i])
		}
	}
	if len(all) == 0 {
		return "", nil
	}
	now := time.Now
	if f.Now != nil {
		now = f.Now
	}
	r, err := keeper.Write(now(), all)
	switch {
	case errors.Is(err, persist.ErrLocked):
		return "", fmt.Errorf("%w: %w", session.ErrBusy, err)
	case errors.Is(err, persist.ErrChanged):
		return "", fmt.Errorf("%w: %w", session.ErrState, err)
	}
	return r.ID, err
}

// Restore restores the files that were kept, from the record since on.
func (a *agent) Restore(_ context.Context, since string) (session.Restored, error) {
	f, err := a.files()
	if err != nil {
		return session.Restored{}, err
	}
	keeper, err := f.Keeper()
	if err != nil {
		return session.Restored{}, err
	}
	results, err := keeper.Restore(since)
	out := session.Restored{Files: results}
	reported := slices.ContainsFunc(results, func(r model.FileResult) bool { return r.State == model.FileChanged || r.State == model.FileFailed })
	switch {
	case errors.Is(err, persist.ErrLocked):
		return out, fmt.Errorf("%w: %w", session.ErrBusy, err)
	case err != nil && len(results) == 0:
		return out, err
	case err != nil && !reported:
		out.Problem = err.Error()
	}
	return out, nil
}

// Kept lists the records of kept files.
func (a *agent) Kept(context.Context) ([]session.KeptRecord, error) {
	f, err := a.files()
	if err != nil {
		return nil, err
	}
	return KeptBy(f.Keeper)
}

// KeptBy lists a keeper's records, oldest first.
func KeptBy(open func() (persist.Keeper, error)) ([]session.KeptRecord, error) {
	keeper, err := open()
	if err != nil {
		return nil, err
	}
	records, err := keeper.Peek()
	if err != nil {
		return nil, err
	}
	var out []session.KeptRecord
	for _, r := range records {
		one := session.KeptRecord{ID: r.ID, Time: r.Time, Source: r.Source, Settings: r.Settings, Proof: r.Proof}
		if r.Damage != "" {
			one.Source = "damaged: " + r.Damage
		}
		for _, file := range r.Files {
			one.Files = append(one.Files, file.Path)
		}
		out = append(out, one)
	}
	return out, nil
}

// Confirmed lists the changes that a person kept by confirming them.
func (a *agent) Confirmed(ctx context.Context) ([]session.Confirmation, error) {
	f, err := a.files()
	if err != nil {
		return nil, err
	}
	if f.Confirmed == nil {
		return nil, fmt.Errorf("this agent has no list of what was confirmed: %w", errors.ErrUnsupported)
	}
	return f.Confirmed(ctx)
}

// Claims returns which other programs set knobs.
func (a *agent) Claims(ctx context.Context, ids []model.KnobID) ([]model.Claim, error) {
	f, err := a.files()
	if err != nil {
		return nil, err
	}
	if f.Claims == nil {
		return nil, fmt.Errorf("this agent knows no other managers of settings: %w", errors.ErrUnsupported)
	}
	return f.Claims(ctx, f.Link(), ids)
}
