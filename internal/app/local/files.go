package local

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"

	"linerate/internal/control/agent"
	"linerate/internal/control/session"
	"linerate/internal/core/fact"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/host/files"
	"linerate/internal/host/journal"
	hostknob "linerate/internal/host/knob"
	"linerate/internal/host/manager"
	"linerate/internal/host/persist"
)

// files returns the places where this machine keeps settings over a restart.
func (m *Machine) files() *agent.Files {
	machine := manager.Here(m.env.Catalogue)
	f := &agent.Files{
		System: runtime.GOOS, Keeper: m.keeper, Link: m.interfaceName, MAC: hardwareAddress, Texts: m.texts, Origins: m.originsAfter,
		Owner: machine.Owner, Claims: m.claims, Catalogue: m.env.Catalogue, Confirmed: m.confirmed,
	}
	if m.env.Root == "" {
		f.Ask = files.Programs("")
	}
	return f
}

func (m *Machine) keeper() (persist.Keeper, error) {
	dir, err := StateDir(m.o.State)
	return persist.Keeper{Root: m.env.Root, State: dir, After: m.env.AfterStep}, err
}

// keeps reports whether linerate keep has each boot write something to a place, and whether
// that is the value now there. If the records cannot be read, it returns false: the place is
// then left alone.
func (m *Machine) keeps(id model.KnobID, place hostknob.Place, now string) (kept, there bool) {
	k, known := m.env.Catalogue.ByID(id)
	keeper, err := m.keeper()
	if !known || err != nil {
		return false, false
	}
	records, err := keeper.Standing()
	if err != nil {
		return false, false
	}
	link := hostknob.Host{Index: m.env.Catalogue}.LinkOf(id, place)
	for _, r := range records { // newest first
		for _, s := range r.Settings {
			if s.Knob != id || link != "" && r.Link != link {
				continue
			}
			want, err := k.Encode(runtime.GOOS, now, s.Value)
			return true, err == nil && knob.Holds(want, now)
		}
	}
	return false, false
}

// Kept lists what is kept on this machine, oldest first, without opening a session.
func (m *Machine) Kept() ([]session.KeptRecord, error) { return agent.KeptBy(m.keeper) }

// interfaceName is the interface of the data path.
func (m *Machine) interfaceName() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.link
}

// hardwareAddress returns the address of an interface of this machine, "" if it has none to
// identify it by.
func hardwareAddress(link string) string {
	i, err := net.InterfaceByName(link)
	if err != nil || len(i.HardwareAddr) != 6 || !slices.ContainsFunc(i.HardwareAddr, func(b byte) bool { return b != 0 }) {
		return ""
	}
	return i.HardwareAddr.String()
}

// texts returns the native values of knobs, by their native names in the catalogue.
func (m *Machine) texts(ctx context.Context, link string, ids []model.KnobID) map[string]string {
	m.mu.Lock()
	host := m.host()
	m.mu.Unlock()
	host.Interface = link
	all := make(map[string]string)
	for _, id := range ids {
		k, place, err := host.Place(id)
		if err != nil {
			continue
		}
		if raw, err := host.ReadRaw(ctx, id, place); err == nil {
			all[k.Native[runtime.GOOS].Name] = strings.Join(strings.Fields(raw), " ")
		}
	}
	return all
}

// claims returns the other programs that set knobs: programs of the system, and another
// linerate that holds a change and will restore the old value.
func (m *Machine) claims(ctx context.Context, link string, ids []model.KnobID) ([]model.Claim, error) {
	all, err := manager.Here(m.env.Catalogue).Claims(ctx, link, ids)
	if err != nil {
		return nil, err
	}
	dir, err := StateDir(m.o.State)
	if err != nil {
		return all, nil // without a journal nothing is held
	}
	records, _, err := journal.Read(dir)
	if err != nil {
		return all, nil // it belongs to root and is not readable to all
	}
	own, here := m.Pending(), journal.Here()
	for _, u := range journal.OpenIntents(records) {
		if u.Transaction != own && !u.Member && slices.Contains(ids, u.Knob) && u.Origin.SameBoot(here) && u.Origin.SameNamespace(here) {
			all = append(all, model.Claim{
				Knob: u.Knob, Manager: model.ManagerLinerate, Sets: u.Old, When: fmt.Sprintf("when it ends (process %d)", u.Origin.PID),
				Active: fact.Known(true, "its journal"),
			})
		}
	}
	return all, nil
}

// originsAfter returns which files of this machine set knobs once changes are made, including
// those of the programs that manage it.
func (m *Machine) originsAfter(ctx context.Context, link string, ids []model.KnobID, changes []persist.Change) (map[model.KnobID]model.FileLine, error) {
	machine := manager.Here(m.env.Catalogue)
	if m.env.Root != "" {
		machine.Root = os.DirFS(m.env.Root)
	}
	machine.Root = files.Overlay(machine.Root, persist.Written(changes))
	return machine.Lines(ctx, link, ids)
}

// confirmed lists the changes that the journal has as confirmed, the last value of each knob,
// and whether it is still in force. After a restart of the machine it is not, unless
// something set it again.
func (m *Machine) confirmed(ctx context.Context) ([]session.Confirmation, error) {
	if err := m.awaitRecovery(ctx); err != nil {
		return nil, err
	}
	dir, err := StateDir(m.o.State)
	if err != nil {
		return nil, err
	}
	records, damage, err := journal.Read(dir)
	if err != nil {
		return nil, err
	}
	if len(damage) > 0 {
		return nil, fmt.Errorf("line %d of the journal in %s: %s: %w", damage[0].Line, dir, damage[0].Reason, journal.ErrDamaged)
	}
	here := journal.Here()
	var all []session.Confirmation
	for _, u := range journal.ConfirmedIntents(records) {
		if u.Member || u.Origin.SameBoot(here) && !u.Origin.SameNamespace(here) {
			continue // it follows from another setting, or is of another network namespace, with values of its own
		}
		one := m.confirmation(ctx, u)
		all = slices.DeleteFunc(all, func(o session.Confirmation) bool { return o.Knob == one.Knob })
		all = append(all, one)
	}
	return all, nil
}

// confirmation reads the state of a confirmed knob. The place comes from the journal: a
// setting of a link belongs to that same link.
func (m *Machine) confirmation(ctx context.Context, u journal.Unfinished) session.Confirmation {
	c := session.Confirmation{Knob: u.Knob, Native: u.Place.String()}
	k, ok := m.env.Catalogue.ByID(u.Knob)
	if !ok {
		c.Detail = "this linerate does not know it"
		return c
	}
	if k.Scope == knob.ScopeLink {
		c.Link = u.Place.Target
	}
	var err error
	if c.Value, err = k.Decode(runtime.GOOS, u.New); err != nil {
		c.Detail = err.Error()
		return c
	}
	m.mu.Lock()
	host := m.host()
	m.mu.Unlock()
	raw, err := host.ReadRaw(ctx, u.Knob, u.Place)
	if err != nil {
		c.Detail = err.Error()
		return c
	}
	now, err := k.Decode(runtime.GOOS, raw)
	switch {
	case err != nil:
		c.Detail = err.Error()
	case now != c.Value:
		c.Detail = "it is " + k.Format(now) + " now"
	default:
		c.Holds = true
	}
	return c
}
