package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"linerate/internal/app/serve"
)

// keyCommand groups the commands for the keys of a server.
func (a *console) keyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "key", Short: "who may use the server of this machine",
		Long: `key makes, lists and takes back the keys of linerate serve on this machine. A key
has a name, which stands in the audit log, and a right: measure, or tune, which lets
its holder change settings of this host too where serve runs with --allow-tune. A
server that runs sees the change at once; who uses a key that is taken back is cut
off, and what he changed is undone.`,
		Example: "  linerate serve key add ci --right measure --expires 30d\n  linerate serve key list\n  linerate serve key revoke ci",
		Args:    knownCommand,
		RunE:    knownCommand,
	}
	c.AddCommand(a.keyAddCommand(), a.keyListCommand(), a.keyRevokeCommand())
	return c
}

func (a *console) keyAddCommand() *cobra.Command {
	var right, expires, host, state string
	c := &cobra.Command{
		Use: "add NAME", Short: "make a key, and print its join link",
		Long: `add makes a key and prints its join link, which holds its secret. This is the only
time that it is printed: only a hash of the secret is kept here.

Give the link to its user in a file that only he can read, who says
linerate test @FILE, or sets LINERATE_LINK to it and says linerate test @.`,
		Example: "  linerate serve key add ci --right measure --expires 30d\n  linerate serve key add ops --right tune --host nas.example:5299",
		Args:    exactArgs("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.addKey(args[0], right, expires, host, state)
		},
	}
	fl := c.Flags()
	fl.StringVar(&right, "right", serve.DefaultRight, "what the key allows: measure or tune")
	fl.StringVar(&expires, "expires", "", "how long it is valid, like 12h, 30d or 8w (default: until it is revoked)")
	fl.StringVar(&host, "host", "", "name or address in the link, with :PORT if it is not the server's (default: as the server said at its last start)")
	bindServeState(c, &state)
	return c
}

func bindServeState(c *cobra.Command, state *string) {
	c.Flags().StringVar(state, "state", "", "directory of the server's state (default: $LINERATE_STATE, else the system's)")
}

func (a *console) addKey(name, right, expires, host, state string) error {
	key, link, err := a.keys(state).Add(name, right, expires, host)
	if err != nil {
		return err
	}
	if a.json {
		key.Link = link
		return a.document("linerate/key/v1", key)
	}
	until := ""
	if !key.Expires.IsZero() {
		until = ", until " + key.Expires.Format(time.RFC3339)
	}
	_, err = fmt.Fprintf(a.Out, "key %s may %s%s; its link is shown this once:\n  %s\n", key.Name, key.Right, until, link)
	return err
}

// keys returns the keys of the server whose state is in state.
func (a *console) keys(state string) serve.Keys { return serve.Keys{Env: a.world(), State: state} }

func (a *console) keyListCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "list", Short: "the keys, with right, expiry and last use",
		Example: "  linerate serve key list\n  linerate serve key list --json",
		Args:    exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			keys, err := a.keys(state).List()
			if err != nil {
				return err
			}
			if a.json {
				return a.document("linerate/keys/v1", map[string]any{"keys": append([]serve.Key{}, keys...)})
			}
			return a.writeKeys(keys)
		},
	}
	bindServeState(c, &state)
	return c
}

func (a *console) writeKeys(all []serve.Key) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(a.Out, "no keys: the first linerate serve makes one, linerate serve key add NAME another")
		return err
	}
	day := func(t time.Time, none string) string {
		if t.IsZero() {
			return none
		}
		return t.UTC().Format("2006-01-02 15:04Z")
	}
	var rows [][]string
	for _, k := range all {
		rows = append(rows, []string{k.Name, string(k.Right), day(k.Created, ""), day(k.Expires, "never"), day(k.LastUsed, "not yet"), string(k.State)})
	}
	p := a.page()
	p.Table([]string{"name", "right", "created", "expires", "last used", "state"}, rows, nil)
	return p.Print(a.Out)
}

func (a *console) keyRevokeCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "revoke NAME", Short: "take a key back",
		Long: `revoke takes a key back: within a second a server that runs ends the sessions that
use it, and undoes what they changed. A key added by the same name later has another
secret.`,
		Example: "  linerate serve key revoke ci",
		Args:    exactArgs("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			k, err := a.keys(state).Revoke(args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.document("linerate/key/v1", k)
			}
			_, err = fmt.Fprintf(a.Out, "key %s is revoked\n", k.Name)
			return err
		},
	}
	bindServeState(c, &state)
	return c
}

// linkCommand prints the link of the first key again.
func (a *console) linkCommand() *cobra.Command {
	var host, state string
	c := &cobra.Command{
		Use: "link", Short: "print the join link of the key default again",
		Long: `link prints the join link of the key that the first start of serve made, named
default. Links of other keys are printed once, by linerate serve key add: this
machine knows only a hash of their secrets.`,
		Example: "  linerate serve link --host nas",
		Args:    exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			link, err := a.keys(state).Link(host)
			if err != nil {
				return err
			}
			if a.json {
				return a.document("linerate/link/v1", map[string]any{"link": link})
			}
			_, err = fmt.Fprintln(a.Out, link)
			return err
		},
	}
	c.Flags().StringVar(&host, "host", "", "name or address in the link, with :PORT if it is not the server's (default: as the server said at its last start)")
	bindServeState(c, &state)
	return c
}
