package session

import (
	"context"
	"io/fs"
	"time"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/model"
)

// Bounds of what is kept, as settings.proto states them.
const (
	MaxComments = 64
	MaxDiff     = 32 << 10 // bytes
	MaxProof    = 32 << 10 // bytes

	maxFiles    = 16
	maxCommands = 32
	maxRecords  = 256
)

// Keep asks for settings to be kept over a restart.
type Keep struct {
	Settings []model.Assignment // canonical, each knob once
	Comments []string           // why, for the files
	Source   string             // where they come from: a session, a profile
	Link     string             // interface of settings of a link; "" is that of the data path
	Format   model.FileFormat   // of the files; "" is that of who configures the interface
	DryRun   bool               // only tell what would be written
	Plan     string             // of the dry run that a person saw; "" is whatever it is
	Proof    string             // how they are known to be good, which the host only keeps; see fingerprint.Proof
	Renew    string             // record whose proof is replaced by Proof, and nothing else; "" for none
}

// Keeping is what was written for a Keep, or would be.
type Keeping struct {
	Format   model.FileFormat
	Reason   string // why that format; may be empty
	Files    []KeepFile
	Commands []string // that make the system read them now; nobody ran them
	Omitted  []model.Omission
	Notes    []string
	// Others are lines of other files that count for the same knobs although the
	// files are written.
	Others map[model.KnobID]model.FileLine
	Plan   string
	Record string             // "" where nothing was written
	Added  []model.Assignment // that an earlier Keep wrote, and which stand in the files again
}

// KeepFile is one file.
type KeepFile struct {
	Path   string
	Change FileChange
	Block  bool // only the part between the marks is linerate's
	Mode   fs.FileMode
	Diff   string // unified, at most MaxDiff bytes
}

// FileChange says what writing means for a file.
type FileChange string

// The changes.
const (
	FileNew     FileChange = "new"
	FileChanged FileChange = "changed"
	FileSame    FileChange = "same"
)

// Restored is what became of the files of all Keeps.
type Restored struct {
	Files   []model.FileResult
	Problem string // that belongs to no file; "" for none
}

// KeptRecord is one Keep that nobody took back.
type KeptRecord struct {
	ID       string
	Time     time.Time // by the clock of that host
	Source   string
	Files    []string
	Settings []model.Assignment
	Proof    string // as it came with Keep; "" where there was none
}

// Confirmation is one knob that a person set and confirmed.
type Confirmation struct {
	Knob   model.KnobID
	Native string
	Value  string // canonical
	Holds  bool   // it still has that value
	Detail string // why not
	Link   string // interface of a setting of a link; else ""
}

// keeping is the part of Settings that is about the next start of the machine.
type keeping interface {
	// Keep puts settings into the files from which the system takes them at its
	// next start. It changes no running value. It wraps ErrState where the files
	// are no longer as the plan has them.
	Keep(ctx context.Context, k Keep) (Keeping, error)
	// Restore takes back what Keep wrote, from the record since on, "" for all, but
	// what somebody changed since.
	Restore(ctx context.Context, since string) (Restored, error)
	// Kept lists what Keep wrote, oldest first.
	Kept(ctx context.Context) ([]KeptRecord, error)
	// Confirmed lists what was confirmed on this host and not undone.
	Confirmed(ctx context.Context) ([]Confirmation, error)
	// Claims tells who else sets knobs.
	Claims(ctx context.Context, ids []model.KnobID) ([]model.Claim, error)
}

// Keep puts settings into files.
func (a settings) Keep(ctx context.Context, p *sessionpb.KeepRequest) (*sessionpb.KeepResponse, error) {
	return call(a.adapter, func(h model.Host) (*sessionpb.KeepResponse, error) {
		var c check
		k := Keep{
			Source: c.text("source", p.GetSource(), MaxValue),
			Link:   c.text("interface", p.GetInterface(), MaxName), Format: model.FileFormat(c.text("format", p.GetFormat(), MaxName)),
			DryRun: p.GetDryRun(), Plan: c.text("plan", p.GetPlan(), MaxName),
			Comments: c.texts("comments", p.GetComments(), MaxComments), Proof: c.text("proof", p.GetProof(), MaxProof),
			Renew: c.text("renew", p.GetRenew(), MaxName),
		}
		if k.Renew == "" {
			k.Settings = decodeAssignments(&c, p.GetSettings(), h)
		}
		if c.err != nil {
			return nil, c.err
		}
		kept, err := a.s.Keep(ctx, k)
		if err != nil {
			return nil, err
		}
		return encodeKeeping(kept, h), nil
	})
}

