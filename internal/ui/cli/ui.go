package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/spf13/cobra"

	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/report"
	"linerate/internal/store"
	"linerate/internal/ui/opener"
	"linerate/internal/ui/web"
)

// uiFlags are those of the local page.
type uiFlags struct {
	port   int
	noOpen bool
}

func (a *console) uiCommand() *cobra.Command {
	var f uiFlags
	c := &cobra.Command{
		Use: "ui", Short: "the stored sessions as a local page, with one that runs",
		Long: `ui opens a page with the stored sessions in the browser: a list, any report as
linerate report writes it, and a session that another linerate measures at the
moment, whose rates appear as they are measured.

It listens on this machine alone, at 127.0.0.1, and its link lets in one browser,
once: whoever has it first. Nothing can be changed through the page, and ctrl-c
ends it at once. --no-open prints the link and opens nothing; so does --json.`,
		Example: "  linerate ui\n  linerate ui --no-open --port 8080",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case f.port < 0 || f.port > 65535:
				return fault.Usagef("--port: %d is not a port from 1 to 65535, or 0 for a free one", f.port)
			case a.storePath() == inMemory:
				return fault.WithHint(fault.Usagef("--db :memory: holds nothing that could be shown"), "name the file that the sessions are in, or leave --db out")
			}
			return a.ui(cmd.Context(), f)
		},
	}
	c.Flags().IntVar(&f.port, "port", 0, "port of 127.0.0.1 to listen on; 0 takes a free one")
	c.Flags().BoolVar(&f.noOpen, "no-open", false, "print the link, and open no browser")
	return c
}

// uiDoc is linerate/ui/v1: the address of the page.
type uiDoc struct {
	Link    string `json:"link"`    // to open, once
	Address string `json:"address"` // that it listens on
}

func (a *console) ui(ctx context.Context, f uiFlags) error {
	st, err := a.openStore(ctx)
	if err != nil {
		return err
	}
	defer st.Close()
	debug.SetMemoryLimit(readMemory)
	s, err := web.Listen(ctx, f.port, pages{a, st}, web.DefaultEvery)
	if err != nil {
		return fault.WithHint(err, "leave --port out, and a free one is taken")
	}
	return a.serveUI(ctx, s, f)
}

// serveUI prints the link of a local page, opens it, and answers until ctx ends.
func (a *console) serveUI(ctx context.Context, s *web.Server, f uiFlags) (err error) {
	served := make(chan error, 1)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() { served <- s.Serve(ctx) }()
	if a.json {
		err = a.document("linerate/ui/v1", uiDoc{s.Link(), s.Address()})
	} else {
		_, err = fmt.Fprintf(a.Out, "%s\n", s.Link())
	}
	if err == nil && !f.noOpen && !a.json {
		var dir string
		if dir, err = os.MkdirTemp("", "linerate-ui-*"); err == nil {
			defer os.RemoveAll(dir)
			err = a.openLink(ctx, dir, s.Link())
		}
	}
	if err != nil {
		stop()
		return errors.Join(err, <-served)
	}
	a.talk("this link opens once, in a browser of this machine; ctrl-c ends the page")
	return <-served
}

// openLink opens link in the browser, through a file that only its user may read: every user of
// this machine can see a program's arguments, but not the files in dir.
func (a *console) openLink(ctx context.Context, dir, link string) error {
	file := filepath.Join(dir, "linerate.html")
	page := `<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=` + html.EscapeString(link) + `"><title>linerate</title>`
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return err
	}
	if err := opener.Open(ctx, file, a.Getenv); err != nil && ctx.Err() == nil {
		a.talk("no browser was opened (%v): open the link by hand", err)
	}
	return nil
}

// pages provides the sessions of a store for the local page.
type pages struct {
	a  *console
	st results
}

// List implements web.Source.
func (p pages) List(ctx context.Context, host string) (report.List, error) {
	return p.a.listed(ctx, p.st, store.Filter{Limit: web.Listed, Host: host, NoLooks: true}, "")
}

// Mark implements web.Source.
func (p pages) Mark(ctx context.Context, id string) (string, error) {
	if id == "" {
		items, err := p.st.Sessions(ctx, store.Filter{Limit: web.Listed, NoLooks: true})
		return fmt.Sprint("list ", items), err
	}
	s, err := p.st.Brief(ctx, id)
	if err != nil {
		return "", missing(err)
	}
	last := model.Run{}
	if n := len(s.Runs); n > 0 {
		last = s.Runs[n-1]
	}
	return fmt.Sprint(s.State, s.Reason, len(s.Runs), len(s.Verdicts), s.Warnings, last.Number, last.Attempt, last.State), nil
}

// Session implements web.Source.
func (p pages) Session(ctx context.Context, id string) (model.Session, error) {
	s, err := p.st.Session(ctx, id)
	if err == nil && s.ID != id {
		err = store.ErrNotFound // the beginning of an ID, or last: not a permanent address
	}
	return s, missing(err)
}

// missing converts err for package web.
func missing(err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("there is no such session: %w", fs.ErrNotExist)
	}
	return err
}

// Document implements web.Source.
func (p pages) Document(s model.Session) report.Document {
	return report.Build(s, report.Options{Kinds: p.a.kinds(), Catalogue: p.a.knobs, Store: p.a.ownStore()})
}

// Report implements web.Source: the page that linerate report writes.
func (p pages) Report(ctx context.Context, id string, w io.Writer) error {
	s, err := p.Session(ctx, id)
	if err != nil {
		return err
	}
	t, err := p.a.readReport(ctx, p.st, s, true)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := cmp.Or(htmlPage(&text, t), t.samples.err); err != nil {
		return err
	}
	_, err = text.WriteTo(w)
	return err
}
