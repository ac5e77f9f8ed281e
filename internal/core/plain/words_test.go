package plain_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"linerate/internal/core/plain"
	"linerate/internal/must"
)

// TestWords checks that real errors of Go become other words, and that the rest of a sentence
// stays.
func TestWords(t *testing.T) {
	_, whole := strconv.ParseInt("four", 10, 64)
	_, from0 := strconv.ParseUint("-1", 10, 64)
	_, number := strconv.ParseFloat("fast", 64)
	_, large := strconv.Atoi("99999999999999999999")
	_, yes := strconv.ParseBool("maybe")
	missing := filepath.Join(t.TempDir(), "missing")
	_, open := os.Open(missing)
	start := exec.CommandContext(t.Context(), "nosuchprogram-of-linerate").Run()
	file := exec.CommandContext(t.Context(), missing).Run()
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	addr := l.Addr().String()
	_, again := new(net.ListenConfig).Listen(t.Context(), "tcp", addr)
	_ = l.Close()
	_, refused := new(net.Dialer).DialContext(t.Context(), "tcp", addr)
	host := &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "nas", Server: "192.0.2.53:53", IsNotFound: true}}
	reset := &net.OpError{Op: "read", Net: "tcp", Source: l.Addr(), Addr: l.Addr(), Err: os.NewSyscallError("read", errors.New("connection reset by peer"))}
	for _, c := range []struct {
		err  error
		want string
	}{
		{whole, `"four" is not a whole number`}, {from0, `"-1" is not a whole number from 0`}, {number, `"fast" is not a number`},
		{large, `"99999999999999999999" is out of range`}, {yes, `"maybe" is neither true nor false`}, {open, missing + ": no such file or directory"},
		{start, "nosuchprogram-of-linerate: no such program"}, {file, missing + ": no such program"}, {again, addr + ": address already in use"},
		{refused, "connect to " + addr + ": connection refused"}, {host, "the name nas is not known"}, {reset, "the other end hung up"},
		{context.DeadlineExceeded, "no answer in time"}, {os.ErrDeadlineExceeded, "no answer in time"}, {io.ErrUnexpectedEOF, "it ended in the middle"},
		{io.EOF, "the other end hung up"}, {net.ErrClosed, "the connection was closed"}, {fs.ErrNotExist, "file does not exist"},
		{errors.New("the size of a look-up, read by nobody"), "the size of a look-up, read by nobody"},
	} {
		must.Equal(t, plain.Words(c.err.Error()), c.want, "%q", c.err)
		got, want := plain.Words(fmt.Sprintf("read state of nas: %v: then more", c.err)), "read state of nas: "+c.want+": then more"
		must.True(t, got == want, "in a sentence: %q, want %q", got, want)
	}
}

func TestASCII(t *testing.T) {
	for in, want := range map[string]string{
		"latency 47 ms": "latency 47 ms", "9.8 µs": "9.8 us", "−3 % ◂──●──▸ │": "-3 % <--o--> |", "naïve 東": "na?ve ?", "a → b": "a > b",
	} {
		must.Equal(t, plain.ASCII(in), want, "%q", in)
	}
}

func TestDatabases(t *testing.T) {
	for text, want := range map[string]string{
		"postgres://db/lab":                                        "postgres://db/lab",
		"--db=postgresql://anna:s3cret@db:5433/lab":                "--db=postgresql://anna:...@db:5433/lab",
		"postgres://anna:a/b?c#d@e@db/lab":                         "postgres://anna:...@db/lab",
		"postgres://anna@db/lab?password=s3cret&sslmode=require":   "postgres://anna@db/lab?password=...&sslmode=require",
		"postgres://db/lab?sslmode=require&sslpassword=s3cret":     "postgres://db/lab?sslmode=require&sslpassword=...",
		"run --db postgres://a:b@c/d --yes, or postgres://e:f@g/h": "run --db postgres://a:...@c/d --yes, or postgres://e:...@g/h",
		"postgres://anna:%zz@db:port/lab":                          "postgres://anna:...@db:port/lab",
		"/home/anna/results.db":                                    "/home/anna/results.db",
		"postgres://postgres@/lab?host=/run/postgresql&port=5433":  "postgres://postgres@/lab?host=/run/postgresql&port=5433",
		"a mail to anna:b@example.org is no address of a database": "a mail to anna:b@example.org is no address of a database",
	} {
		must.Equal(t, plain.Databases(text), want, "%s", text)
	}
}
