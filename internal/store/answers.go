package store

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
)

// Answer returns the stored answer of a model call, or ErrNotFound while there
// is none.
func (s *Store) Answer(ctx context.Context, executionID int64, turn int) (json.RawMessage, error) {
	answer, err := s.q.AnswerOfTurn(ctx, db.AnswerOfTurnParams{ExecutionID: executionID, Turn: int32(turn)})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, dberr.NotFound("execution %d has no answer for turn %d", executionID, turn)
	}
	return answer, dberr.Explain(err, "read the answer to turn %d of execution %d", turn, executionID)
}
