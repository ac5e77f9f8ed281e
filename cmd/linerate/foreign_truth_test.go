//go:build truth && linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"linerate/internal/core/model"
	"linerate/internal/must"
	"linerate/internal/truth"
)

// TestTruthOfForeign measures at given rates with the real programs at the far end: no more
// than a fifth above what was asked for, and not less than half.
func TestTruthOfForeign(t *testing.T) {
	iperf3, iperf2 := freePort(t), freePort(t)
	foreignServer(t, "tcp", iperf3, "iperf3", "-s", "-B", "127.0.0.1", "-p", iperf3)
	foreignServer(t, "udp", iperf2, "iperf", "-s", "-u", "-B", "127.0.0.1", "-p", iperf2)
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		for _, c := range []struct {
			far, flags string
			asked      float64
			ways       []model.Direction
		}{
			{"iperf3://127.0.0.1:" + iperf3, "--to -b 50M", 50, []model.Direction{model.To}},
			{"iperf3://127.0.0.1:" + iperf3, "-u -b 20M", 20, []model.Direction{model.To, model.From}},
			{"iperf2://127.0.0.1:" + iperf2, "--to -u -b 20M", 20, []model.Direction{model.To}},
		} {
			d := decode[document](try, succeed(try, briefly(c.far, strings.Fields(c.flags)...)...).out)
			for _, way := range c.ways {
				got := d.goodput(way)
				must.Need(try, len(got) == 1, "%s %s: goodput %s %v", c.far, c.flags, way, got)
				scheme, _, _ := strings.Cut(c.far, ":")
				try.Claim(scheme+" "+c.flags+" "+string(way), got[0]/1e6, c.asked/2, 1.2*c.asked, "Mbit/s")
			}
		}
	})
}

// TestTruthOfServer holds what a server on loopback gives against what it was asked for:
// 100 requests at 200/s, datagrams at two rates, and no more than 100 Mbit/s to a client of
// iperf 2 that wants more.
func TestTruthOfServer(t *testing.T) {
	needProgram(t, "iperf")
	v := serveJSON(t, serveEverything(t))
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		all := decode[engineReport](try, succeed(try, "test", v.Link, "--to", "--requests", "200", "-l", "64", "--reply", "4KiB",
			"-t", "0.5s", "-i", "0.5s", "--omit", "0s", "--json", "-q").out).Report.Latencies
		must.Need(try, len(all) != 0, "no latency of requests")
		try.Claim("requests sent", float64(all[0].Sent), 100, 100, "")
		try.Claim("requests lost", float64(all[0].Lost), 0, 0, "")
		try.Claim("requests", all[0].Rate.Value, 180, 205, "a second")
		r := succeed(try, "run", v.Link, "-u", "--factor", "rate=4M,8M", "--baseline", "4M", "-t", "0.3s", "--omit", "0s", "--blocks", "1", "--settle", "0s", "--no-twin", "--json", "-q")
		got := map[string]float64{}
		for _, run := range decode[document](try, r.out).Session.Runs {
			got[run.Setting], _ = run.Value(model.To, model.Goodput)
		}
		try.Claim("8M against 4M", got["8M"]/got["4M"], 1.7, 2.3, "times")
		try.Claim("8M", got["8M"]/1e6, 0, 9, "Mbit/s")
		foreignClient(try, func(out string) string {
			fields := strings.Split(strings.TrimSpace(out), ",")
			if len(fields) < 9 {
				return fmt.Sprintf("%q", out)
			}
			bytes, err := strconv.ParseFloat(fields[7], 64)
			if err != nil {
				return err.Error()
			}
			try.Claim("given in a second to a client that wants 1 Gbit/s", bytes/1e6, 0.1, 16, "MB")
			return ""
		}, "iperf", "-c", "127.0.0.1", "-p", portOf(v.Foreign["iperf2"]), "-u", "-R", "-b", "1g", "-t", "1", "-y", "C")
	})
}

// TestTruthOfUDPSTP measures the capacity behind a token bucket of 50 Mbit/s, both ways, with
// linerate at both ends and, where it is installed, with obudpst (udpst) at either: within 1 %
// of the formula. The bucket counts frames of 1264 bytes, of which 1250 are IP.
func TestTruthOfUDPSTP(t *testing.T) {
	n := newNetns(t)
	for _, host := range []string{n.near, n.far} {
		ip(t, "netns", "exec", host, "tc", "qdisc", "add", "dev", "v0", "root", "tbf", "rate", "50mbit", "burst", "15140", "limit", "250000")
	}
	serveJSON(t, n.inside(t, "far", "serve", "--json", "--listen", farAddr+":0", "--udpstp="+farAddr+":24700", "--state", n.state("far")))
	servers := map[string]string{"linerate": farAddr + ":24700"}
	_, err := exec.LookPath("udpst")
	reference := err == nil
	if reference {
		servers["udpst"] = farAddr + ":24601"
		p := start(t, exec.CommandContext(t.Context(), "ip", "netns", "exec", n.far, "udpst", farAddr))
		t.Cleanup(func() { p.signal(t, os.Interrupt); p.wait(t, patience) })
	}
	truth.Hold(t, truth.Tries, func(try *truth.Try) {
		claim := func(who string, mbit float64) {
			try.Claim(who, mbit, 50*1250.0/1264*0.99, 50*1250.0/1264*1.01, "Mbit/s")
		}
		for name, server := range servers {
			r := run(try, n.inside(try, "near", "test", "udpstp://"+server, "-t", "5s", "--wait", "0s", "--json", "-q", "--db", ":memory:"))
			runs := decode[document](try, r.out).Session.Runs
			must.Need(try, len(runs) == 2, "%d runs: %s", len(runs), r.err)
			for _, r := range runs {
				got, _ := r.Value(r.Flow.Direction, model.IPCapacity)
				claim("linerate "+string(r.Flow.Direction)+" "+name, got/1e6)
			}
			for _, way := range []string{"-u", "-d"} {
				if !reference {
					break
				}
				foreignClient(try, func(out string) string {
					found := regexp.MustCompile(`Maximum Mbps\(L3/IP\): ([0-9.]+)`).FindStringSubmatch(out)
					if found == nil {
						return "no maximum"
					}
					claim("udpst "+way+" "+name, must.Get(strconv.ParseFloat(found[1], 64))(try))
					return ""
				}, "ip", "netns", "exec", n.near, "udpst", way, "-t", "6", server)
			}
		}
	})
}
