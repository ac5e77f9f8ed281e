package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/goccy/go-yaml"

	"linerate/internal/core/fleet"
	"linerate/internal/core/yamlshape"
)

// ParseSetup parses what an operator says about the hosts of a fleet. Unknown keys are mistakes.
func ParseSetup(data []byte) (*fleet.Setup, error) {
	if f := yamlshape.Check(data); f != nil {
		return nil, fmt.Errorf("line %d: %s", f.Line, f.Reason)
	}
	s := new(fleet.Setup)
	d := yaml.NewDecoder(bytes.NewReader(data), yaml.Strict())
	if err := d.Decode(s); errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty; {} ends what was applied before")
	} else if e, ok := errors.AsType[yaml.Error](err); ok {
		return nil, fmt.Errorf("line %d: %s", e.GetToken().Position.Line, e.GetMessage())
	} else if err != nil {
		return nil, err
	}
	if err := d.Decode(new(fleet.Setup)); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one document")
	}
	return s, s.Validate()
}
