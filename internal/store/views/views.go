// Package views reads data for pages, reports and the API: lists, totals and whole runs, from the
// rows that package store writes. It writes nothing.
package views

import (
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
)

// Views reads data for display. It is safe for concurrent use.
type Views struct {
	store *store.Store
	q     *db.Queries // each statement its own transaction
	lists *db.Queries // like q, but planned for the actual parameters: unused filters are dropped
}

// New returns the views of a store.
func New(st *store.Store) *Views {
	return &Views{store: st, q: st.Queries(), lists: st.ListQueries()}
}
