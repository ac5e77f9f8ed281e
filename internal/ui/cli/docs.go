package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"linerate/internal/core/plain"
	"linerate/internal/fault"
	"linerate/internal/ui/manual"
	"linerate/internal/ui/opener"
	"linerate/internal/ui/screen"
)

// docsSchema names the document of linerate docs.
const docsSchema = "linerate/docs/v1"

const (
	// foundInTopic is how many lines of one topic a search shows.
	foundInTopic = 8
	// textWidth is the widest text in columns; longer lines are hard to follow.
	textWidth = 100
)

// docsDoc is linerate/docs/v1.
type docsDoc struct {
	Topics []manual.Topic `json:"topics"`
	Search string         `json:"search,omitempty"`
	Hits   []manual.Hit   `json:"hits,omitempty"`
	More   int            `json:"more_hits,omitempty"`
}

func (a *console) docsCommand() *cobra.Command {
	var search string
	c := &cobra.Command{
		Use: "docs [TOPIC]", Short: "the manual and what belongs to it, in the terminal",
		Long: `docs shows a text of the manual, which is part of the program: in the pager that
$PAGER names, else in less, where a person looks; PAGER=cat wants none. Without TOPIC
it lists the topics. --search lists the lines in which all of the words stand.`,
		Example: `  linerate docs
  linerate docs manual
  linerate docs wire/iperf3
  linerate docs --search "black hole"`,
		Args: someArgs(0, 1, "at most a topic"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case search != "" && len(args) > 0:
				return fault.WithHint(fault.Usagef("--search looks in all topics: leave out %q", args[0]), "linerate docs %s shows that one", plain.ShellWord(args[0]))
			case cmd.Flags().Changed("search"):
				return a.searchDocs(search)
			case len(args) == 0:
				return a.listDocs()
			}
			return a.showDocs(cmd.Context(), args[0])
		},
	}
	c.Flags().StringVar(&search, "search", "", "list the lines in which all of these words stand")
	return c
}

// listDocs prints the topics.
func (a *console) listDocs() error {
	topics := manual.Topics()
	if a.json {
		return a.document(docsSchema, docsDoc{Topics: topics})
	}
	for _, t := range topics {
		fmt.Fprintf(a.Out, "%-22s  %s\n", t.Name, t.Title)
	}
	a.talk("linerate docs TOPIC shows one; linerate docs --search WORD looks in all of them")
	return nil
}

// showDocs shows one topic.
func (a *console) showDocs(ctx context.Context, name string) error {
	t, ok := manual.Find(name)
	if !ok {
		err := fault.Usagef("no topic %q", name)
		if near := plain.Nearest(strings.ToLower(name), topicNames()); near != "" {
			return fault.WithHint(err, "did you mean linerate docs %s?", near)
		}
		return fault.WithHint(err, "linerate docs lists the topics; linerate docs --search %s looks in all of them", plain.ShellWord(name))
	}
	if a.json {
		return a.document(docsSchema, docsDoc{Topics: []manual.Topic{t}})
	}
	o := manual.Options{Width: textWidth, Color: a.color()}
	if a.Width != nil {
		o.Width = min(a.Width(), textWidth)
	}
	text := t.Render(o)
	if a.OutTerminal {
		shown := text
		if !utf8Locale(a.Getenv) {
			shown = plain.ASCII(text)
		}
		if err := opener.Page(ctx, shown, a.raw.Out, a.raw.Err, a.Getenv); !errors.Is(err, opener.ErrNone) {
			return err
		}
	}
	if s, ok := a.Out.(*screen.Writer); ok {
		_, err := s.WriteStyled([]byte(text))
		return err
	}
	_, err := fmt.Fprint(a.Out, text)
	return err
}

// searchDocs prints the lines that contain all words.
func (a *console) searchDocs(text string) error {
	hits, more := manual.Search(text, foundInTopic)
	if len(hits) == 0 {
		return fault.WithHint(fault.Usagef("no text has %q", text), "fewer words, or a part of one, find more")
	}
	if a.json {
		return a.document(docsSchema, docsDoc{Topics: manual.Topics(), Search: text, Hits: hits, More: more})
	}
	topic, heading := "", ""
	for _, h := range hits {
		if h.Topic != topic || h.Heading != heading {
			if topic != "" {
				fmt.Fprintln(a.Out)
			}
			topic, heading = h.Topic, h.Heading
			fmt.Fprintf(a.Out, "linerate docs %s: %s\n", topic, heading)
		}
		fmt.Fprintf(a.Out, "  %s\n", h.Text)
	}
	if more > 0 {
		a.talk("and %d more lines: more words find fewer", more)
	}
	return nil
}

// topicNames returns the topics, with and without their folders.
func topicNames() []string {
	var names []string
	for _, t := range manual.Topics() {
		names = append(names, t.Name)
		if i := strings.LastIndex(t.Name, "/"); i >= 0 {
			names = append(names, t.Name[i+1:])
		}
	}
	return names
}
