package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"linerate/internal/must"
	"linerate/internal/ui/cli"
)

// goWords matches words that a user should not see: words of Go and its packages.
var goWords = regexp.MustCompile(`strconv\.|ParseInt|ParseFloat|ParseUint|ParseBool|invalid syntax|context deadline|context canceled|deadline exceeded|` +
	`dial tcp|dial udp|i/o timeout|\bEOF\b|read tcp|write tcp|: connect: |fork/exec|executable file not found|\$PATH|lookup |no such host|net/url|` +
	`goroutine |panic:|runtime error|nil pointer|%!|<nil>|\*errors|[ "(](?:json|yaml|sql|x509|tls): |unsupported protocol|closed network connection|` +
	`exit status|signal: |invalid argument "|flag needs an argument|unknown shorthand|\bmap\[|0x[0-9a-f]{6}|(?m)^linerate: (open|stat|mkdir|lstat|read) /`)

// atATime is how many lines run in parallel: most of them wait.
const atATime = 12

// judge compares the result of a line with the requirements.
func judge(t testing.TB, m mistake, r result) {
	t.Helper()
	said := strings.Join(strings.Fields(r.err), " ")
	var wrong []string
	complain := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	if r.code != m.code {
		complain("exit code %d, want %d", r.code, m.code)
	}
	for _, w := range m.words {
		if !strings.Contains(said, w) {
			complain("no %q", w)
		}
	}
	if found := goWords.FindString(r.err); found != "" {
		complain("words of Go: %q", found)
	}
	if told := slices.Contains(m.args, "--json") && validate("linerate/error/v1", r.out) == nil; r.out != "" && !told {
		complain("on stdout: %s", r.out)
	}
	if !strings.Contains(r.err, "linerate: ") {
		complain("nobody says it")
	}
	for line := range strings.Lines(r.err) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "block ") {
			continue // progress, which a busy machine may print
		}
		command := strings.HasPrefix(strings.TrimSpace(line), "linerate ")
		if utf8.RuneCountInString(line) > 80 && strings.Contains(strings.TrimPrefix(strings.TrimSpace(line), "linerate: "), " ") && !command && !ownProcess(m.args) {
			complain("wider than 80 columns: %s", line)
		}
	}
	must.Len(t, wrong, 0, "badinputs.txt:%d: linerate %s: %s\n%s", m.line, strings.Join(m.args, " "), strings.Join(wrong, "; "), r.err)
}

// mistake is one line of testdata/badinputs.txt.
type mistake struct {
	line  int
	code  int
	args  []string
	words []string
}

// readMistakes parses the table; fill replaces the {names} in it.
func readMistakes(t testing.TB, fill *strings.Replacer) []mistake {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join("testdata", "badinputs.txt")))(t)
	var all []mistake
	number := 0
	for line := range strings.Lines(string(text)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		column := strings.Split(fill.Replace(line), " | ")
		code := must.Get(strconv.Atoi(column[0]))(t)
		must.Need(t, len(column) == 3, "badinputs.txt:%d: want CODE | ARGUMENTS | WORDS: %s", number, line)
		m := mistake{number, code, shellWords(column[1]), strings.Split(column[2], " ; ")}
		if code == 3 && !slices.Contains(m.args, "--timeout") && !slices.Contains(m.words, "no answer in") {
			m.args = append(m.args, "--timeout", "5m") // these mistakes are not about timeouts
		}
		all = append(all, m)
	}
	return all
}

// shellWords splits a command line at blanks outside single quotes.
func shellWords(line string) []string {
	var words []string
	word, begun, quoted := "", false, false
	for _, r := range line + " " {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case r == ' ' && !quoted:
			if begun {
				words = append(words, word)
			}
			word, begun = "", false
		default:
			word, begun = word+string(r), true
		}
	}
	return words
}

// TestBadInputs checks every line of testdata/badinputs.txt: the exit code and the words, nothing
// on stdout but the document that --json asks for, no words of Go, no line wider than 80 columns.
// TestTruthOfBadInputs checks how long it takes.
func TestBadInputs(t *testing.T) {
	t.Parallel()
	makeMistakes(t)
}

