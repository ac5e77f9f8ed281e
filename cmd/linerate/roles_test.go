package main

import (
	"context"
	endian "encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"linerate/internal/control/session"
	"linerate/internal/core/model"
	"linerate/internal/measure/engine"
	"linerate/internal/measure/engines"
	"linerate/internal/measure/enginetest/toy"
	"linerate/internal/measure/enginetest/toyprogram"
	programs "linerate/internal/measure/foreign"
	"linerate/internal/measure/program"
	"linerate/internal/must"
	"linerate/internal/report"
)

// roleVar gives this test binary another role: "future-agent" on its standard input and output,
// "banner ADDR", "silent ADDR" and "hang up ADDR" for foreign servers, "scan ADDR" for a
// foreign client, "relay=ADDR" for a relay to a listener, "hostile=MANNER" for a malicious
// agent (hostileagent_test.go); "crowd" and "friend" for the clients of an attacked server,
// with their orders in crowdVar; "gunner LINK" and "aimer ADDR" for a client and a server that
// want the other end to send to a third party.
const roleVar = "LINERATE_TEST_ROLE"

// play plays a role and returns the exit code.
func play(role string) int {
	if addr, ok := strings.CutPrefix(role, "relay="); ok {
		role = "relay " + addr // the command of an exec: target has no quotes
	}
	if manner, ok := strings.CutPrefix(role, "hostile="); ok {
		role = "hostile " + manner
	}
	name, addr := role, ""
	if i := strings.LastIndexByte(role, ' '); i > 0 && role != "future-agent" {
		name, addr = role[:i], role[i+1:]
	}
	ctx := context.Background()
	var err error
	switch name {
	case "future-agent":
		err = futureAgent()
	case "banner", "silent", "hang up":
		err = otherServer(ctx, name, addr)
	case "scan":
		err = scan(ctx, addr)
	case "hostile":
		err = hostileAgent(ctx, hostileManner(addr))
	case "relay":
		err = relay(ctx, addr)
	case "crowd":
		err = crowd(ctx)
	case "friend":
		err = friend(ctx)
	case "gunner":
		err = gunner(ctx, addr)
	case "aimer":
		err = aim(ctx, addr)
	default:
		err = fmt.Errorf("no role %q", role)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// otherVersion is the version of a linerate with another protocol.
const otherVersion = "v99.0.0"

// futureAgent is an agent that speaks a later protocol and accepts every controller. It ends
// with its input.
func futureAgent() error {
	if _, err := greeting(os.Stdin, len("lr-hello")); err != nil {
		return err
	}
	b, err := json.Marshal(session.Welcome{Protocol: session.Protocol + 1, Version: otherVersion})
	if err != nil {
		return err
	}
	reply := endian.BigEndian.AppendUint16([]byte("lr-reply\x00"), uint16(len(b)))
	if _, err := os.Stdout.Write(append(reply, b...)); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// greeting reads one end's first message, after a head of this many bytes.
func greeting(r io.Reader, head int) ([]byte, error) {
	b := make([]byte, head+2)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	body := make([]byte, endian.BigEndian.Uint16(b[head:]))
	return body, must.Err(io.ReadFull(r, body))
}

// otherServer listens at addr and handles clients in its manner.
func otherServer(ctx context.Context, manner, addr string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	fmt.Println("listening")
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			switch manner {
			case "banner":
				_, _ = fmt.Fprint(c, "SSH-2.0-OpenSSH_9.6\r\n")
				fallthrough
			case "silent":
				_, _ = io.Copy(io.Discard, c)
			}
		}()
	}
}

// scan does what port scanners and lost clients do.
func scan(ctx context.Context, addr string) error {
	record := "\x16\x03\x01\xff\xff" // a TLS record that never comes
	for range 20 {
		for _, text := range []string{"", "GET / HTTP/1.0\r\n\r\n", "\x00\x01\x02", "L", record, record + strings.Repeat("A", 1<<16)} {
			c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
			if err != nil {
				return err
			}
			_, _ = io.WriteString(c, text) // it may hang up meanwhile
			if err := c.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// relay joins its standard input and output to a TCP connection, until both
// directions have ended or the connection fails.
func relay(ctx context.Context, addr string) error {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer c.Close()
	go func() {
		_, _ = io.Copy(c, os.Stdin)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(os.Stdout, c)
	return err
}

// toyVar adds an engine to the test binary's linerate.
const toyVar = "LINERATE_TEST_TOY"

// withToy returns the list of engines with one more line.
func withToy(o engines.Options) []engine.Engine { return append(engines.All(o), toy.Engine{}) }

// TestToyEngine: a folder and a line in the list make an engine that works in test, run, plan
// files, JSON, the store and the report, at both ends.
func TestToyEngine(t *testing.T) {
	t.Parallel()
	far := "exec:127.0.0.1 " + os.Args[0] + " agent"
	dir := t.TempDir()
	db := filepath.Join(dir, "results.db")
	do := func(code int, args ...string) result {
		t.Helper()
		cmd := command(t, append(args, "--db", db)...)
		cmd.Path = os.Args[0]
		cmd.Env = append(slices.Clone(cmd.Env), "LINERATE_TEST_MAIN=1", toyVar+"=1")
		return run(t, cmd).exits(t, code)
	}
	// Its flags, its judge, its lines and its section of the report.
	has(t, "toy", do(0, "test", far, "--engine", "toy", "--rounds", "5", "--shout", "--to", "-q").out, "the byte came back 5 times")
	has(t, "toy", do(2, "test", far, "--engine", "toy", "--rounds", "many").err, `--rounds: "many" is not a number of rounds; write it like 3`)
	has(t, "toy", do(2, "test", far, "--rounds", "5").err, "--rounds: rounds belongs to the toy, not to engine tcpbulk; add --engine toy")
	has(t, "toy", do(2, "test", far, "--engine", "toy", "--rounds", "1001").err, "1001 rounds: not between 1 and 1000")
	has(t, "toy", do(2, "test", far, "--engine", "toyy").err, "loaded, toy")
	// The store, the report made from it, and JSON.
	has(t, "toy", do(0, "show", "last").out, "the byte came back 5 times", "the toy to ", "run  rounds\n", "1       5\n")
	has(t, "toy", strings.Join(strings.Fields(do(0, "show", "last", "--json=full").out), ""),
		`"engine":"toy"`, `"params":{"rounds":5,"shout":true}`, `"metric":"toy_rounds","value":5`, `"own":["thebytecameback5times"]`, `"toy":{"rounds":[5]}`)
	// Plan files.
	plan := filepath.Join(dir, "plan.yaml")
	write := func(flow string) {
		t.Helper()
		text := "far: \"" + far + "\"\nblocks: 6\nsettle: 0s\ntwin: false\nflow: {" + flow + ", duration: 10ms}\n" +
			"factors: [{knob: window, levels: [64KiB]}]\n"
		must.Do(t, os.WriteFile(plan, []byte(text), 0o600))
	}
	write("engine: toy, rounds: 7, shout: off")
	has(t, "toy", do(0, "run", plan, "--allow-exec", "-q").out, "the byte came back 7 times")
	write("engine: toy, rounds: 7, shout: loud")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, `"loud" is neither on nor off; write on or off`)
	write("engine: tcpbulk, rounds: 7")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, "rounds belongs to the toy, not to engine tcpbulk; write engine: toy")
	// What it lets vary is a factor, in files and by flag; other options, and those of another
	// engine, are not.
	write("engine: toy")
	text := must.Get(os.ReadFile(plan))(t)
	vary := func(factor string) {
		t.Helper()
		must.Do(t, os.WriteFile(plan, []byte(strings.Replace(string(text), "{knob: window, levels: [64KiB]}", factor, 1)), 0o600))
	}
	vary("{knob: rounds, levels: [9]}")
	do(0, "run", plan, "--allow-exec", "-q")
	has(t, "toy", strings.Join(strings.Fields(do(0, "show", "last", "--json=full").out), ""),
		`{"knob":"rounds","value":"9"}`, `"params":{"rounds":9}`, `"metric":"toy_rounds","value":3`, `"metric":"toy_rounds","value":9`)
	byFlag := func(more ...string) []string {
		return append([]string{"run", far, "-t", "60ms", "--omit", "0s", "-i", "60ms", "--settle", "0s", "--blocks", "6", "--no-twin", "-q"}, more...)
	}
	do(0, byFlag("--requests", "0", "-l", "64", "--factor", "reply=64KiB")...)
	has(t, "toy", strings.Join(strings.Fields(do(0, "show", "last", "--json=full").out), ""),
		`{"knob":"reply","value":"65536"}`, `"params":{}`, `"params":{"reply":65536}`)
	vary("{knob: rounds, levels: [9, many]}")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, `"many" is not a number of rounds; write it like 3`)
	vary("{knob: shout, levels: [on, off]}")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, "shout is the same in all runs of a plan; say it of the flow")
	vary("{knob: reply, levels: [1KiB, 1024]}")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, `level "1024" has the same value as "1KiB"`, "reply belongs to engine reqresp, not to engine toy; write engine: reqresp")
	vary("{knob: far.reply, levels: [1KiB]}")
	has(t, "toy", do(2, "run", plan, "--allow-exec").err, "reply belongs to the flow, not to the far host; write reply without a host")
	has(t, "toy", do(2, byFlag("--engine", "toy", "--factor", "rounds=1001")...).err, "setting 1001: 1001 rounds: not between 1 and 1000")
	has(t, "toy", do(2, byFlag("--factor", "reply=1KiB")...).err, "reply belongs to engine reqresp, not to engine tcpbulk; add --requests")
	// Without the line the engine is unknown.
	run(t, command(t, "test", far, "--engine", "toy", "--db", db)).ends(t, 2, `"toy" is not one of`)
}

