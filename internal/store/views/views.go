// Package views reads what pages, reports and the API show: lists, sums and whole runs,
// from the rows that package store writes. It writes nothing.
package views

import (
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
)

// Views reads data for display. It is safe for concurrent use.
type Views struct {
	store *store.Store
	q     *db.Queries // each statement its own transaction
	lists *db.Queries // like q, planned for its parameters: filters that are not used fall away
}

// New returns the views of a store.
func New(st *store.Store) *Views {
	return &Views{store: st, q: st.Queries(), lists: st.ListQueries()}
}
