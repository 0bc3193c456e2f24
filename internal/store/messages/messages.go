// Package messages reads the messages that people write to the agents of a run while it works, and
// which agents have got them. A message is an event of its run (contract.EventMessageAdded), so it is
// stored exactly once. Store.ReserveCall delivers messages: the agent gets them with its next turn.
package messages

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

const (
	// maxPending is the maximum number of messages that an agent gets before one turn; later ones come
	// before the next turn.
	maxPending = 20
	// maxListed is the maximum number of messages that Of returns, the newest ones.
	maxListed = 200
)

// Message is a message to the agents of a run. Seq is the number of its event.
type Message struct {
	Seq int64 `json:"seq"`
	contract.RunMessage
	CreatedAt  time.Time `json:"created_at"`
	Deliveries []Receipt `json:"deliveries"` // empty: no agent has got it yet
}

// Receipt tells which agent got a message, and before which of its turns.
type Receipt struct {
	ExecutionID int64          `json:"execution_id"`
	Agent       contract.Agent `json:"agent"`
	Phase       contract.Phase `json:"phase"`
	Step        string         `json:"step,omitempty"`
	Attempt     int            `json:"attempt"`
	Turn        int            `json:"turn"`
	At          time.Time      `json:"at"`
}

// Pending returns the messages that the agent of an execution has not got yet, oldest first, and at
// most a number that fits into one turn.
func Pending(ctx context.Context, st *store.Store, e contract.ExecutionRef) ([]Message, error) {
	rows, err := st.Queries().PendingMessages(ctx, db.PendingMessagesParams{RunID: e.RunID, ExecutionID: e.ID, Step: rowconv.Text(e.Step), Most: maxPending})
	if err != nil {
		return nil, dberr.Explain(err, "read the messages to the agents of run %d", e.RunID)
	}
	out := make([]Message, len(rows))
	for i, r := range rows {
		out[i].Seq, out[i].CreatedAt = r.Seq, r.CreatedAt
		if out[i].RunMessage, err = rowconv.Decode[contract.RunMessage](r.Payload); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Of returns the newest messages to the agents of a run with their deliveries, oldest first.
func Of(ctx context.Context, st *store.Store, run int64) ([]Message, error) {
	rows, err := st.Queries().RunMessages(ctx, db.RunMessagesParams{RunID: run, Most: maxListed})
	if err != nil {
		return nil, dberr.Explain(err, "read the messages to the agents of run %d", run)
	}
	out := []Message{}
	for _, r := range rows {
		if n := len(out); n == 0 || out[n-1].Seq != r.Seq {
			text, err := rowconv.Decode[contract.RunMessage](r.Payload)
			if err != nil {
				return nil, err
			}
			out = append(out, Message{Seq: r.Seq, RunMessage: text, CreatedAt: r.CreatedAt, Deliveries: []Receipt{}})
		}
		if r.DeliveredAt == nil {
			continue
		}
		m := &out[len(out)-1]
		m.Deliveries = append(m.Deliveries, Receipt{
			ExecutionID: r.ExecutionID, Agent: contract.Agent(r.Agent), Phase: contract.Phase(r.Phase), Step: r.Step,
			Attempt: int(r.Attempt), Turn: int(r.Turn), At: *r.DeliveredAt,
		})
	}
	return out, nil
}
