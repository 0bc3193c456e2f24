// Package providers stores what all workers know together about model providers: their circuit
// breakers, the runs that use other models meanwhile, their pauses, and the calls that wait for
// their turn.
//
// All times are decided by the database's clock, because those of workers differ.
package providers

import (
	"context"
	"errors"
	"time"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

// BreakerAge is how long a breaker stays half-open if no call tries to close it, because the model is
// not used any more.
const BreakerAge = 7 * 24 * time.Hour

// Store is the state of the model providers. It is safe for concurrent use.
type Store struct {
	store *store.Store
	q     *db.Queries // each statement its own transaction
}

// New returns the state of the model providers in a database.
func New(st *store.Store) *Store { return &Store{store: st, q: st.Queries()} }

// Tidy completes what workers that died have left: it ends the fallbacks from models that are usable
// again, closes the breakers of models that are not used any more, and removes calls that no longer
// count.
func (s *Store) Tidy(ctx context.Context) error {
	return errors.Join(
		dberr.Explain(s.q.ForgetBreakers(ctx, BreakerAge.Seconds()), "close the circuit breakers of unused models"),
		dberr.Explain(s.q.ForgetAllCalls(ctx, Window.Seconds()), "remove old calls from the queues of model providers"),
		s.EndFallbacks(ctx, ""),
	)
}
