// Package catalogue stores what an installation knows about models beyond the catalogue of its
// programs: entries from a newer source, and capabilities that were tried at a provider. All its
// processes read them here.
package catalogue

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// MaxEntries is the maximum number of entries that are read.
const MaxEntries = 10_000

const (
	update = "update"
	check  = "check"
)

// Store is the stored part of the catalogue. It is safe for concurrent use.
type Store struct {
	store *store.Store
	q     *db.Queries // each statement its own transaction
}

// New returns the stored part of the catalogue in a database.
func New(st *store.Store) *Store { return &Store{st, st.Queries()} }

// Read returns everything that is stored.
func (s *Store) Read(ctx context.Context) (model.Learned, error) {
	var out model.Learned
	rows, err := s.q.LearnedModels(ctx, MaxEntries)
	if err != nil {
		return out, dberr.Explain(err, "read the stored catalogue of models")
	}
	for _, r := range rows {
		if r.Kind == check {
			c, err := rowconv.Decode[model.Checked](r.Content)
			if err != nil {
				return out, err
			}
			out.Checks = append(out.Checks, c)
			continue
		}
		e, err := rowconv.Decode[model.CatalogueEntry](r.Content)
		if err != nil {
			return out, err
		}
		out.Updates = append(out.Updates, e)
	}
	return out, nil
}

// Update stores entries from a newer source, all or none. They replace earlier ones of the same
// models.
func (s *Store) Update(ctx context.Context, entries model.Catalogue, by string) error {
	content, err := rowconv.Encode(store.NotNil(entries))
	if err != nil {
		return err
	}
	return dberr.Explain(s.q.LearnModels(ctx, db.LearnModelsParams{Kind: update, Entries: content, ChangedBy: rowconv.Text(by)}), "store %d models in the catalogue", len(entries))
}

// Check stores the capabilities that a model was found to have, instead of those of earlier checks.
func (s *Store) Check(ctx context.Context, c model.Checked, by string) error {
	content, err := rowconv.Encode([]model.Checked{c})
	if err != nil {
		return err
	}
	return dberr.Explain(s.q.LearnModels(ctx, db.LearnModelsParams{Kind: check, Entries: content, ChangedBy: rowconv.Text(by)}), "store the capabilities of %s/%s", c.Provider, c.Model)
}

// Reset removes everything that is stored, and returns the number of entries. by is who removes it.
func (s *Store) Reset(ctx context.Context, by string) (n int64, err error) {
	err = s.store.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := store.ActAs(ctx, q, by); err != nil {
			return err
		}
		n, err = q.ForgetModels(ctx)
		return err
	})
	return n, dberr.Explain(err, "remove the stored catalogue of models")
}