// Restore takes files back.
func (a settings) Restore(ctx context.Context, p *sessionpb.RestoreRequest) (*sessionpb.RestoreResponse, error) {
	return call(a.adapter, func(model.Host) (*sessionpb.RestoreResponse, error) {
		var c check
		since := c.text("record", p.GetSince(), MaxName)
		if c.err != nil {
			return nil, c.err
		}
		r, err := a.s.Restore(ctx, since)
		out := &sessionpb.RestoreResponse{Problem: clean(r.Problem, MaxText)}
		for _, f := range r.Files[:min(len(r.Files), MaxChanges)] {
			out.Files = append(out.Files, &sessionpb.Restored{
				Record: clean(f.Record, MaxName), Path: clean(f.Path, MaxValue), State: restoreStates()[f.State], Detail: clean(f.Detail, MaxText),
			})
		}
		return out, err
	})
}

// Kept lists records.
func (a settings) Kept(ctx context.Context, _ *sessionpb.KeptRequest) (*sessionpb.KeptResponse, error) {
	return call(a.adapter, func(h model.Host) (*sessionpb.KeptResponse, error) {
		records, err := a.s.Kept(ctx)
		out := &sessionpb.KeptResponse{}
		for _, r := range records[:min(len(records), maxRecords)] {
			one := &sessionpb.KeptRecord{
				Id: clean(r.ID, MaxName), Time: r.Time.UTC().Format(time.RFC3339), Source: clean(r.Source, MaxValue), Settings: encodeSettings(r.Settings, h),
				Proof: clean(r.Proof, MaxProof),
			}
			for _, f := range r.Files[:min(len(r.Files), maxFiles)] {
				one.Files = append(one.Files, clean(f, MaxValue))
			}
			out.Records = append(out.Records, one)
		}
		return out, err
	})
}

// Confirmed lists what a person kept.
func (a settings) Confirmed(ctx context.Context, _ *sessionpb.ConfirmedRequest) (*sessionpb.ConfirmedResponse, error) {
	return call(a.adapter, func(model.Host) (*sessionpb.ConfirmedResponse, error) {
		all, err := a.s.Confirmed(ctx)
		out := &sessionpb.ConfirmedResponse{}
		for _, s := range all[:min(len(all), MaxChanges)] {
			out.Settings = append(out.Settings, &sessionpb.Confirmation{
				Knob: clean(string(s.Knob), MaxName), Native: clean(s.Native, MaxValue), Value: clean(s.Value, MaxValue), Holds: s.Holds, Detail: clean(s.Detail, MaxText),
				Interface: clean(s.Link, MaxName),
			})
		}
		return out, err
	})
}

// Claims tells who else sets knobs.
func (a settings) Claims(ctx context.Context, p *sessionpb.ClaimsRequest) (*sessionpb.ClaimsResponse, error) {
	return call(a.adapter, func(model.Host) (*sessionpb.ClaimsResponse, error) {
		var c check
		ids := knobNames(&c, p.GetIds())
		if c.err != nil {
			return nil, c.err
		}
		all, err := a.s.Claims(ctx, ids)
		out := &sessionpb.ClaimsResponse{}
		for _, l := range all[:min(len(all), MaxKnobs)] {
			out.Claims = append(out.Claims, &sessionpb.Claim{
				Id: clean(string(l.Knob), MaxName), Interface: clean(l.Link, MaxName), Manager: clean(string(l.Manager), MaxName), Sets: clean(l.Sets, MaxValue),
				When: clean(l.When, MaxText), File: clean(l.File, MaxValue), Line: uint32(l.Line), Active: encodeTruth(l.Active),
			})
		}
		return out, err
	})
}

// Keep puts settings into the files of the host, or with DryRun tells what they
// would be. It wraps ErrState where the files changed since the dry run that
// k.Plan is from, and errors.ErrUnsupported where the agent knows no files.
func (c *Client) Keep(ctx context.Context, k Keep) (Keeping, error) {
	const op = "keep settings"
	p, err := ask(ctx, c, op, slowCalls, func(ctx context.Context) (*sessionpb.KeepResponse, error) {
		return c.settings.Keep(ctx, &sessionpb.KeepRequest{
			Settings: encodeSettings(k.Settings, c.host), Comments: cleanAll(k.Comments), Source: clean(k.Source, MaxValue), Interface: k.Link,
			Format: string(k.Format), DryRun: k.DryRun, Plan: k.Plan, Proof: clean(k.Proof, MaxProof),
			Renew: k.Renew,
		})
	})
	if err != nil {
		return Keeping{}, err
	}
	var v check
	out := decodeKeeping(&v, p, c.host)
	return checked(ctx, c, op, &v, out)
}

// Renew replaces the proof that lies beside the record of a Keep.
func (c *Client) Renew(ctx context.Context, record, proof string) error {
	_, err := c.Keep(ctx, Keep{Renew: record, Proof: proof})
	return err
}

