package cli

import (
	"fmt"
	"slices"

	"linerate/internal/app"
	"linerate/internal/core/knob"
	"linerate/internal/core/model"
	"linerate/internal/measure/engines"
)

// engineTakes reports what the engine of a plan does not take, of the flow or of
// a setting of it, so that it is said before any host is asked.
func engineTakes(p model.Plan) error {
	e, err := engines.ByName(engines.All(engines.Options{}), p.Flow.Engine)
	if err != nil {
		return app.WithKind(app.Usage, err)
	}
	for _, d := range p.Directions {
		flow := p.Flow
		flow.Direction = d
		if err := e.Validate(flow); err != nil {
			return app.WithKind(app.Usage, err)
		}
		for _, s := range p.Settings {
			of := slices.DeleteFunc(slices.Clone(s.Assignments), func(a model.Assignment) bool { return a.Host != "" })
			set, err := knob.ApplyFlow(flow, of)
			if err == nil {
				err = e.Validate(set)
			}
			if err != nil {
				return app.WithKind(app.Usage, fmt.Errorf("setting %s: %w", s.Name, err))
			}
		}
	}
	return nil
}
