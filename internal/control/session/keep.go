package session

import (
	"context"
	"io/fs"
	"slices"
	"time"

	"linerate/internal/core/model"
)

// Keep asks an agent to keep settings across a restart.
type Keep struct {
	Settings []model.Assignment `json:"settings,omitempty" bound:"256"`     // canonical, each knob once
	Comments []string           `json:"comments,omitempty" bound:"64,text"` // why, for the files
	Source   string             `json:"source" bound:"value"`               // their source: a session, a profile
	Link     string             `json:"link,omitempty"`                     // interface of settings of a link; "" is that of the data path
	Format   model.FileFormat   `json:"format,omitempty"`                   // of the files; "" is that of the program that configures the interface
	DryRun   bool               `json:"dry_run,omitempty"`                  // only report what would be written
	Plan     string             `json:"plan,omitempty"`                     // of the dry run that a person saw; "" accepts any
	Proof    string             `json:"proof,omitempty" bound:"proof"`      // why they are known to be good, which the host only stores; see fingerprint.Proof
	Renew    string             `json:"renew,omitempty"`                    // record whose proof alone is replaced by Proof; "" for none
}

// Keeping is what a Keep wrote, or would write.
type Keeping struct {
	Format   model.FileFormat `json:"format"`
	Reason   string           `json:"reason,omitempty" bound:"text"` // why that format
	Files    []KeepFile       `json:"files,omitempty" bound:"16"`
	Commands []string         `json:"commands,omitempty" bound:"32,text"` // that make the system read them now; not run
	Omitted  []model.Omission `json:"omitted,omitempty" bound:"256"`
	Notes    []string         `json:"notes,omitempty" bound:"64,text"`
	// Others are lines of other files that set the same knobs and still take precedence over
	// the written files.
	Others map[model.KnobID]model.FileLine `json:"others,omitempty" bound:"1024"`
	Plan   string                          `json:"plan"`
	Record string                          `json:"record,omitempty"`            // "" if nothing was written
	Added  []model.Assignment              `json:"added,omitempty" bound:"256"` // written by an earlier Keep, and included again
}

// KeepFile is one file.
type KeepFile struct {
	Path   string      `json:"path" bound:"value"`
	Change FileChange  `json:"change" bound:"new|changed|same"`
	Block  bool        `json:"block,omitempty"`   // only the part between the marks is linerate's
	Mode   fs.FileMode `json:"mode" bound:"511"`  // 0777 at most
	Diff   string      `json:"diff" bound:"diff"` // unified
}

// FileChange is what writing does to a file.
type FileChange string

// The changes.
const (
	FileNew     FileChange = "new"
	FileChanged FileChange = "changed"
	FileSame    FileChange = "same"
)

// Restored is the outcome for the files of all Keeps.
type Restored struct {
	Files   []model.FileResult `json:"files,omitempty" bound:"1024"`
	Problem string             `json:"problem,omitempty" bound:"text"` // that concerns no single file
}

// KeptRecord is one Keep that is still in force.
type KeptRecord struct {
	ID       string             `json:"id" bound:"name"`
	Time     time.Time          `json:"time"` // by the clock of that host
	Source   string             `json:"source,omitempty" bound:"value"`
	Files    []string           `json:"files,omitempty" bound:"16,value"`
	Settings []model.Assignment `json:"settings,omitempty" bound:"256"`
	Proof    string             `json:"proof,omitempty" bound:"proof"` // as passed to Keep
}

// Confirmation is one knob that a person set and confirmed.
type Confirmation struct {
	Knob   model.KnobID `json:"knob"`
	Native string       `json:"native" bound:"value"`
	Value  string       `json:"value" bound:"value"`           // canonical
	Holds  bool         `json:"holds"`                         // whether it still has that value
	Detail string       `json:"detail,omitempty" bound:"text"` // why not
	Link   string       `json:"link,omitempty"`                // interface of a setting of a link; else ""
}

// keeping is the part of Settings for the next start of the machine.
type keeping interface {
	// Keep writes settings into the files that the system reads at its next start. It changes
	// no running value. It wraps ErrState if the files no longer match the plan.
	Keep(ctx context.Context, k Keep) (Keeping, error)
	// Restore undoes what Keep wrote, from the record since on, "" for all. It leaves lines that
	// were changed since.
	Restore(ctx context.Context, since string) (Restored, error)
	// Kept lists what Keep wrote, oldest first.
	Kept(ctx context.Context) ([]KeptRecord, error)
	// Confirmed lists what was confirmed on this host and not undone.
	Confirmed(ctx context.Context) ([]Confirmation, error)
	// Claims returns which other programs set knobs.
	Claims(ctx context.Context, ids []model.KnobID) ([]model.Claim, error)
}

// Keep writes settings into the host's files, or with DryRun returns what it would write. It
// wraps ErrState if the files changed since the dry run that k.Plan is from, and
// errors.ErrUnsupported if the agent knows no files.
func (c *Client) Keep(ctx context.Context, k Keep) (Keeping, error) {
	k.Settings = slices.Clone(k.Settings)
	for i := range k.Settings {
		k.Settings[i].Host = "" // implied
	}
	k.Source, k.Proof = clean(k.Source, MaxValue), clean(k.Proof, MaxProof)
	k.Comments = slices.Clone(k.Comments[:min(len(k.Comments), MaxComments)])
	for i, s := range k.Comments {
		k.Comments[i] = clean(s, MaxText)
	}
	return ask[Keeping](ctx, c, "keep settings", slowCalls, "Keep", k)
}

// Renew replaces the proof stored with the record of a Keep.
func (c *Client) Renew(ctx context.Context, record, proof string) error {
	_, err := c.Keep(ctx, Keep{Renew: record, Proof: proof})
	return err
}

// Restore undoes what Keep wrote on the host, except for lines that were changed since: all of
// it, or from the record named since on.
func (c *Client) Restore(ctx context.Context, since string) (Restored, error) {
	return ask[Restored](ctx, c, "take back files", slowCalls, "Restore", restoreRequest{since})
}

// Kept lists what Keep wrote on the host and is still in force, oldest first.
func (c *Client) Kept(ctx context.Context) ([]KeptRecord, error) {
	r, err := ask[keptList](ctx, c, "list what is kept", 1, "Kept", nothing{})
	return r.Records, err
}

// Confirmed lists what was confirmed on the host and not undone, oldest first.
func (c *Client) Confirmed(ctx context.Context) ([]Confirmation, error) {
	r, err := ask[confirmedList](ctx, c, "list what was confirmed", 1, "Confirmed", nothing{})
	return r.Settings, err
}

// Claims returns which other programs set knobs on the host. Those of one knob are in the order
// in which they are applied.
func (c *Client) Claims(ctx context.Context, ids []model.KnobID) ([]model.Claim, error) {
	r, err := ask[claimList](ctx, c, "ask who manages settings", 1, "Claims", knobNames{ids})
	return r.Claims, err
}
