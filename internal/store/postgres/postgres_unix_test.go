//go:build unix

package postgres_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"linerate/internal/confined"
	"linerate/internal/core/model"
	"linerate/internal/fault"
	"linerate/internal/must"
	"linerate/internal/store"
	"linerate/internal/store/postgres"
	"linerate/internal/store/postgres/postgrestest"
	"linerate/internal/store/storetest"
	"linerate/internal/store/tables"
)

// childEnv makes the test binary run a session in the database at this address until it is
// killed.
const childEnv = "LINERATE_POSTGRES_TEST_CHILD"

// server and why hold the server of all tests, or the reason why there is none.
var (
	server *postgrestest.Server
	why    error
)

func TestMain(m *testing.M) {
	if address := os.Getenv(childEnv); address != "" {
		fmt.Println(endless(context.Background(), address))
		os.Exit(1)
	}
	// A few random sessions show where databases differ; SQLite's tests run the full number.
	if err := flag.Set("rapid.checks", "20"); err != nil {
		panic(err)
	}
	server, why = postgrestest.Start(context.Background())
	code := m.Run()
	if why == nil {
		if err := server.Stop(); err != nil {
			fmt.Println(err)
			code = 1
		}
	}
	os.Exit(code)
}

// endless runs a session until it is killed, and prints a line once it has begun.
func endless(ctx context.Context, address string) error {
	s, err := postgres.Open(ctx, address)
	if err != nil {
		return err
	}
	if err := s.CreateSession(ctx, model.Session{ID: "endless", State: model.SessionRunning}); err != nil {
		return err
	}
	fmt.Println("runs")
	<-time.After(time.Minute)
	return errors.New("nobody killed it")
}

// database returns the address of an empty database, and skips the test without a server.
func database(t *testing.T) string {
	t.Helper()
	if errors.Is(why, postgrestest.ErrMissing) {
		t.Skip(why)
	} else if why != nil {
		t.Fatal(why)
	}
	return must.Get(server.Database(t.Context()))(t)
}

// nameOf returns the name of a database from the address that database returned.
func nameOf(address string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(address, "postgres://postgres@/"), "?")
	return name
}

func open(t *testing.T, address string) *postgres.Store {
	t.Helper()
	s := must.Get(postgres.Open(t.Context(), address))(t)
	t.Cleanup(func() {
		must.OK(t, errors.Join(s.Close(), s.Close())) // Close is idempotent
	})
	return s
}

// TestStore runs the suite that SQLite passes.
func TestStore(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Store { return open(t, database(t)) })
}

// TestSchema1 reads a database as the first release wrote it.
func TestSchema1(t *testing.T) {
	address := database(t)
	must.Do(t, server.Exec(t.Context(), nameOf(address), string(must.Get(os.ReadFile("testdata/schema1.sql"))(t))))
	storetest.Schema1(t, open(t, address))
}

// TestHostileRows: other people's rows that would take all memory give errors before they are
// fetched, and code in the place of a table does not run.
func TestHostileRows(t *testing.T) {
	confined.Run(t, 384<<20, 60, func(t *testing.T) {
		for name, c := range map[string]struct {
			statement string
			want      error
		}{
			"session of 60 MB": {`UPDATE linerate.sessions SET document = repeat('x', 60000000)`, tables.ErrTooLarge},
			"hosts of nothing": {`UPDATE linerate.sessions SET document = '{"hosts":[{"nics":[{}' || repeat(',{}', 5000000) || ']}]}'`, tables.ErrTooLarge},
			"a view":           {`ALTER TABLE linerate.changes RENAME TO old; CREATE VIEW linerate.changes AS SELECT * FROM linerate.old`, store.ErrForeign},
			"a trigger": {`CREATE FUNCTION linerate.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
				CREATE TRIGGER t BEFORE INSERT ON linerate.runs FOR EACH ROW EXECUTE FUNCTION linerate.f()`, store.ErrForeign},
			"a rule": {`CREATE RULE r AS ON INSERT TO linerate.runs DO INSTEAD NOTHING`, store.ErrForeign},
		} {
			address := database(t)
			s := open(t, address)
			must.Do(t, s.CreateSession(t.Context(), model.Session{ID: "it", State: model.SessionDone}))
			must.Do(t, server.Exec(t.Context(), nameOf(address), c.statement))
			_, err := s.Session(t.Context(), "it")
			if errors.Is(c.want, store.ErrForeign) {
				_, err = postgres.Open(t.Context(), address)
			}
			must.Is(t, err, c.want, "%s", name)
		}
	})
}

