package winreg

import "io/fs"

// Memory is a registry in memory: the text of each value by key and name. An empty map is a
// key without values.
type Memory map[string]map[string]string

// Open returns a value of the registry in memory.
func (m Memory) Open(path string) (*Value, error) { return open(m, path) }

func (m Memory) get(key, name string) (data, bool, error) {
	values, ok := m[key]
	if !ok {
		return data{}, false, fs.ErrNotExist
	}
	text, ok := values[name]
	if !ok {
		return data{}, false, nil
	}
	d, err := parse(text)
	return d, true, err
}

func (m Memory) set(key, name string, d data) error {
	m[key][name] = d.String()
	return nil
}

func (m Memory) remove(key, name string) error {
	delete(m[key], name)
	return nil
}
