package views

import (
	"context"

	"github.com/rocketgpt/orchestrator/internal/store/providers"
)

// Breakers returns the circuit breakers of models and providers with a failure since their last
// success; all others are closed.
func (v *Views) Breakers(ctx context.Context) ([]providers.Breaker, error) {
	return providers.New(v.store).Breakers(ctx)
}

// ProviderQueues returns what happens now at the model providers with limits.
func (v *Views) ProviderQueues(ctx context.Context) ([]providers.Queue, error) {
	return providers.New(v.store).Queues(ctx)
}

// WaitingCalls returns the model calls of a run that wait for their turn at a provider.
func (v *Views) WaitingCalls(ctx context.Context, runID int64) ([]providers.Waiting, error) {
	return providers.New(v.store).WaitingOf(ctx, runID)
}
