package control

import (
	"context"

	"go.temporal.io/sdk/client"

	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/workerhost"
)

// StartPipeline starts the workflow of a pipeline that was spawned, once. Where
// that fails the worker's reconciler does it when it can: the pipeline is there.
func StartPipeline(ctx context.Context, c client.Client, db *store.Store, p store.Pipeline) error {
	return workerhost.StartPipeline(ctx, c, db, p)
}
