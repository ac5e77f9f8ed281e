package report

import (
	"time"

	"linerate/internal/core/model"
)

// ListItem is one line of a list of sessions. It has the fields of store.Item,
// so that one converts into the other.
type ListItem struct {
	ID      string             `json:"id"`
	Kind    model.Kind         `json:"kind"`
	Title   string             `json:"title"`
	Near    string             `json:"near"`
	Far     string             `json:"far"`
	Created time.Time          `json:"created"`
	Ended   time.Time          `json:"ended,omitzero"`
	State   model.SessionState `json:"state"`
	Reason  string             `json:"reason,omitempty"`
	Runs    int                `json:"runs"`     // valid ones
	MaxRuns int                `json:"max_runs"` // that the plan allows; 0 where there is no plan
}

// List is the document of a list of sessions, linerate/list/v1.
type List struct {
	Sessions []ListItem `json:"sessions"`
}
