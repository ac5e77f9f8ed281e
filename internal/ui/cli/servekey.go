package cli

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"linerate/internal/app"
	"linerate/internal/app/here"
	"linerate/internal/control/access"
	"linerate/internal/control/wire/tls"
	"linerate/internal/core/units"
	"linerate/internal/host/durable"
	"linerate/internal/host/sandbox"
)

// serveDir is where a server has its key and the keys of its users, below the
// state directory.
const serveDir = "serve"

// addressFile is where a server notes how its link names it: HOST:PORT.
const addressFile = "serve-address.txt"

// longestLife bounds --expires; a key without it has no end.
const longestLife = 100 * 365 * 24 * time.Hour

// keyCommand has the commands about the keys of a server.
func (a *console) keyCommand() *cobra.Command {
	c := &cobra.Command{
		Use: "key", Short: "who may use the server of this machine",
		Long: `key makes, lists and takes back the keys of linerate serve on this machine. A key
has a name, which stands in the audit log, and a right: measure, or tune, which lets
its holder change settings of this host too where serve runs with --allow-tune. A
server that runs sees the change at once; who uses a key that is taken back is cut
off, and what he changed is undone.`,
		Example: "  linerate serve key add ci --right measure --expires 30d\n  linerate serve key list\n  linerate serve key revoke ci",
		Args:    exactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return withHint(usagef("key takes add, list or revoke"), "see %s --help", cmd.CommandPath())
		},
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

Give the link to its user in a file that nobody else can read, who says
linerate test @FILE, or sets LINERATE_LINK to it and says linerate test @.`,
		Example: "  linerate serve key add ci --right measure --expires 30d\n  linerate serve key add ops --right tune --host nas.example:5299",
		Args:    exactArgs("NAME"),
		RunE: func(_ *cobra.Command, args []string) error {
			return a.addKey(args[0], right, expires, host, state)
		},
	}
	fl := c.Flags()
	fl.StringVar(&right, "right", string(access.Measure), "what the key allows: measure or tune")
	fl.StringVar(&expires, "expires", "", "how long it is valid, like 12h, 30d or 8w (default: until it is revoked)")
	fl.StringVar(&host, "host", "", "name or address in the link, with :PORT if it is not the server's (default: as the server said at its last start)")
	bindServeState(c, &state)
	return c
}

func bindServeState(c *cobra.Command, state *string) {
	c.Flags().StringVar(state, "state", "", "directory of the server's state (default: $LINERATE_STATE, else the system's)")
}

// keyStore is the keys of the server whose state is in state.
func keyStore(state string) (access.Store, error) {
	dir, err := here.StateDir(state)
	return access.Store{Dir: filepath.Join(dir, serveDir)}, err
}

// ownStore is keyStore for the commands about keys. Where root speaks of a server
// that runs as another user, such as a dynamic one of systemd, whose directory
// root does not trust, it becomes that user: the directory is entered first, since
// the way to it may be open to root only (/var/lib/private).
func (a *console) ownStore(state string) (access.Store, error) {
	s, err := keyStore(state)
	if !errors.Is(err, durable.ErrUntrusted) {
		return s, err
	}
	if os.Chdir(filepath.Dir(s.Dir)) != nil {
		return s, err
	}
	u, ok := sandbox.OwnerOf(".")
	if !ok {
		return s, err // it is root's, and others may write to it
	}
	if err := sandbox.Drop(u); err != nil {
		return s, err
	}
	a.talk("linerate: as %s, who owns this server's state", u)
	return access.Store{Dir: serveDir}, nil
}

func (a *console) addKey(name, right, expires, host, state string) error {
	r, err := access.ParseRight(right)
	if err != nil {
		return app.WithKind(app.Usage, err)
	}
	var end time.Time
	if expires != "" {
		life, err := parseLife(expires)
		if err != nil {
			return withHint(app.WithKind(app.Usage, err), "write it like --expires 12h, --expires 30d or --expires 8w")
		}
		end = a.Now().Add(life)
	}
	s, err := a.ownStore(state)
	if err != nil {
		return err
	}
	identity, err := tls.LoadKey(s.Dir)
	if err != nil {
		return withHint(err, "use --state DIR for a directory of yours")
	}
	k, secret, err := s.Add(name, r, end)
	switch {
	case errors.Is(err, access.ErrName):
		return app.WithKind(app.Usage, err)
	case errors.Is(err, access.ErrExists):
		return withHint(err, "take it back first: linerate serve key revoke %s", name)
	case err != nil:
		return err
	}
	link := tls.Link{Addr: linkAddress(host, s.Dir), Pin: identity.Pin(), Secret: base64.RawURLEncoding.EncodeToString(secret)}
	if a.json {
		return a.document("linerate/key/v1", describeKey(k, a.Now(), time.Time{}, link.String()))
	}
	until := ""
	if !k.Expires.IsZero() {
		until = ", until " + k.Expires.Format(time.RFC3339)
	}
	_, err = fmt.Fprintf(a.Out, "key %s may %s%s; its link is shown this once:\n  %s\n", k.Name, k.Right, until, link)
	return err
}

// parseLife reads a duration that may be days or weeks.
func parseLife(s string) (time.Duration, error) {
	for unit, one := range map[string]time.Duration{"d": 24 * time.Hour, "w": 7 * 24 * time.Hour} {
		var n int
		if count, ok := strings.CutSuffix(s, unit); ok {
			if _, err := fmt.Sscanf(count+";", "%d;", &n); err != nil || n <= 0 || time.Duration(n) > longestLife/one {
				return 0, fmt.Errorf("--expires %.40q is not a time", s)
			}
			return time.Duration(n) * one, nil
		}
	}
	d, err := units.ParseDuration(s)
	if err == nil && (d <= 0 || d > longestLife) {
		err = fmt.Errorf("--expires %.40q is not a time to come", s)
	}
	return d, err
}

// linkAddress is HOST:PORT for a link to the server whose files are in dir: what
// the user says, completed by what the server said at its last start.
func linkAddress(given, dir string) string {
	host, port := linkHost("", nil), tls.DefaultPort
	if b, err := os.ReadFile(filepath.Join(dir, addressFile)); err == nil {
		if h, p, err := net.SplitHostPort(strings.TrimSpace(string(b))); err == nil {
			host, port = h, p
		}
	}
	if given == "" {
		return net.JoinHostPort(host, port)
	}
	if h, p, err := net.SplitHostPort(given); err == nil {
		return net.JoinHostPort(h, p)
	}
	return net.JoinHostPort(strings.Trim(given, "[]"), port)
}

// keyDoc is linerate/key/v1, and an entry of linerate/keys/v1.
type keyDoc struct {
	Name     string     `json:"name"`
	Right    string     `json:"right"`
	Created  time.Time  `json:"created"`
	Expires  *time.Time `json:"expires"`   // null: never
	LastUsed *time.Time `json:"last_used"` // null: not, or not known
	State    string     `json:"state"`
	Link     string     `json:"link,omitempty"`
}

func describeKey(k access.Key, now, used time.Time, link string) keyDoc {
	known := func(t time.Time) *time.Time {
		if t.IsZero() {
			return nil
		}
		return &t
	}
	return keyDoc{Name: k.Name, Right: string(k.Right), Created: k.Created, Expires: known(k.Expires), LastUsed: known(used), State: string(k.State(now)), Link: link}
}

func (a *console) keyListCommand() *cobra.Command {
	var state string
	c := &cobra.Command{
		Use: "list", Short: "the keys, with right, expiry and last use",
		Example: "  linerate serve key list\n  linerate serve key list --json",
		Args:    exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			s, err := a.ownStore(state)
			if err != nil {
				return err
			}
			keys, err := s.List()
			if err != nil {
				return err
			}
			used, all := s.Used(), []keyDoc{}
			for _, k := range keys {
				all = append(all, describeKey(k, a.Now(), used[k.Hash], ""))
			}
			if a.json {
				return a.document("linerate/keys/v1", map[string]any{"keys": all})
			}
			return writeKeys(a.Out, all)
		},
	}
	bindServeState(c, &state)
	return c
}

func writeKeys(w io.Writer, all []keyDoc) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no keys: the first linerate serve makes one, linerate serve key add NAME another")
		return err
	}
	day := func(t *time.Time, none string) string {
		if t == nil {
			return none
		}
		return t.UTC().Format("2006-01-02 15:04Z")
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "name\tright\tcreated\texpires\tlast used\tstate")
	for _, k := range all {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\n", k.Name, k.Right, day(&k.Created, ""), day(k.Expires, "never"), day(k.LastUsed, "not yet"), k.State)
	}
	return t.Flush()
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
			s, err := a.ownStore(state)
			if err != nil {
				return err
			}
			k, err := s.Revoke(args[0])
			if errors.Is(err, access.ErrUnknown) {
				return withHint(err, "linerate serve key list shows those that there are")
			}
			if err != nil {
				return err
			}
			if a.json {
				return a.document("linerate/key/v1", describeKey(k, a.Now(), s.Used()[k.Hash], ""))
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
			s, err := a.ownStore(state)
			if err != nil {
				return err
			}
			secret, err := s.Shown()
			if err == nil && secret == nil {
				err = withHint(errors.New("there is no key default whose link can be printed"),
					"linerate serve makes one at its first start; linerate serve key add NAME makes another and prints its link")
			}
			if err != nil {
				return err
			}
			identity, err := tls.LoadKey(s.Dir)
			if err != nil {
				return err
			}
			link := tls.Link{Addr: linkAddress(host, s.Dir), Pin: identity.Pin(), Secret: base64.RawURLEncoding.EncodeToString(secret)}
			if a.json {
				return a.document("linerate/link/v1", map[string]any{"link": link.String()})
			}
			_, err = fmt.Fprintln(a.Out, link)
			return err
		},
	}
	c.Flags().StringVar(&host, "host", "", "name or address in the link, with :PORT if it is not the server's (default: as the server said at its last start)")
	bindServeState(c, &state)
	return c
}
