package main

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"linerate/internal/must"
)

// bystander is a third host, which has nothing to do with the measurement, with a
// link to each of the two ends.
type bystander struct {
	*netns
	c string // name of its namespace
}

// newBystander adds the third host to n. Each end has the address by which the
// other end reaches the bystander, so that it can forge it.
func newBystander(t *testing.T, n *netns) bystander {
	t.Helper()
	b := bystander{n, strings.TrimSuffix(n.near, "near") + "by"}
	ip(t, "netns", "add", b.c)
	t.Cleanup(func() { removeNetns(t, b.c) })
	ip(t, "-n", b.c, "link", "set", "lo", "up")
	for _, l := range []struct{ end, dev, near, far string }{{n.near, "v1", "10.77.1.1", toNear}, {n.far, "v2", "10.77.2.2", toFar}} {
		ip(t, "link", "add", l.dev, "netns", l.end, "type", "veth", "peer", "name", l.dev, "netns", b.c)
		ip(t, "-n", l.end, "addr", "add", l.near+"/24", "dev", l.dev)
		ip(t, "-n", b.c, "addr", "add", l.far+"/24", "dev", l.dev)
		ip(t, "-n", l.end, "link", "set", l.dev, "up")
		ip(t, "-n", b.c, "link", "set", l.dev, "up")
		// A path that checks no sources, as many do.
		for _, where := range []string{"all", "v0", l.dev} {
			ip(t, "netns", "exec", l.end, "sh", "-c", "echo 0 > /proc/sys/net/ipv4/conf/"+where+"/rp_filter")
		}
	}
	ip(t, "-n", n.near, "addr", "add", toFar+"/32", "dev", "lo")
	ip(t, "-n", n.far, "addr", "add", toNear+"/32", "dev", "lo")
	return b
}

// got is how many bytes have come to the bystander.
func (b bystander) got(t *testing.T) (sum int) {
	t.Helper()
	for _, dev := range []string{"v1", "v2"} {
		text := ip(t, "netns", "exec", b.c, "cat", "/sys/class/net/"+dev+"/statistics/rx_bytes")
		n := must.Get(strconv.Atoi(strings.TrimSpace(text)))(t)
		sum += n
	}
	return sum
}

// chatter is what hosts say to each other without being asked: address
// resolution, IPv6 announcing itself.
const chatter = 8 << 10

// A client with the link greets a real server in the name of a bystander, and
// says that all is well.
func TestServerIsNoCannon(t *testing.T) {
	needRoot(t)
	b := newBystander(t, newNetns(t))
	server, link := b.serve(t)
	before := b.got(t)
	out, err := b.role(t, "near", "gunner "+link.String()).CombinedOutput()
	t.Logf("%s", out)
	n := b.got(t) - before
	must.True(t, n <= chatter, "the bystander got %d bytes for 300", n)
	must.True(t, err != nil && strings.Contains(string(out), "UDP comes from "+toFar), "the server let the client have it: %v\n%s", err, out)
	sane(t, b.look(t, link.String(), "--json"))
	server.signal(t, syscall.SIGTERM)
	server.wait(t, 10*time.Second)
}

// A server answers a real controller in the name of a bystander.
func TestControllerIsNoCannon(t *testing.T) {
	needRoot(t)
	b := newBystander(t, newNetns(t))
	_, link := b.serve(t)
	const listen = farAddr + ":5300"
	aimer := start(t, b.role(t, "far", "aimer "+listen))
	eventually(t, 10*time.Second, "the hostile server", func() bool { return aimer.said() != "" })
	before := b.got(t)
	p := start(t, b.inside(t, "near", "test", strings.Replace(link.String(), serverAddr, listen, 1), "--to", "-u", "-b", "100M", "-t", "4s", "--idle", "0s", "-q"))
	eventually(t, 20*time.Second, "forged answers", func() bool {
		return strings.Count(aimer.said(), "answer") > 20 || len(p.done) > 0 || b.got(t)-before > 100*chatter
	})
	n, sent := b.got(t)-before, 60*strings.Count(aimer.said(), "answer")
	must.True(t, n <= chatter+3*sent, "the bystander got %d bytes for %d", n, sent)
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended
	r := p.wait(t, 60*time.Second)
	if t.Logf("%s%s", r.out, r.err); r.code == 0 {
		t.Error("the controller measured")
	}
	aimer.signal(t, os.Kill)
	<-aimer.done
}