// TestHostileServer: a server that sends endless rows, or one row of 2 GB, causes a clear error
// with bounded memory.
func TestHostileServer(t *testing.T) {
	confined.Run(t, 1536<<20, 60, func(t *testing.T) {
		huge := must.Get((&pgproto3.DataRow{Values: [][]byte{nil}}).Encode(nil))(t)
		binary.BigEndian.PutUint32(huge[1:], 2_000_000_000)
		for name, c := range map[string]struct {
			row  []byte
			want string
		}{
			"rows without end": {must.Get((&pgproto3.DataRow{Values: [][]byte{bytes.Repeat([]byte("x"), 1000)}}).Encode(nil))(t), "larger than linerate writes"},
			"a row of 2 GB":    {huge, "body length"},
		} {
			l := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
			go func() {
				for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
					go pretend(conn, c.row)
				}
			}()
			s := must.Get(postgres.Open(t.Context(), "postgres://x:x@"+l.Addr().String()+"/x?sslmode=disable&default_query_exec_mode=simple_protocol"))(t)
			must.Say(t, must.Err(s.Session(t.Context(), "20")), c.want, name)
			_, _ = s.Close(), l.Close()
		}
	})
}

// pretend is a PostgreSQL server that has linerate's tables and answers a query for IDs with
// row, again and again.
func pretend(conn net.Conn, row []byte) {
	defer conn.Close()
	b := pgproto3.NewBackend(conn, conn)
	answer := func(tag string, values ...string) error {
		var d pgproto3.RowDescription
		var r pgproto3.DataRow
		for _, v := range values {
			d.Fields = append(d.Fields, pgproto3.FieldDescription{Name: []byte("x"), DataTypeOID: 25, DataTypeSize: -1})
			r.Values = append(r.Values, []byte(v))
		}
		if len(values) > 0 {
			b.Send(&d)
		}
		if tag != "" && len(values) > 0 {
			b.Send(&r)
		}
		if tag != "" {
			b.Send(&pgproto3.CommandComplete{CommandTag: []byte(tag)})
			b.Send(&pgproto3.ReadyForQuery{TxStatus: 'T'})
		}
		return b.Flush()
	}
	if _, err := b.ReceiveStartupMessage(); err != nil {
		return
	}
	b.Send(&pgproto3.AuthenticationOk{})
	b.Send(&pgproto3.ParameterStatus{Name: "standard_conforming_strings", Value: "on"})
	b.Send(&pgproto3.ParameterStatus{Name: "client_encoding", Value: "UTF8"})
	b.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	err := b.Flush()
	for err == nil {
		var m pgproto3.FrontendMessage
		if m, err = b.Receive(); err != nil {
			return
		}
		q, ok := m.(*pgproto3.Query)
		switch {
		case !ok:
			return
		case strings.Contains(q.String, "pg_tables"):
			err = answer("SELECT 1", "t", "t")
		case strings.Contains(q.String, "pg_class"):
			err = answer("SELECT 1", "")
		case strings.Contains(q.String, "linerate.version"):
			err = answer("SELECT 1", "1")
		case strings.Contains(q.String, "substr(id"):
			for err = answer("", ""); err == nil; {
				_, err = conn.Write(row)
			}
		default:
			err = answer("SELECT 0")
		}
	}
}

