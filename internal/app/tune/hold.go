package tune

import (
	"context"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/change"
	"linerate/internal/app/reach"
	"linerate/internal/core/model"
)

// holdWithin is how long a change that a person has agreed to may take to be confirmed.
const holdWithin = time.Minute

// OfHosts are the settings of a winner that a host can keep. Those of the test itself,
// as its connections, end with it.
func OfHosts(winner model.Setting) []model.Assignment {
	var out []model.Assignment
	for _, a := range winner.Assignments {
		if a.Host != "" {
			out = append(out, a)
		}
	}
	return out
}

// Hold sets what a search found, on the hosts that it was made on, until they start
// again. It is a change like any other, with its undo on disk, proven over fresh
// connections; only that the person who wanted it is not asked a second time. named is
// the far host as it was named.
func Hold(ctx context.Context, env app.Env, e *reach.Ends, named string, winner model.Setting, atBoot bool) (change.Result, error) {
	env.Asker = agreed{env.Asker}
	h := change.Of(e, named, true)
	defer h.Settle(e)
	held, err := change.Do(ctx, env, h, change.Request{Wanted: OfHosts(winner), Within: holdWithin, AtBoot: atBoot})
	if held.Outcome == change.Confirmed {
		e.Hosts = under(e.Hosts, winner) // what they were read to have is no more
	}
	return held, err
}

// agreed answers what a person has answered already.
type agreed struct{ app.Asker }

// Ask implements app.Asker.
func (a agreed) Ask(ctx context.Context, q app.Question) (app.Answer, error) {
	if q.Kind == app.KeepChange {
		return app.Answer{Yes: true}, nil
	}
	return a.Asker.Ask(ctx, q)
}
