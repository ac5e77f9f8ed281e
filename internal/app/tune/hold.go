package tune

import (
	"context"
	"time"

	"linerate/internal/app"
	"linerate/internal/app/change"
	"linerate/internal/app/target"
	"linerate/internal/core/model"
)

// holdWithin is the deadline for confirming a change that the user has agreed to.
const holdWithin = time.Minute

// OfHosts returns the settings of a winner that a host can keep. Settings of the test itself,
// such as the number of connections, end with it.
func OfHosts(winner model.Setting) []model.Assignment {
	var out []model.Assignment
	for _, a := range winner.Assignments {
		if a.Host != "" {
			out = append(out, a)
		}
	}
	return out
}

// Hold applies the result of a search to its hosts until they restart. It is a change like
// any other, with its undo on disk, proven over new connections, except that it does not ask
// the user a second time. named is the far host as the user named it.
func Hold(ctx context.Context, env app.Env, e *target.Ends, named string, winner model.Setting, atBoot bool) (change.Result, error) {
	env.Asker = agreed{env.Asker}
	h := change.Of(e, named, true)
	defer h.Settle(e)
	held, err := change.Do(ctx, env, h, change.Request{Wanted: OfHosts(winner), Within: holdWithin, AtBoot: atBoot})
	if held.Outcome == change.Confirmed {
		e.Hosts = under(e.Hosts, winner) // the facts read before are out of date
	}
	return held, err
}

// agreed answers the question that the user has answered already.
type agreed struct{ app.Asker }

// Ask implements app.Asker.
func (a agreed) Ask(ctx context.Context, q app.Question) (app.Answer, error) {
	if q.Kind == app.KeepChange {
		return app.Answer{Yes: true}, nil
	}
	return a.Asker.Ask(ctx, q)
}
