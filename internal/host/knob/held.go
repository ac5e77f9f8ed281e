package knob

// holder is a Backend that can stay open.
type holder interface {
	Backend
	Hold() error
	Release() error
}

// Held are settings that need no file descriptor to be read and written, which a process may
// not get when its time comes: files that stay open. Links and routes need a socket.
type Held map[Place]holder

// Hold keeps the setting at p open. One that cannot be opened so is left to who writes it.
func (h Host) Hold(p Place) {
	b, err := h.Open(p)
	if f, ok := b.(holder); ok && err == nil && h.Held[p] == nil && f.Hold() == nil {
		h.Held[p] = f
	}
}

// Release ends what Hold began for p.
func (h Host) Release(p Place) {
	if f, ok := h.Held[p]; ok {
		_ = f.Release() // all that was written is at work
		delete(h.Held, p)
	}
}
