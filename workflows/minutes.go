package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
)

// minutes write what happens in a deliberation into the database: one record
// after the other, in the order in which it happened. What gathers while one is
// under way goes into the next. They go on trying while the database is away:
// nobody waits for them but the deliberation's end.
type minutes struct {
	of      *council
	seq     int64
	writing bool
	failed  error
}

// newMinutes starts the one coroutine that writes.
func newMinutes(ctx workflow.Context, of *council) *minutes {
	m := &minutes{of: of}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.Go(ctx, m.write)
	return m
}

func (m *minutes) write(ctx workflow.Context) {
	for {
		if workflow.Await(ctx, m.of.toWrite) != nil {
			return
		}
		m.seq++
		m.writing = true
		err := workflow.ExecuteActivity(recording(ctx), contract.ActivityPipelineRecord, m.of.draft(m.seq, workflow.Now(ctx))).Get(ctx, nil)
		m.writing = false
		if err != nil {
			m.failed = err
			workflow.GetLogger(ctx).Error("Could not write what happened in a deliberation", "pipeline", m.of.in.PipelineID, "record", m.seq, "error", err)
		}
	}
}

// flush waits until all is written. It fails if something never could be.
func (m *minutes) flush(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return !m.writing && !m.of.toWrite() }); err != nil {
		return err
	}
	return m.failed
}
