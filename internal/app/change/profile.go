package change

import (
	"linerate/internal/app"
	"linerate/internal/core/model"
	"linerate/internal/core/profile"
)

// TellProfile tells why the evidence of a profile may not hold on the hosts that
// its parts are for, and how much of it they have already.
func TellProfile(env app.Env, h Hosts, parts map[model.Host]profile.Host) {
	for _, host := range h.changed() {
		part, ok := parts[host.Side]
		if !ok {
			continue
		}
		for _, doubt := range part.Doubts(host.Facts) {
			env.Observe(app.Doubted{Host: host.Name, Doubt: doubt})
		}
		same := 0
		for _, d := range part.Diff(host.Facts.Knobs) {
			if d.Same {
				same++
			}
		}
		if same > 0 {
			env.Observe(app.Same{Host: host.Name, Settings: same, Of: len(part.Settings)})
		}
	}
}
