// Package providers stores what all workers know together about model providers: their circuit
// breakers, the runs that use other models meanwhile, their pauses, and the calls that wait for
// their turn.
//
// All times are decided by the database's clock, because those of workers differ.
package providers

import (
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
)

// Store is the state of the model providers. It is safe for concurrent use.
type Store struct {
	store *store.Store
	q     *db.Queries // each statement its own transaction
}

// New returns the state of the model providers in a database.
func New(st *store.Store) *Store { return &Store{store: st, q: st.Queries()} }
