package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/db"
	"github.com/rocketgpt/orchestrator/internal/store/internal/dberr"
	"github.com/rocketgpt/orchestrator/internal/store/internal/rowconv"
)

// AppendOutput stores a piece of the output of a run's commands, for live viewing.
func (s *Store) AppendOutput(ctx context.Context, runID int64, source, piece string) error {
	return dberr.OfRun(s.q.AppendOutput(ctx, db.AppendOutputParams{RunID: runID, Source: rowconv.Text(source), Text: rowconv.Text(piece)}), runID, "store output of run %d", runID)
}

// DropOutputs removes pieces of output older than age; by then, the whole output is stored as an
// artifact.
func (s *Store) DropOutputs(ctx context.Context, age time.Duration) (int64, error) {
	n, err := s.q.DropOutputs(ctx, age.Seconds())
	return n, dberr.Explain(err, "remove old output")
}

// LiveText is what a model has written so far in a call that is in progress. It is sent to clients
// that watch, and stored nowhere.
type LiveText struct {
	RunID       int64          `json:"run_id"`
	ExecutionID int64          `json:"execution_id"`
	Turn        int            `json:"turn"`
	Try         int            `json:"try"` // of the call; a later one replaces the text of an earlier one
	Phase       contract.Phase `json:"phase"`
	Agent       contract.Agent `json:"agent"`
	Step        string         `json:"step,omitempty"`
	Attempt     int            `json:"attempt"`
	Text        string         `json:"text,omitempty"` // its end, at most LiveTextBytes
	Thinking    bool           `json:"thinking,omitempty"`
	Tool        string         `json:"tool,omitempty"` // the tool call that the model writes now
	Path        string         `json:"path,omitempty"` // in its arguments
	Characters  int            `json:"characters,omitempty"`
	Over        bool           `json:"over,omitempty"` // the call has ended: the text is gone, and its response is stored
}

const (
	// LiveTextBytes is the maximum length of a text that is shown while it is written.
	LiveTextBytes = 2 << 10
	// LiveTextRenewal is how often a text is shown again if it does not change. A reader drops a text
	// that was not shown for several times as long: its worker died.
	LiveTextRenewal = 5 * time.Second
	// maxNotification is PostgreSQL's limit for the payload of a notification.
	maxNotification = 7999
)

// ShowText sends a text to the readers of its run's texts (feed.FollowTexts), and reports whether
// there are any. Otherwise it writes nothing.
func (s *Store) ShowText(ctx context.Context, t LiveText) (watched bool, err error) {
	var payload strings.Builder
	encoder := json.NewEncoder(&payload)
	encoder.SetEscapeHTML(false) // it would make a text of < six times as long
	if err := encoder.Encode(t); err != nil {
		return false, fmt.Errorf("encode the text of run %d: %w", t.RunID, err)
	}
	if n := payload.Len(); n > maxNotification {
		return false, fmt.Errorf("show what a model writes in run %d: the message has %d bytes, more than the %d that PostgreSQL allows", t.RunID, n, maxNotification)
	}
	n, err := s.q.ShowText(ctx, db.ShowTextParams{Lock: TextLock(t.RunID), Channel: TextChannel(t.RunID), Payload: payload.String()})
	return n > 0, dberr.Explain(err, "show what a model writes in run %d", t.RunID)
}

// TextChannel is the channel on which the texts of a run are sent, and TextLock the key of the lock
// that its readers share.
func TextChannel(runID int64) string { return fmt.Sprintf("rgpt_text_%d", runID) }

// TextLock is described at TextChannel.
func TextLock(runID int64) string { return fmt.Sprintf("rgpt.texts/%d", runID) }