// withToyProgram returns the list of foreign programs with one more line.
func withToyProgram() program.List { return append(programs.All(), toyprogram.Program()) }

// document is linerate/session/v1.
type document struct {
	Schema  string
	Session model.Session
	Report  report.Document
}

// goodput returns the values of all valid runs in one direction, ascending.
func (d document) goodput(direction model.Direction) []float64 {
	var out []float64
	for _, r := range d.Session.Runs {
		if v, ok := r.Value(direction, model.Goodput); ok && r.State == model.RunValid {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

func median(sorted []float64) float64 { return sorted[len(sorted)/2] }

// TestDeadDirection: if full packets vanish in one direction, that is the first finding, the
// other direction is still measured, and the command exits with an error. A run that receives
// nothing is a result and is not repeated; a run cut short by a busy machine is.
func TestDeadDirection(t *testing.T) {
	labBeside(t)
	for dead, other := range map[model.Direction]model.Direction{model.To: model.From, model.From: model.To} {
		t.Run(string(dead), func(t *testing.T) {
			t.Parallel()
			r := run(t, command(t, "test", "lab:rate=50mbit,rtt=5ms,"+string(dead)+".blackhole=1300", "-t", "2s", "--omit", "300ms", "--json", "-q"))
			d := decode[document](t, r.out)
			r.ends(t, 5, "nothing arrived in direction "+string(dead))
			answers := 0
			for _, r := range d.Session.Runs {
				if strings.Contains(r.Reason, "no bytes arrived in direction "+string(dead)) {
					answers++
				}
				t.Logf("attempt %d, direction %s: %s %s", r.Attempt, r.Flow.Direction, r.State, r.Reason)
			}
			must.True(t, len(d.goodput(other)) != 0 && len(d.goodput(dead)) == 0 && answers == 1, "%v, %v, %d runs in which nothing arrived", d.goodput(other), d.goodput(dead), answers)
			f := d.Session.Findings
			must.True(t, len(f) >= 2 && f[0].Rule == "M2" && f[0].Direction == dead && f[1].Direction == other, "findings %+v", f)
		})
	}
}

// TestTraceOfRouters: a test queries the routers in both directions; one that does not answer
// leaves a gap.
func TestTraceOfRouters(t *testing.T) {
	labBeside(t)
	r := succeed(t, "test", "lab:rate=20mbit,rtt=2ms,hops=2,hop1.silent", "-t", "1s", "--omit", "0s", "--json=full", "-q", "--wait", "0s")
	got := map[model.Direction]string{}
	for _, run := range decode[document](t, r.out).Session.Runs {
		for _, e := range run.Ends {
			if e.Trace == nil {
				continue
			}
			for _, h := range e.Trace.Hops {
				got[e.Trace.Direction] += fmt.Sprintf("%d %s %t;", h.TTL, h.Address, h.Arrived)
			}
		}
	}
	must.Equal(t, got[model.To], "1  false;2 10.99.1.2 false;3 10.99.2.2 true;", "there")
	must.Equal(t, got[model.From], "1 10.99.2.1 false;2  false;3 10.99.0.1 true;", "and back")
}

// TestFirstHour23LabExitCode: lab exits with the exit code of its program, or 128 plus the
// number of the signal that ended it.
func TestFirstHour23LabExitCode(t *testing.T) {
	labBeside(t)
	for program, want := range map[string]int{"exit 0": 0, "exit 7": 7, "kill -9 $$": 137} {
		r := run(t, command(t, "lab", "lan", "--", "sh", "-c", program))
		must.True(t, r.code == want && r.err == "", "%s: exit code %d, want %d\n%s", program, r.code, want, r.err)
	}
}
