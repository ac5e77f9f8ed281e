package knob

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"linerate/internal/core/lists"
)

// driverMeans is a driver's own interpretation of a setting's number, where it differs from
// ethtool(8).
type driverMeans struct {
	drivers   []string
	natives   []string
	modes     []Choice // numbers that are not amounts
	low, high int64    // range of the amounts
}

// driverMeanings are the drivers of Intel cards whose delays are the former parameter
// InterruptThrottleRate: small numbers are modes of the driver, not microseconds. Linux 6.1
// Documentation/networking/device_drivers/ethernet/intel/e1000e.rst and e1000.rst;
// drivers/net/ethernet/intel/{e1000,e1000e}/*ethtool.c e1000_set_coalesce (E1000_MIN_ITR_USECS,
// E1000_MAX_ITR_USECS), igb/igb_ethtool.c igb_set_coalesce.
func driverMeanings() []driverMeans {
	off, dynamic := Choice{"0", "no moderation"}, Choice{"1", "mode dynamic"}
	conservative, balanced := Choice{"3", "mode dynamic, conservative"}, Choice{"4", "mode simplified balancing"}
	return []driverMeans{
		{[]string{"e1000", "e1000e"}, []string{"coalesce.rx-usecs"}, []Choice{off, dynamic, conservative, balanced}, 10, 10_000},
		{[]string{"igb"}, []string{"coalesce.rx-usecs", "coalesce.tx-usecs"}, []Choice{off, dynamic, conservative}, 10, 10_000},
	}
}

func meaningOf(driver, native string) (driverMeans, bool) {
	all := driverMeanings()
	i := slices.IndexFunc(all, func(m driverMeans) bool {
		return slices.Contains(m.drivers, driver) && slices.Contains(m.natives, native)
	})
	if i < 0 {
		return driverMeans{}, false
	}
	return all[i], true
}

// DriverHasModes reports whether some driver interprets numbers of the native Linux setting as
// modes, so that the driver matters.
func DriverHasModes(native string) bool {
	return slices.ContainsFunc(driverMeanings(), func(m driverMeans) bool { return slices.Contains(m.natives, native) })
}

// For returns the knob as a Linux driver interprets it: with names of modes, and in its range.
// For any other driver it returns the knob unchanged.
func (k Knob) For(driver string) Knob {
	m, ok := meaningOf(driver, k.Native["linux"].Name)
	if !ok || k.Native["linux"].Mechanism != Ethtool {
		return k
	}
	k.Named, k.Min, k.Max = m.modes, m.low, m.high
	return k
}

// From returns the knob as interpreted by the driver in the remark of source:
// "coalesce.rx-usecs of eth0 (e1000e)".
func (k Knob) From(source string) Knob {
	_, driver := splitRemark(source)
	return k.For(driver)
}

// OwnDriver returns the remark of a native text that names a driver with modes, in the form
// that From takes: " (e1000e)"; "" if there is none.
func (k Knob) OwnDriver(raw string) string {
	if _, driver := splitRemark(raw); k.Native["linux"].Encoding == OfDriver && driver != "" {
		return " (" + driver + ")"
	}
	return ""
}

// Text formats a native text of system for people, as Format does a canonical one.
func (k Knob) Text(system, raw string) (string, error) {
	v, err := k.Decode(system, raw)
	if err != nil {
		return "", err
	}
	if k.Native[system].Encoding == OfDriver {
		k = k.From(raw)
	}
	return k.Format(v), nil
}

// DriverTakes returns an error if the driver does not accept number for its native setting.
func DriverTakes(driver, native string, number uint32) error {
	m, ok := meaningOf(driver, native)
	text := strconv.FormatUint(uint64(number), 10)
	if !ok || int64(number) >= m.low && int64(number) <= m.high || slices.ContainsFunc(m.modes, func(c Choice) bool { return c.Value == text }) {
		return nil
	}
	return fmt.Errorf("the driver %s takes %s, or %d to %d µs", driver, namedText(m.modes), m.low, m.high)
}

func namedText(all []Choice) string {
	words := lists.Each(all, func(c Choice) string { return c.Value + " (" + c.Meaning + ")" })
	return strings.Join(words, ", ")
}
