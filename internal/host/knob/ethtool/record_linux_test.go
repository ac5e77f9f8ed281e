package ethtool

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"linerate/internal/must"
)

// record writes the answers of this kernel about an interface to testdata:
//
//	go test -run TestRecord -record eth0 -as virtio
var (
	record   = flag.String("record", "", "interface whose answers are recorded")
	recordAs = flag.String("as", "", "first part of the names of the recordings")
)

func TestRecord(t *testing.T) {
	must.SkipIf(t, *record == "", "nothing is to be recorded")
	var u unix.Utsname
	must.Do(t, unix.Uname(&u))
	release, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-")
	transport := must.Get(open())(t)
	for _, g := range groups() {
		answers, err := transport.(generic).do(g.get, *record, g, Fields{}, 0)
		if err != nil || len(answers) != 1 {
			t.Logf("%s: %v", g.name, err)
			continue
		}
		text := fmt.Sprintf("# %s of a %s interface, Linux %s\n", g.name, *recordAs, release)
		for digits := hex.EncodeToString(answers[0]); digits != ""; {
			n := min(len(digits), 96)
			text, digits = text+digits[:n]+"\n", digits[n:]
		}
		must.Do(t, os.WriteFile(filepath.Join("testdata", "linux-6.18", *recordAs+"-"+g.name+".hex"), []byte(text), 0o644))
	}
}

// UseRequest makes s use the older request.
func (s *Setting) UseRequest() { s.open = func() (transport, error) { return request{}, nil } }

// Answer is a transport's answer about a group.
type Answer struct {
	Numbers map[string]uint32
	On      map[string][]string // bits that are on, by set
}

// Query queries a group over generic netlink, or by the older request.
func Query(device, name string, older bool) (Answer, error) {
	t, err := open()
	if older {
		t = request{}
	}
	if err != nil {
		return Answer{}, err
	}
	g, _ := groupByName(name)
	f, err := t.get(device, g)
	a := Answer{Numbers: f.Numbers, On: map[string][]string{}}
	for set, bits := range f.Sets {
		for _, one := range bits {
			if one.On && one.Name != "" { // a retired feature has none
				a.On[set] = append(a.On[set], one.Name)
			}
		}
	}
	return a, err
}
