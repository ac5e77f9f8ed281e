package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLinkFaults changes the MTU of a link and has something become of the link
// before it goes back, however it goes back: the link that was changed has its old
// MTU again, under whatever name, and another one that got its name keeps its own.
func TestLinkFaults(t *testing.T) {
	needRoot(t)
	type fate struct {
		commands []string // of ip, in host a
		at       string   // where the link is then, "" for nowhere
		other    string   // a link that must keep what it has
		says     string   // what the report, or that of undo, must say
	}
	fates := map[string]fate{
		"renamed":                       {[]string{"link set x0 down", "link set x0 name lan0"}, "lan0", "", ""},
		"renamed, its name another's":   {[]string{"link set x0 down", "link set x0 name lan0", "link add x0 mtu 1400 type veth peer name x9"}, "lan0", "x0", ""},
		"replaced":                      {[]string{"link del x0", "link add x0 mtu 1400 type veth peer name x9"}, "", "x0", "x0 is another device now: it was index "},
		"replaced by one of its number": {[]string{"link del x0", "link add x0 index 77 mtu 1400 type bridge"}, "", "x0", "x0 is another device now: "},
		"gone":                          {[]string{"link del x0"}, "", "", ""},
	}
	// How it ends: what is done to the processes, and whether somebody has to undo.
	endings := map[string]func(*testing.T, *netns, *process){
		"noticed":           func(*testing.T, *netns, *process) {},
		"controller killed": func(t *testing.T, _ *netns, p *process) { p.signal(t, syscall.SIGKILL) },
		"everything killed": func(t *testing.T, _ *netns, p *process) {
			for pid, of := range processes() {
				if of == p.cmd.Process.Pid && named(pid, "watchdog") {
					if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
						t.Error(err)
					}
				}
			}
			p.signal(t, syscall.SIGKILL)
		},
	}
	all := map[string]func(*testing.T){}
	for name, f := range fates {
		for ending, end := range endings {
			all[name+"/"+ending] = func(t *testing.T) {
				n := newNetns(t)
				in := func(command string) string { return ip(t, append([]string{"-n", n.a}, strings.Fields(command)...)...) }
				in("link add x0 index 77 type veth peer name x1")
				mtu := func(link string) string {
					_, rest, _ := strings.Cut(in("-o link show dev "+link), " mtu ")
					value, _, _ := strings.Cut(rest, " ")
					return value
				}
				p := start(t, n.inside(t, "a", "set", "link.mtu=1400", "--interface", "x0", "--for", "20s", "--json"))
				eventually(t, 30*time.Second, "the change", func() bool { return mtu("x0") == "1400" })
				// Not before the change is complete: what fails half way is another case.
				eventually(t, 30*time.Second, "the change to be held", func() bool {
					b, err := os.ReadFile(n.dir + "/journal.jsonl")
					return err == nil && strings.Contains(string(b), `"applied"`)
				})
				if ending == "everything killed" {
					end(t, n, p)
				}
				for _, c := range f.commands {
					in(c)
				}
				if ending != "everything killed" {
					end(t, n, p)
				}
				got := p.wait(t, time.Minute)
				eventually(t, 30*time.Second, "a process is left", func() bool { return len(netnsPIDs(t.Context(), n.a)) == 0 })
				if f.at != "" && ending != "everything killed" && mtu(f.at) != "1500" {
					t.Errorf("%s has MTU %s before anybody asks", f.at, mtu(f.at))
				}
				u := run(t, n.inside(t, "a", "undo", "--json"))
				if f.at != "" && mtu(f.at) != "1500" {
					t.Errorf("%s has MTU %s\n%s%s", f.at, mtu(f.at), u.out, u.err)
				}
				if f.other != "" && mtu(f.other) != "1400" {
					t.Errorf("%s, another link, has MTU %s", f.other, mtu(f.other))
				}
				if ending != "controller killed" && !strings.Contains(got.out+got.err+u.out, f.says) { // nobody hears a dead one's watchdog
					t.Errorf("nobody says %q\n%s", f.says, fmt.Sprint(got.out, got.err, u.out, u.err))
				}
				if again := run(t, n.inside(t, "a", "undo")); again.code != 0 || again.out != "nothing to undo\n" {
					t.Errorf("undo once more: exit code %d\n%s%s", again.code, again.out, again.err)
				}
			}
		}
	}
	atOnce(t, 5, all)
}
