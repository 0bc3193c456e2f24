package embedding

import (
	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/modelcall"
)

// Waiting returns how many attempts wait for a call that is running here.
func (e *Embedder) Waiting(execution int64, turn int) int {
	return e.calls.Waiting(modelcall.Call{Execution: contract.ExecutionRef{ID: execution}, Turn: turn}.Key())
}