// Restore takes back what Keep wrote on the host, but what somebody changed
// since: all of it, or with since, the name of a record, that one and what came
// after it.
func (c *Client) Restore(ctx context.Context, since string) (Restored, error) {
	const op = "take back files"
	p, err := ask(ctx, c, op, slowCalls, func(ctx context.Context) (*sessionpb.RestoreResponse, error) {
		return c.settings.Restore(ctx, &sessionpb.RestoreRequest{Since: since})
	})
	if err != nil {
		return Restored{}, err
	}
	var k check
	k.count("files", len(p.GetFiles()), MaxChanges)
	out := Restored{Problem: k.text("problem", p.GetProblem(), MaxText)}
	for _, f := range p.GetFiles()[:min(len(p.GetFiles()), MaxChanges)] {
		one := model.FileResult{Record: k.name("record", f.GetRecord()), Path: k.text("file", f.GetPath(), MaxValue), Detail: k.text("detail", f.GetDetail(), MaxText)}
		for state, number := range restoreStates() {
			if number == f.GetState() {
				one.State = state
			}
		}
		k.that(one.State != "", "%s has no known state", one.Path)
		out.Files = append(out.Files, one)
	}
	return checked(ctx, c, op, &k, out)
}

// Kept lists what Keep wrote on the host and nobody took back, oldest first.
func (c *Client) Kept(ctx context.Context) ([]KeptRecord, error) {
	const op = "list what is kept"
	p, err := ask(ctx, c, op, 1, func(ctx context.Context) (*sessionpb.KeptResponse, error) {
		return c.settings.Kept(ctx, &sessionpb.KeptRequest{})
	})
	if err != nil {
		return nil, err
	}
	var k check
	k.count("records", len(p.GetRecords()), maxRecords)
	var out []KeptRecord
	for _, r := range p.GetRecords()[:min(len(p.GetRecords()), maxRecords)] {
		k.count("files", len(r.GetFiles()), maxFiles)
		one := KeptRecord{
			ID: k.name("record", r.GetId()), Source: k.text("source", r.GetSource(), MaxValue), Settings: decodeSettings(&k, r.GetSettings(), c.host),
			Proof: k.text("proof", r.GetProof(), MaxProof),
		}
		var err error
		one.Time, err = time.Parse(time.RFC3339, r.GetTime())
		k.that(err == nil, "record %s has no time", one.ID)
		for _, f := range r.GetFiles()[:min(len(r.GetFiles()), maxFiles)] {
			one.Files = append(one.Files, k.text("file", f, MaxValue))
		}
		out = append(out, one)
	}
	return checked(ctx, c, op, &k, out)
}

// Confirmed lists what was confirmed on the host and not undone, oldest first.
func (c *Client) Confirmed(ctx context.Context) ([]Confirmation, error) {
	const op = "list what was confirmed"
	p, err := ask(ctx, c, op, 1, func(ctx context.Context) (*sessionpb.ConfirmedResponse, error) {
		return c.settings.Confirmed(ctx, &sessionpb.ConfirmedRequest{})
	})
	if err != nil {
		return nil, err
	}
	var k check
	k.count("settings", len(p.GetSettings()), MaxChanges)
	seen := make(map[model.KnobID]bool)
	var out []Confirmation
	for _, s := range p.GetSettings()[:min(len(p.GetSettings()), MaxChanges)] {
		one := Confirmation{
			Knob: model.KnobID(k.name("knob", s.GetKnob())), Native: k.text("native name", s.GetNative(), MaxValue),
			Value: k.text("value", s.GetValue(), MaxValue), Holds: s.GetHolds(), Detail: k.text("detail", s.GetDetail(), MaxText),
			Link: k.text("interface", s.GetInterface(), MaxName),
		}
		k.that(!seen[one.Knob], "%s is told twice", one.Knob)
		seen[one.Knob] = true
		out = append(out, one)
	}
	return checked(ctx, c, op, &k, out)
}

// Claims tells who else sets knobs on the host. Those of one knob stand in the
// order in which they are applied.
func (c *Client) Claims(ctx context.Context, ids []model.KnobID) ([]model.Claim, error) {
	const op = "ask who manages settings"
	p, err := ask(ctx, c, op, 1, func(ctx context.Context) (*sessionpb.ClaimsResponse, error) {
		r := &sessionpb.ClaimsRequest{}
		for _, id := range ids {
			r.Ids = append(r.Ids, string(id))
		}
		return c.settings.Claims(ctx, r)
	})
	if err != nil {
		return nil, err
	}
	var k check
	k.count("claims", len(p.GetClaims()), MaxKnobs)
	var out []model.Claim
	for _, l := range p.GetClaims()[:min(len(p.GetClaims()), MaxKnobs)] {
		out = append(out, model.Claim{
			Knob: model.KnobID(k.name("knob", l.GetId())), Link: k.text("interface", l.GetInterface(), MaxName), Manager: model.Manager(k.name("manager", l.GetManager())),
			Sets: k.text("text", l.GetSets(), MaxValue), When: k.text("when", l.GetWhen(), MaxText), File: k.text("file", l.GetFile(), MaxValue),
			Line: int(k.atMost("line", int64(l.GetLine()), maxBlock)), Active: decodeTruth(&k, "active", l.GetActive()),
		})
	}
	return checked(ctx, c, op, &k, out)
}
