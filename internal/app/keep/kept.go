package keep

import (
	"slices"

	"linerate/internal/control/session"
	"linerate/internal/core/fingerprint"
	"linerate/internal/core/model"
)

// Standing returns the settings that the records of a host keep, each once with the value of
// its newest record and the newest proof of that value. side is the end that the host is now:
// the proofs are turned to it. A proof that cannot be read is ignored.
func Standing(records []session.KeptRecord, side model.Host) []fingerprint.Kept {
	var all []fingerprint.Kept
	for _, r := range slices.Backward(records) {
		proof, read, _ := fingerprint.Read(r.Proof)
		proof = proof.Seen(side)
		for _, s := range r.Settings {
			proven := read && proof.Covers(s.Knob, s.Value)
			i := slices.IndexFunc(all, func(k fingerprint.Kept) bool { return k.Knob == s.Knob })
			if i < 0 {
				all = append(all, fingerprint.Kept{Knob: s.Knob, Value: s.Value, Since: r.Time})
				i = len(all) - 1
			}
			if proven && !all[i].Proven && all[i].Value == s.Value {
				all[i].Proof, all[i].Proven, all[i].Record = proof, true, r.ID
			}
		}
	}
	return all
}
