package ethtool

// UseRequest makes s ask by the older request.
func (s *Setting) UseRequest() { s.open = func() (transport, error) { return request{}, nil } }

// Answer is what a transport tells about a group.
type Answer struct {
	Numbers map[string]uint32
	On      map[string][]string // bits that are on, by set
}

// Told asks for a group over generic netlink, or by the older request.
func Told(device, name string, older bool) (Answer, error) {
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
			if one.On && one.Name != "" { // a feature that was retired has none
				a.On[set] = append(a.On[set], one.Name)
			}
		}
	}
	return a, err
}
