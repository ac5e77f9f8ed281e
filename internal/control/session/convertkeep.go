package session

import (
	"io/fs"
	"maps"
	"slices"

	"linerate/internal/control/session/sessionpb"
	"linerate/internal/core/model"
)

// This file converts what is kept over a restart.

func fileChanges() map[FileChange]sessionpb.FileChange {
	return map[FileChange]sessionpb.FileChange{
		FileNew: sessionpb.FileChange_FILE_CHANGE_NEW, FileChanged: sessionpb.FileChange_FILE_CHANGE_CHANGED, FileSame: sessionpb.FileChange_FILE_CHANGE_SAME,
	}
}

func restoreStates() map[model.FileState]sessionpb.RestoreState {
	return map[model.FileState]sessionpb.RestoreState{
		model.FileRestored: sessionpb.RestoreState_RESTORE_STATE_RESTORED, model.FileAlready: sessionpb.RestoreState_RESTORE_STATE_ALREADY,
		model.FileChanged: sessionpb.RestoreState_RESTORE_STATE_CHANGED, model.FileFailed: sessionpb.RestoreState_RESTORE_STATE_FAILED,
	}
}

// encodeSettings says whose settings they are.
func encodeSettings(list []model.Assignment, h model.Host) []*sessionpb.Assignment {
	list = slices.Clone(list[:min(len(list), MaxAssignments)])
	for i := range list {
		list[i].Host = h
	}
	return encodeAssignments(list)
}

// decodeSettings is decodeAssignments for lists that may be empty, and whose
// host goes without saying.
func decodeSettings(c *check, list []*sessionpb.Assignment, h model.Host) []model.Assignment {
	if len(list) == 0 {
		return nil
	}
	all := decodeAssignments(c, list, h)
	for i := range all {
		all[i].Host = ""
	}
	return all
}

func encodeKeeping(k Keeping, h model.Host) *sessionpb.KeepResponse {
	out := &sessionpb.KeepResponse{
		Format: clean(string(k.Format), MaxName), Reason: clean(k.Reason, MaxText), Commands: cleanAll(k.Commands[:min(len(k.Commands), maxCommands)]), Notes: cleanAll(k.Notes),
		Plan: clean(k.Plan, MaxName), Record: clean(k.Record, MaxName), Added: encodeSettings(k.Added, h),
	}
	for _, f := range k.Files[:min(len(k.Files), maxFiles)] {
		out.Files = append(out.Files, &sessionpb.KeepFile{
			Path: clean(f.Path, MaxValue), Change: fileChanges()[f.Change], Block: f.Block, Mode: uint32(f.Mode.Perm()), Diff: cleanLines(f.Diff, MaxDiff),
		})
	}
	for _, o := range k.Omitted[:min(len(k.Omitted), MaxAssignments)] {
		out.Omitted = append(out.Omitted, &sessionpb.Omission{Knob: clean(string(o.Knob), MaxName), Value: clean(o.Value, MaxValue), Reason: clean(o.Reason, MaxText)})
	}
	for _, id := range slices.Sorted(maps.Keys(k.Others)) {
		out.Others = append(out.Others, encodeOrigin(id, k.Others[id]))
	}
	out.Others = out.Others[:min(len(out.Others), MaxKnobs)]
	return out
}

func decodeKeeping(c *check, p *sessionpb.KeepResponse, h model.Host) Keeping {
	k := Keeping{
		Format: model.FileFormat(c.text("format", p.GetFormat(), MaxName)), Reason: c.text("reason", p.GetReason(), MaxText),
		Commands: c.texts("commands", p.GetCommands(), maxCommands), Notes: c.texts("notes", p.GetNotes(), MaxWarnings),
		Plan: c.text("plan", p.GetPlan(), MaxName), Record: c.text("record", p.GetRecord(), MaxName),
		Added: decodeSettings(c, p.GetAdded(), h), Others: decodeOrigins(c, p.GetOthers()),
	}
	c.count("files", len(p.GetFiles()), maxFiles)
	c.count("omitted settings", len(p.GetOmitted()), MaxAssignments)
	if c.err != nil {
		return Keeping{}
	}
	for _, f := range p.GetFiles() {
		one := KeepFile{
			Path: c.text("file", f.GetPath(), MaxValue), Block: f.GetBlock(), Mode: fs.FileMode(c.atMost("mode", int64(f.GetMode()), int64(fs.ModePerm))),
			Diff: c.lines("diff", f.GetDiff(), MaxDiff),
		}
		for change, number := range fileChanges() {
			if number == f.GetChange() {
				one.Change = change
			}
		}
		c.that(one.Change != "", "%s changes in an unknown way", one.Path)
		k.Files = append(k.Files, one)
	}
	for _, o := range p.GetOmitted() {
		k.Omitted = append(k.Omitted, model.Omission{
			Knob: model.KnobID(c.name("knob", o.GetKnob())), Value: c.text("value", o.GetValue(), MaxValue), Reason: c.text("reason", o.GetReason(), MaxText),
		})
	}
	return k
}

func encodeOrigin(id model.KnobID, l model.FileLine) *sessionpb.Origin {
	return &sessionpb.Origin{Id: clean(string(id), MaxName), File: clean(l.File, MaxValue), Line: uint32(l.Number), Text: clean(l.Text, MaxValue)}
}

func decodeOrigins(k *check, list []*sessionpb.Origin) map[model.KnobID]model.FileLine {
	k.count("origins", len(list), MaxKnobs)
	found := make(map[model.KnobID]model.FileLine)
	for _, o := range list[:min(len(list), MaxKnobs)] {
		id := model.KnobID(k.name("knob", o.GetId()))
		_, twice := found[id]
		k.that(!twice, "%s is told twice", id)
		found[id] = model.FileLine{
			File: k.text("file", o.GetFile(), MaxValue), Number: int(k.atMost("line", int64(o.GetLine()), maxBlock)), Text: k.text("text", o.GetText(), MaxValue),
		}
	}
	return found
}
