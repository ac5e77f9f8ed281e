package knob

// holder is a Backend whose file can stay open.
type holder interface {
	Backend
	Hold() error
	Release() error
}

// Held are the places whose files stay open, so that they can be read and written when the
// process can get no file descriptor. Links and routes need a socket and are not held.
type Held map[Place]holder

// Hold keeps the setting at p open. If that fails, each access opens it.
func (h Host) Hold(p Place) {
	b, err := h.Open(p)
	if f, ok := b.(holder); ok && err == nil && h.Held[p] == nil && f.Hold() == nil {
		h.Held[p] = f
	}
}

// Release ends what Hold started for p.
func (h Host) Release(p Place) {
	if f, ok := h.Held[p]; ok {
		_ = f.Release() // all writes have taken effect
		delete(h.Held, p)
	}
}
