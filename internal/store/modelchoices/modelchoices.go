// Package modelchoices stores the models that people chose for agents, and the last changes of these
// choices.
package modelchoices

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// KeepChanges is the number of changes that are kept for each agent. Older ones are removed.
const KeepChanges = 200

// Choice is the model that a person chose for an agent.
type Choice struct {
	Agent   contract.Agent       `json:"agent"`
	Model   contract.ModelChoice `json:"model"`
	Version int64                `json:"version" doc:"changes with each change of the choice; a change that names an older one is rejected"`
	By      string               `json:"changed_by"`
	At      time.Time            `json:"changed_at"`
}

// Change is one change of a choice.
type Change struct {
	ID    int64                 `json:"id"`
	Agent contract.Agent        `json:"agent"`
	From  *contract.ModelChoice `json:"from,omitempty" doc:"absent: as configured"`
	To    *contract.ModelChoice `json:"to,omitempty" doc:"absent: as configured"`
	By    string                `json:"changed_by"`
	At    time.Time             `json:"changed_at"`
}

// Store holds the choices. It is safe for concurrent use.
type Store struct {
	store *store.Store
	q     *db.Queries // each statement its own transaction
}

// New returns the choices in a database.
func New(st *store.Store) *Store { return &Store{store: st, q: st.Queries()} }

// List returns all choices, sorted by agent.
func (s *Store) List(ctx context.Context) ([]Choice, error) {
	rows, err := s.q.ModelChoices(ctx)
	return rowconv.Convert(rows, choiceOf), dberr.Explain(err, "read the models that people chose")
}

// Set stores the model of an agent. If seen is set, it is the version that the person saw, 0 if there
// was no choice; if the choice has changed since, the error is a HUMAN_ERROR with
// contract.CodeRejected, and nothing is changed.
func (s *Store) Set(ctx context.Context, agent contract.Agent, model contract.ModelChoice, seen *int64, by string) (Choice, error) {
	model.Timeout = 0 // of the provider, at the time of use
	by = rowconv.Text(by)
	var row db.ModelChoice
	err := s.changing(ctx, agent, seen, func(q *db.Queries, before *contract.ModelChoice) error {
		version, err := record(ctx, q, agent, before, &model, by)
		if err != nil {
			return err
		}
		row, err = q.SetModelChoice(ctx, db.SetModelChoiceParams{
			Agent: string(agent), Provider: model.Provider, Model: model.Model, Temperature: model.Temperature, Effort: string(model.Effort),
			Version: version, ChangedBy: by,
		})
		return err
	})
	return choiceOf(row), dberr.Explain(err, "store the model of the %s", agent)
}

// Unset removes the choice for an agent, and reports whether there was one. seen is as for Set.
func (s *Store) Unset(ctx context.Context, agent contract.Agent, seen *int64, by string) (removed bool, err error) {
	err = s.changing(ctx, agent, seen, func(q *db.Queries, before *contract.ModelChoice) error {
		if removed = before != nil; !removed {
			return nil
		}
		if _, err := record(ctx, q, agent, before, nil, rowconv.Text(by)); err != nil {
			return err
		}
		return q.DropModelChoice(ctx, string(agent))
	})
	return removed && err == nil, dberr.Explain(err, "remove the model that was chosen for the %s", agent)
}

// Changes returns the last changes for an agent, or for all if agent is empty; the newest first.
func (s *Store) Changes(ctx context.Context, agent contract.Agent, limit int) ([]Change, error) {
	rows, err := s.q.ModelChoiceChanges(ctx, db.ModelChoiceChangesParams{Agent: rowconv.Optional(string(agent)), Most: rowconv.Limit(limit, KeepChanges)})
	if err != nil {
		return nil, dberr.Explain(err, "read the changes of the models")
	}
	return rowconv.ConvertAll(rows, changeOf)
}

// changing calls fn with the current model of an agent in a transaction, one at a time for each agent.
func (s *Store) changing(ctx context.Context, agent contract.Agent, seen *int64, fn func(q *db.Queries, before *contract.ModelChoice) error) error {
	return s.store.InTx(ctx, func(tx pgx.Tx) error {
		q := db.New(tx)
		if err := q.LockModelChoice(ctx, string(agent)); err != nil {
			return err
		}
		row, err := q.ModelChoice(ctx, string(agent))
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if seen != nil && *seen != row.Version {
			return overtaken(agent, row)
		}
		if row.Version == 0 {
			return fn(q, nil)
		}
		before := choiceOf(row).Model
		return fn(q, &before)
	})
}

// overtaken is the error for a change by a person who has not seen the current choice.
func overtaken(agent contract.Agent, now db.ModelChoice) error {
	if now.Version == 0 {
		return fault.New(contract.ClassHuman, contract.CodeRejected,
			"the model of the %s was reset to the configuration in the meantime; nothing was changed. Reload, and choose again", agent)
	}
	return fault.New(contract.ClassHuman, contract.CodeRejected,
		"%s set the model of the %s to %s/%s at %s; nothing was changed. Reload, and choose again",
		strings.TrimSpace(now.ChangedBy), agent, now.Provider, now.Model, now.ChangedAt.UTC().Format(time.RFC3339))
}

// record adds a change to the history, and removes the oldest ones. It returns the id of the change.
func record(ctx context.Context, q *db.Queries, agent contract.Agent, from, to *contract.ModelChoice, by string) (int64, error) {
	before, err := rowconv.EncodeSome(from)
	if err != nil {
		return 0, err
	}
	after, err := rowconv.EncodeSome(to)
	if err != nil {
		return 0, err
	}
	id, err := q.AddModelChoiceChange(ctx, db.AddModelChoiceChangeParams{Agent: string(agent), OldChoice: before, NewChoice: after, ChangedBy: by})
	if err != nil {
		return 0, err
	}
	return id, q.TrimModelChoiceChanges(ctx, db.TrimModelChoiceChangesParams{Agent: string(agent), Keep: KeepChanges})
}

func choiceOf(row db.ModelChoice) Choice {
	return Choice{
		Agent:   contract.Agent(row.Agent),
		Model:   contract.ModelChoice{Provider: row.Provider, Model: row.Model, Temperature: row.Temperature, Effort: contract.Effort(row.Effort)},
		Version: row.Version, By: row.ChangedBy, At: row.ChangedAt,
	}
}

func changeOf(row db.ModelChoiceChange) (Change, error) {
	out := Change{ID: row.ID, Agent: contract.Agent(row.Agent), By: row.ChangedBy, At: row.ChangedAt}
	for _, side := range []struct {
		raw []byte
		to  **contract.ModelChoice
	}{{row.OldChoice, &out.From}, {row.NewChoice, &out.To}} {
		if len(side.raw) == 0 {
			continue
		}
		m, err := rowconv.Decode[contract.ModelChoice](side.raw)
		if err != nil {
			return out, err
		}
		*side.to = &m
	}
	return out, nil
}
