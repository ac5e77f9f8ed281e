package cli

import (
	"context"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"linerate/internal/core/model"
	"linerate/internal/fault"
)

// noteMost is the longest note in bytes: a paragraph, not a file.
const noteMost = 4 << 10

func (a *console) annotateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "annotate ID TEXT", Short: "write a note beside a stored session",
		Long: `annotate keeps TEXT beside a session: list, show and report have it, and
list --text finds it. It replaces the note of before; an empty TEXT removes it.
Nothing else of the session changes.`,
		Example: "  linerate annotate last 'after the new cable'\n  linerate annotate 20261121T0132 ''",
		Args:    exactArgs("a session's ID", "a text"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.annotate(cmd.Context(), args[0], args[1])
		},
	}
}

func (a *console) annotate(ctx context.Context, ref, note string) error {
	if len(note) > noteMost || !utf8.ValidString(note) {
		return fault.Usagef("a note is text of at most %d bytes", noteMost)
	}
	st, s, err := a.openSession(ctx, ref)
	if err != nil {
		return err
	}
	defer st.Close()
	if err := st.SetNote(ctx, s.ID, note); err != nil {
		return err
	}
	return a.listOf(ctx, st, []model.Session{s})
}
