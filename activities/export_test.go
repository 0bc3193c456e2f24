package activities

import (
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/modelcall"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/tester"
)

// Waiting returns how many attempts wait for a model call that is running here.
func (a *Activities) Waiting(execution int64, turn int) int {
	return a.calls.Waiting(modelcall.Call{Execution: contract.ExecutionRef{ID: execution}, Turn: turn}.Key())
}

// KeepFiles stores the files of a check, and returns how many were left out.
func (a *Activities) KeepFiles(ctx context.Context, in contract.VerifyInput, f tester.Files) (leftOut int, err error) {
	kept, err := a.keepFiles(ctx, in, f)
	return kept.leftOut, err
}

// Over is over.
func Over(s changesets.Set, now time.Time) bool { return over(s, now) }
