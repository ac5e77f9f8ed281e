//go:build vm

package machine

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"linerate/internal/core/model"
	"linerate/internal/must"
)

// joinRadios creates two simulated radios, an access point in the namespace ap and a station,
// which reach each other as 10.9.0.1 and 10.9.0.2.
const joinRadios = `set -e
modprobe mac80211_hwsim radios=2
ip netns add ap
iw phy "$(cat /sys/class/net/wlan1/phy80211/name)" set netns name ap
printf 'interface=wlan1\ndriver=nl80211\nssid=lab\nhw_mode=g\nchannel=6\nieee80211n=1\nwmm_enabled=1\n' > /tmp/ap.conf
printf 'network={\nssid="lab"\nkey_mgmt=NONE\nscan_freq=2437\n}\n' > /tmp/station.conf
ip netns exec ap ip link set lo up
ip netns exec ap hostapd -B /tmp/ap.conf
wpa_supplicant -B -i wlan0 -c /tmp/station.conf
ip netns exec ap ip addr add 10.9.0.2/24 dev wlan1
ip addr add 10.9.0.1/24 dev wlan0
for i in $(seq 60); do ping -c 1 -W 1 10.9.0.2 && exit; done; exit 1`

// iw is iw's output about a radio: name, colon, value. It omits unknown values.
type iw string

// number returns the first number after name.
func (t iw) number(name string) float64 {
	m := regexp.MustCompile(name + `:?\s*(-?[\d.]+)`).FindStringSubmatch(string(t))
	if m == nil {
		return 0
	}
	v, _ := strconv.ParseFloat(m[1], 64)
	return v
}

// expected formats the expected throughput as iw does: 1024 kbit/s as one unit, with up to
// three unpadded decimals (station.c print_sta_handler).
func expected(r model.Radio) string {
	n := int64(r.Expected.Or(0)) / 1024
	return fmt.Sprintf("expected throughput:\t%d.%dMbps", n/1000, n%1000)
}

// sameAsIW compares linerate's report of a radio, read without root, with iw's. If they differ
// it reads both again: a radio may send a frame by itself between the two.
func sameAsIW(ctx context.Context, t *testing.T, m *Machine, in, name, role string) {
	t.Helper()
	look := strings.ReplaceAll("iw dev NAME info; iw dev NAME station dump; iw dev NAME get power_save", "iw dev NAME", in+"iw dev "+name)
	wrong := "no answer"
	for range 5 {
		var page struct{ Facts model.HostFacts }
		must.Do(t, json.Unmarshal([]byte(sh(ctx, t, m, in+"setpriv --reuid=65534 --clear-groups linerate facts --json -q --timeout 300s")), &page))
		said := iw(sh(ctx, t, m, look))
		at := slices.IndexFunc(page.Facts.NICs, func(n model.NIC) bool { return n.Name == name && n.Radio != nil })
		must.Need(t, at >= 0, "%s is no radio: %+v", name, page.Facts.NICs)
		r := page.Facts.NICs[at].Radio
		got := fmt.Sprintln(r.Role.Or(""), r.FrequencyMHz.Or(0), r.WidthMHz.Or(0), r.SignalDBm.Or(0), float64(r.Transmit.Or(0))/1e6, float64(r.Receive.Or(0))/1e6, true, r.PowerSave.Or(false))
		want := fmt.Sprintln(role, said.number(`channel \d+ \(`), said.number("width"), said.number("signal avg"), said.number("tx bitrate"), said.number("rx bitrate"), strings.Contains(string(said), expected(*r)),
			strings.Contains(string(said), "Power save: on"))
		if got == want {
			t.Logf("%s: %s", name, r)
			return
		}
		wrong = fmt.Sprintf("%s says %sand iw %s%s", name, got, want, said)
	}
	t.Error(wrong)
}

// TestRadio: linerate's report of a radio agrees with iw's, at a station and at an access
// point; a test over the path between them reads rates under load and the same counts as iw,
// and both ends of the path are named as radios.
func TestRadio(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	m := startKernel(ctx, t, "6.1", false, nil, "near")[0]
	r, err := m.Shell(ctx, "modinfo mac80211_hwsim")
	must.SkipIf(t, err == nil && r.Code != 0, "the images have no simulated radio: make them anew with make vm")
	sh(ctx, t, m, "linerate facts -q --timeout 300s; ! grep ^cfg80211 /proc/modules") // reading facts loads no module
	sh(ctx, t, m, joinRadios)
	sh(ctx, t, m, "ping -q -c 200 -i 0.01 -s 1400 10.9.0.2")
	sameAsIW(ctx, t, m, "", "wlan0", "station")
	sameAsIW(ctx, t, m, "ip netns exec ap ", "wlan1", "access point")

	var before, after iw
	var text string
	for range 3 { // a machine without CPU for minutes measures nothing
		before = iw(sh(ctx, t, m, "iw dev wlan0 station dump"))
		text = sh(ctx, t, m, "export LINERATE_DB=/tmp/radio.db; linerate test 'exec:10.9.0.2 ip netns exec ap linerate agent' --to -t 5s --idle 0s -q --timeout 600s > /tmp/test || cat /tmp/test; linerate report last --format json")
		after = iw(sh(ctx, t, m, "iw dev wlan0 station dump"))
		if strings.HasPrefix(text, "{") {
			break
		}
		t.Logf("once more: %s", text[:min(len(text), 2000)])
	}
	var page struct{ Session model.Session }
	must.Do(t, json.Unmarshal([]byte(text), &page))
	counted := map[string]int64{}
	for _, end := range page.Session.Runs[0].Ends {
		for _, c := range end.Counters {
			if end.Host == model.Near {
				counted[c.Name] += c.Value
			}
		}
	}
	for name, called := range map[string]string{"radio_tx_frames": "tx packets", "radio_tx_retries": "tx retries", "radio_tx_failed": "tx failed"} {
		most := int64(after.number(called) - before.number(called))
		must.True(t, counted[name] <= most && counted[name] >= most/4, "%s: %d in the run, iw counts %d with what came before and after", name, counted[name], most)
	}
	must.True(t, counted["radio_tx_frames"] > 500, "%v", counted)
	for what, least := range map[string]int{`"radio_tx_rate"`: 3, `"radio_rx_rate"`: 3, `"radio_signal"`: 3, `"note": "station, sends at`: 1, `"note": "access point, sends at`: 1} {
		must.True(t, strings.Count(text, what) >= least, "%s stands %d times in the document", what, strings.Count(text, what))
	}
}
