//go:build unix

package cli

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"linerate/internal/must"
	"linerate/internal/store/postgres/postgrestest"
)

// TestSharedResults stores results in a database of a real server: they are listed, shown and
// removed like those in a file, and a password written into --db appears in no output or record.
func TestSharedResults(t *testing.T) {
	server, err := postgrestest.Start(t.Context())
	if errors.Is(err, postgrestest.ErrMissing) {
		t.Skip(err)
	}
	must.Do(t, err)
	defer func() { must.OK(t, server.Stop()) }()
	must.Do(t, server.Exec(t.Context(), "postgres", "CREATE DATABASE lab OWNER "+postgrestest.User))
	u := url.URL{Scheme: "postgres", User: url.UserPassword(postgrestest.User, postgrestest.Password), Host: fmt.Sprintf("127.0.0.1:%d", server.Port), Path: "/lab"}
	table := filepath.Join(t.TempDir(), "rates.csv")
	must.Do(t, os.WriteFile(table, []byte("rate,setting\n900,before\n910,before\n940,after\n"), 0o600))
	w := newWorld(t)
	args := os.Args
	defer func() { os.Args = args }()
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"list", "--db", u.String()}, 0, "no sessions in postgres://linerate@127.0.0.1:"},
		{[]string{"import", table, "--column", "goodput=rate:Mbit/s", "--column", "setting=setting", "--db", u.String()}, 0, "905 Mbit/s"},
		{[]string{"show", "last", "--json=full", "--samples", "--db", u.String()}, 0, `"kind": "imported"`},
		{[]string{"list", "--db", u.String()}, 0, "imported"},
		{[]string{"list", "--db=" + strings.Replace(u.String(), "lab", "other", 1)}, 6, `database "other" does not exist`},
		{[]string{"list", "--db=" + u.String() + "?sslmode=require"}, 6, "turn ssl on"},
		{[]string{"rm", "last", "--yes", "--db", u.String()}, 0, "removed 1 session from postgres://linerate@127.0.0.1:"},
	} {
		os.Args = append([]string{"linerate"}, c.args...) // the stored command line
		must.Equal(t, w.main(t, c.args...), c.code, "%q: exit code", c.args)
		said := w.out.String() + w.err.String()
		must.True(t, strings.Contains(said, c.says) && strings.Contains(said, "the password in --db can be read"), "%q does not say %q:\n%s", c.args, c.says, said)
		must.True(t, !strings.Contains(said, "pass@word") && !strings.Contains(said, url.PathEscape("pass@word")), "%q says the password:\n%s", c.args, said)
	}
	w.vars["LINERATE_DB"] = server.URL("lab") // without a warning
	code := w.main(t, "list")
	must.True(t, code == 0 && !strings.Contains(w.err.String(), "password"), "exit code %d\n%s", code, w.err.String())
}
