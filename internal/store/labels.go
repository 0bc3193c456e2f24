package store

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// LabelChange adds labels to a run and removes others.
type LabelChange struct {
	Add, Remove []string
	By          string // who changes them: a person, or a client such as contract.ByAPI
	Reason      string
}

// labelEvent is the content of the events of labels.
type labelEvent struct {
	Label  string `json:"label"`
	By     string `json:"by"`
	Reason string `json:"reason,omitempty"`
}

// ChangeLabels changes the labels of a run, all or nothing, with an event for each label that changes,
// and returns their number. A label that the run has already, or does not have, changes nothing, so a
// repeat is harmless.
func (s *Store) ChangeLabels(ctx context.Context, runID int64, c LabelChange) (changed int, err error) {
	err = s.inTx(ctx, func(tx pgx.Tx) error {
		changed = 0
		q := s.q.WithTx(tx)
		for _, one := range []struct {
			labels []string
			added  bool
			event  contract.EventType
		}{{c.Remove, false, contract.EventLabelRemoved}, {c.Add, true, contract.EventLabelAdded}} {
			for _, label := range one.labels {
				payload, err := rowconv.Encode(labelEvent{rowconv.Text(label), rowconv.Text(c.By), rowconv.Text(c.Reason)})
				if err != nil {
					return err
				}
				row, err := q.ChangeLabel(ctx, db.ChangeLabelParams{
					RunID: runID, Label: rowconv.Text(label), Added: one.added, Most: contract.MaxLabels, EventType: string(one.event), Payload: payload,
				})
				switch {
				case errors.Is(err, pgx.ErrNoRows):
					return dberr.NoRun(runID)
				case err != nil:
					return err
				case row.FullOfLabels:
					return fault.New(contract.ClassHuman, contract.CodeRejected, "run %d has %d labels, which is the maximum; remove one first", runID, contract.MaxLabels)
				case row.Changed:
					changed++
				}
			}
		}
		return nil
	})
	return changed, dberr.OfRun(err, runID, "change the labels of run %d", runID)
}