// TestSeveralPeople makes two stores create the schema at once and write a session each, while
// a third reads: the reader sees only whole runs, and no store waits for another.
func TestSeveralPeople(t *testing.T) {
	const runs, samples = 20, 500
	address := database(t)
	writers := make(chan error, 2)
	for _, id := range []string{"anna", "ben"} {
		go func() {
			s, err := postgres.Open(t.Context(), address)
			if err != nil {
				writers <- err
				return
			}
			err = s.CreateSession(t.Context(), model.Session{ID: id, State: model.SessionRunning})
			for n := 1; err == nil && n <= runs; n++ {
				err = s.AddRun(t.Context(), id, model.Run{Number: n, State: model.RunValid}, make([]model.Sample, samples), []model.Change{{Run: n}})
			}
			writers <- errors.Join(err, s.UpdateSession(t.Context(), model.Session{ID: id, State: model.SessionDone}), s.Close())
		}()
	}
	reader := open(t, address)
	looked := 0
	for left := 2; left > 0; looked++ {
		select {
		case err := <-writers:
			must.OK(t, err)
			left--
		default:
		}
		items := must.Get(reader.Sessions(t.Context(), store.Filter{}))(t)
		for _, i := range items {
			sess, err := reader.Session(t.Context(), i.ID)
			must.Need(t, err == nil && len(sess.Runs) >= i.Runs && len(sess.Changes) == len(sess.Runs),
				"%s: %d runs, %d changes, %d listed, %v", i.ID, len(sess.Runs), len(sess.Changes), i.Runs, err)
			if n := len(sess.Runs); n > 0 {
				got, err := reader.Samples(t.Context(), i.ID, n)
				must.Need(t, err == nil && len(got) == samples, "%s: %d samples of run %d, %v", i.ID, len(got), n, err)
			}
		}
	}
	t.Logf("the reader looked %d times", looked)
	for _, id := range []string{"anna", "ben"} {
		sess, err := reader.Session(t.Context(), id)
		must.True(t, err == nil && len(sess.Runs) == runs && sess.State == model.SessionDone, "%s: %d runs, %s, %v", id, len(sess.Runs), sess.State, err)
	}
}

// TestStopped distinguishes a session that another process measures, which no other process may
// resume, from one whose process was killed, which any process may.
func TestStopped(t *testing.T) {
	address := database(t)
	s := open(t, address)
	exe := must.Get(os.Executable())(t)
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+address)
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	lines := bufio.NewScanner(out)
	must.Need(t, lines.Scan() && lines.Text() == "runs", "the other process said %q", lines.Text())
	state := func(s *postgres.Store) model.SessionState {
		t.Helper()
		sess, err := s.Session(t.Context(), "endless")
		items, lerr := s.Sessions(t.Context(), store.Filter{State: sess.State})
		if len(items) == 0 { // it has ended in between
			sess.State = model.SessionStopped
			items, lerr = s.Sessions(t.Context(), store.Filter{State: sess.State})
		}
		err = errors.Join(err, lerr)
		must.Need(t, err == nil && len(items) == 1, "%v; listed as %s: %v", err, sess.State, items)
		return sess.State
	}
	again := model.Session{ID: "endless", State: model.SessionRunning}
	must.Equal(t, state(s), model.SessionRunning, "while it runs")
	must.Is(t, s.UpdateSession(t.Context(), again), store.ErrRunning, "it goes on twice")
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	for deadline := time.Now().Add(20 * time.Second); state(s) != model.SessionStopped && time.Now().Before(deadline); {
	}
	got := state(s)
	must.Need(t, got == model.SessionStopped, "%s after it was killed", got)
	must.Do(t, s.UpdateSession(t.Context(), again))
	must.Equal(t, state(open(t, address)), model.SessionRunning, "while this process runs it")
	again.State = model.SessionDone
	err := s.UpdateSession(t.Context(), again)
	must.True(t, err == nil && state(s) == model.SessionDone, "%s at its end, %v", state(s), err)
}

