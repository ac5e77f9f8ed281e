package knob

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"

	"linerate/internal/core/knob"
	"linerate/internal/core/model"
)

// ErrNotOurs reports that linerate does not set this knob at that place, or to that text.
var ErrNotOurs = errors.New("linerate does not set this there")

// Belongs checks whether p is a place of the knob on this system, for some interface and
// route, and text a value that linerate could have found there. Call it before writing what a
// record says: a record that is forged or damaged can then not make linerate write elsewhere.
// The error wraps ErrNotOurs, and is an *Error about id.
func (h Host) Belongs(id model.KnobID, p Place, text string) error {
	why := h.belongs(id, p)
	if why == "" {
		why = h.readable(id, text)
	}
	if why == "" {
		return nil
	}
	return &knob.Error{Op: "undo", Knob: id, Place: p.String(), Err: fmt.Errorf("%s: %w", why, ErrNotOurs)}
}

// belongs returns why p is not a place of the knob, "" if it is.
func (h Host) belongs(id model.KnobID, p Place) string {
	k, ok := h.Index.ByID(id)
	if !ok {
		return "this linerate knows no such knob"
	}
	if err := h.writable(id); err != nil {
		return err.Error()
	}
	link, route := parts(k, p)
	if prefix, err := netip.ParsePrefix(route); route != "" && route != "default" && (err != nil || prefix.String() != route) {
		return fmt.Sprintf("%q is no route", route)
	}
	if link != "" && !isLinkName(link) {
		return fmt.Sprintf("%q is no name of an interface", link)
	}
	if _, want, err := (Host{Interface: link, Route: route, Index: h.Index}).Place(id); err != nil || want != p {
		return fmt.Sprintf("%s %s is no place of it on %s", p.Mechanism, p, runtime.GOOS)
	}
	return ""
}

// parts returns the interface and the route of a place of the knob, "" for none.
func parts(k knob.Knob, p Place) (link, route string) {
	link = p.Target
	if k.Scope == knob.ScopeRoute {
		route, link, _ = strings.Cut(p.Target, " dev ")
	}
	if link == "" {
		link = filled(k.Native[runtime.GOOS].Name, p.Native)
	}
	return link, route
}

// LinkOf returns the name of the interface of p, a place of the knob; "" if p is for the
// whole machine.
func (h Host) LinkOf(id model.KnobID, p Place) string {
	k, ok := h.Index.ByID(id)
	if !ok {
		return ""
	}
	link, _ := parts(k, p)
	return link
}

// Elsewhere returns the place of the knob on another interface: where to look if an interface
// was renamed.
func (h Host) Elsewhere(id model.KnobID, p Place, link string) (Place, error) {
	k, ok := h.Index.ByID(id)
	if !ok {
		return Place{}, h.Index.UnknownError(id)
	}
	_, route := parts(k, p)
	_, at, err := (Host{Interface: link, Route: route, Index: h.Index}).Place(id)
	return at, err
}

// filled returns the interface that turns the template into a native name, "" for none.
func filled(template, native string) string {
	for _, mark := range []string{"{if}", "{dev}"} {
		head, tail, ok := strings.Cut(template, mark)
		if !ok {
			continue
		}
		rest, begins := strings.CutPrefix(native, head)
		name, ends := strings.CutSuffix(rest, tail)
		if begins && ends && mark == "{dev}" {
			return strings.Replace(name, ".", "", 1) // "em.0" is em0, see Host.Expand
		}
		if begins && ends {
			return name
		}
	}
	return ""
}

// isLinkName reports whether a system allows an interface name: Linux net/core/dev.c
// dev_valid_name forbids slashes, colons and spaces, Windows allows 256 characters without
// control characters (IF_MAX_STRING_SIZE of ifdef.h).
func isLinkName(name string) bool {
	if runtime.GOOS == "windows" {
		return len(name) <= 256 && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f })
	}
	return len(name) <= 15 && name != "." && name != ".." && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r == 0x7f || strings.ContainsRune(`/:\*?[]`, r)
	})
}

// readable returns why the knob cannot have had that text: linerate sets only what it could
// read before.
func (h Host) readable(id model.KnobID, text string) string {
	k, _ := h.Index.ByID(id) // belongs has found it
	if strings.ContainsAny(text, "\n\x00") {
		return fmt.Sprintf("%q is not one line", text)
	}
	switch k.Type {
	case knob.TypeBytes, knob.TypeInt, knob.TypeRate, knob.TypeBool:
		if k.Native[runtime.GOOS].Mechanism == knob.Sysctl && strings.Trim(text, "0123456789- \t") != "" {
			return fmt.Sprintf("%q is no number", text)
		}
	case knob.TypeEnum, knob.TypeName, knob.TypeWords:
	}
	if _, err := k.Decode(runtime.GOOS, text); err != nil {
		return err.Error()
	}
	return ""
}