// makeMistakes runs all lines, and returns how long the slowest one took.
func makeMistakes(t testing.TB) time.Duration {
	t.Helper()
	dir := badFiles(t)
	silent := listenAs(t, func(net.Conn) {})
	hangup := listenAs(t, func(c net.Conn) { _ = c.Close() })
	http := listenAs(t, func(c net.Conn) {
		_, _ = io.WriteString(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		_ = c.Close()
	})
	closed := closedPort(t)
	link := func(addr string) string { return "linerate://abc.abcd@" + addr }
	port := func(addr string) string { _, p, _ := net.SplitHostPort(addr); return p }
	fill := strings.NewReplacer("{dir}", dir, "{lab}", "lab:rate=100mbit", "{lab2}", "lab:rate=10mbit", "{port}", port(closed), "{closed}", closed,
		"{silent}", silent, "{silentport}", port(silent), "{hangup}", hangup, "{hangupport}", port(hangup), "{http}", http,
		"{link}", link(closed), "{silentlink}", link(silent), "{hanguplink}", link(hangup), "{httplink}", link(http))
	places := make(chan struct{}, atATime)
	var all sync.WaitGroup
	var slowest atomic.Int64
	mistakes := readMistakes(t, fill)
	for _, m := range mistakes {
		must.Need(t, !mayChangeHere(m.args), "badinputs.txt:%d: linerate %s: were it not refused, it would change this machine", m.line, strings.Join(m.args, " "))
	}
	for _, m := range mistakes {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			begun := time.Now()
			r := badRun(t, m.args)
			slowest.Store(max(slowest.Load(), int64(time.Since(begun))))
			judge(t, m, r)
		})
	}
	all.Wait()
	return time.Duration(slowest.Load())
}

// badRun runs linerate in this process, except commands that take the process's streams or drop
// its privileges.
func badRun(t testing.TB, args []string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	vars := userEnv(t.TempDir())
	vars["TERM"] = "dumb" // no line that is redrawn
	if ownProcess(args) {
		cmd := command(t, args...)
		for key, value := range vars {
			cmd.Env = append(cmd.Env, key+"="+value)
		}
		return run(t, cmd)
	}
	var out, errs bytes.Buffer
	code := cli.Main(ctx, cli.Env{
		Version: "test", Self: []string{binary}, In: strings.NewReader(""), Out: &out, Err: &errs,
		Getenv: func(key string) string { return vars[key] }, Now: time.Now, Width: func() int { return 80 }, ErrTerminal: true,
	}, args)
	return result{out.String(), errs.String(), code}
}

// mayChangeHere reports whether a command would change settings of this machine if nothing
// refused it. A command for a host of a lab, or for a port without a listener, cannot, and
// neither can a change of an interface that does not exist.
func mayChangeHere(args []string) bool {
	has := func(f func(string) bool) bool { return slices.ContainsFunc(args, f) }
	elsewhere := has(func(s string) bool {
		return strings.HasPrefix(s, "lab:") || strings.HasPrefix(s, "linerate://abc.abcd@127.0.0.1:") || strings.HasPrefix(s, "iperf3://") || s == "exec:127.0.0.1 echo hello"
	})
	switch args[0] {
	case "set":
		return !elsewhere && has(func(s string) bool { return strings.Contains(s, "=") }) && !slices.Contains(args, "nosuch0")
	case "keep":
		return !elsewhere && len(args) > 1 && !slices.Contains(args, "--dry-run") && !has(func(s string) bool { return strings.HasSuffix(s, "missing.yaml") })
	case "undo":
		return !elsewhere && !slices.Equal(args, []string{"undo", "a", "b"}) // two unknown hosts
	case "tune":
		return !elsewhere
	}
	return false
}

// TestMayChangeHere checks that the guard above does not let everything pass.
func TestMayChangeHere(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"set tcp.sack=off": true, "set tcp.sack=off --both": true, "set tcp.sack=off lab:lan": false, "set": false,
		"keep profile.yaml": true, "keep profile.yaml --dry-run": false, "undo": true, "undo lab:lan": false, "tune nas": true, "test nas": false,
	} {
		must.Equal(t, mayChangeHere(strings.Fields(line)), want, "linerate %s: want %v", line, want)
	}
}

// ownProcess reports whether a command takes the streams of its process, or drops its privileges.
func ownProcess(args []string) bool {
	return slices.ContainsFunc(args, func(s string) bool { return s == "serve" || s == "agent" || s == "lab" })
}

// badFiles writes the files that the lines name, and returns their directory.
func badFiles(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"text": "hello, this is nothing that linerate knows\n", "empty.yaml": "",
		"plan.yaml":    "far: lab:rate=10mbit\nfactors: [{knob: window, levels: [64KiB, 1MiB]}]\n",
		"exec.yaml":    "far: exec:127.0.0.1 false\nfactors: [{knob: window, levels: [64KiB, 1MiB]}]\n",
		"profile.yaml": "profile: 2\ntitle: tall\nhosts: [{role: far, knobs: {tcp.sack: on}}]\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return dir
}

// listenAs listens on loopback until the test ends, and calls each for every connection.
func listenAs(t testing.TB, each func(net.Conn)) string {
	t.Helper()
	l := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			t.Cleanup(func() { _ = c.Close() })
			each(c)
		}
	}()
	return l.Addr().String()
}

// closedPort returns a loopback address without a listener. The client end of an open
// connection holds the port, so no other process gets it while the test runs.
func closedPort(t testing.TB) string {
	t.Helper()
	c := must.Get(new(net.Dialer).DialContext(t.Context(), "tcp", listenAs(t, func(net.Conn) {})))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c.LocalAddr().String()
}
