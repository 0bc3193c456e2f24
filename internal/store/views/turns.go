package views

import (
	"context"
	"encoding/json"

	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// Spoken is a message of a conversation, its beginning.
type Spoken struct {
	Turn      int
	Index     int // of the tool call that it is the result of; -1: it is no result
	Role      string
	Text      string
	Size      int64           // of the whole text, in bytes
	ToolCalls json.RawMessage // that the model wants, as it wrote them
}

// mostSpoken is how many messages of a turn are read.
const mostSpoken = 80

// TurnOf returns what was new to a model when it was asked in a turn, and what
// it answered; of long texts the first 20,000 characters.
func (v *Views) TurnOf(ctx context.Context, executionID int64, turn int) ([]Spoken, error) {
	rows, err := v.q.SpokenInTurn(ctx, db.SpokenInTurnParams{ExecutionID: executionID, TurnBefore: int32(turn - 1), Turn: int32(turn), Results: rowconv.ToolResults, Most: mostSpoken})
	return rowconv.Convert(rows, func(r db.SpokenInTurnRow) Spoken {
		return Spoken{Turn: int(r.Turn), Index: max(-1, int(r.Position)-rowconv.ToolResults), Role: r.Role, Text: r.Text, Size: r.Size, ToolCalls: r.ToolCalls}
	}), dberr.Explain(err, "read turn %d of execution %d", turn, executionID)
}