// TestLockComesBack: after the connection that holds a session breaks, as in a server restart,
// the next update of the session takes the lock again.
func TestLockComesBack(t *testing.T) {
	address := database(t)
	s, other := open(t, address), open(t, address)
	sess := model.Session{ID: "long", State: model.SessionRunning}
	must.Do(t, s.CreateSession(t.Context(), sess))
	must.Do(t, server.Exec(t.Context(), nameOf(address), `SELECT pg_terminate_backend(pid, 10000) FROM pg_locks WHERE locktype = 'advisory'`))
	must.Do(t, s.UpdateSession(t.Context(), sess))
	must.Is(t, other.UpdateSession(t.Context(), sess), store.ErrRunning, "the other")
}

// TestRefusals opens invalid addresses: every error gives a remedy, and none contains the
// password.
func TestRefusals(t *testing.T) {
	address := database(t)
	tcp := func(user, password, database, more string) string {
		u := url.URL{Scheme: "postgres", User: url.UserPassword(user, password), Host: fmt.Sprintf("127.0.0.1:%d", server.Port), Path: "/" + database, RawQuery: more}
		return u.String()
	}
	right := tcp(postgrestest.User, postgrestest.Password, nameOf(address), "")
	foreign, newer, reader := database(t), database(t), database(t)
	exec := func(address, script string) {
		t.Helper()
		must.Do(t, server.Exec(t.Context(), nameOf(address), script))
	}
	exec(foreign, `CREATE SCHEMA linerate; CREATE TABLE linerate.t (x INT)`)
	open(t, newer)
	exec(newer, `UPDATE linerate.version SET version = 99`)
	exec(reader, `CREATE ROLE reader LOGIN PASSWORD 'secret'`)
	defer exec(reader, `DROP ROLE reader`)
	for name, c := range map[string]struct {
		address, say, hint string
		is                 error
	}{
		"away":           {"postgres://anna:hush-hush@127.0.0.1:1/lab", "127.0.0.1:1/lab: no PostgreSQL answers there: connect: connection refused", "is the server running", nil},
		"no such host":   {"postgres://anna:hush-hush@nowhere.invalid/lab", "its host is not known", "LINERATE_DB", nil},
		"no database":    {tcp(postgrestest.User, postgrestest.Password, "nowhere", ""), `database "nowhere" does not exist`, "createdb", nil},
		"wrong":          {tcp(postgrestest.User, "hush-hush", "postgres", ""), "password authentication failed", "~/.pgpass", fs.ErrPermission},
		"no TLS":         {tcp(postgrestest.User, postgrestest.Password, "postgres", "sslmode=require"), "has no TLS", "sslmode=disable", nil},
		"no rights":      {tcp("reader", "secret", nameOf(reader), ""), "permission denied", "GRANT", fs.ErrPermission},
		"cannot be read": {"postgres://anna:hush/hush@db:port/lab", "the address of the database cannot be read", "~/.pgpass", nil},
		"of another":     {foreign, "not a store of linerate", "", store.ErrForeign},
		"newer":          {newer, "version 99, this linerate knows 1", "", store.ErrNewer},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := postgres.Open(t.Context(), c.address)
			if err == nil {
				t.Fatal(errors.Join(errors.New("opened"), s.Close()))
			}
			var hint *fault.Error
			hinted := errors.As(err, &hint)
			if !strings.Contains(err.Error(), c.say) || hinted != (c.hint != "") || hinted && !strings.Contains(hint.Hint, c.hint) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("%v (%+v), want %q, the hint %q and %v", err, hint, c.say, c.hint, c.is)
			}
			for _, secret := range []string{"hush", url.PathEscape(postgrestest.Password), postgrestest.Password, "word"} {
				must.True(t, !strings.Contains(strings.ReplaceAll(err.Error(), "password", ""), secret), "%v says a password", err)
			}
		})
	}
	s := open(t, right) // the same with the right password
	got := s.Path()
	must.True(t, strings.Contains(got, postgrestest.User+"@127.0.0.1") && !strings.Contains(got, "word"), "it is called %s", got)
	must.OK(t, open(t, address).CreateSession(t.Context(), model.Session{ID: "x"}))
}
