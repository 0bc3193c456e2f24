package deliberation

import (
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/deliberation/state"
	"github.com/rocketgpt/orchestrator/workflows/internal/options"
)

// recordWriter writes a deliberation's records to the database, one after the other. Data that
// accumulates while a record is being written goes into the next one. It retries while the database
// is down: nothing waits for it except the deliberation's end.
type recordWriter struct {
	state   *state.State
	seq     int64
	writing bool
	failed  error
}

// newRecordWriter starts the only coroutine that writes.
func newRecordWriter(ctx workflow.Context, of *state.State) *recordWriter {
	m := &recordWriter{state: of}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	workflow.Go(ctx, m.write)
	return m
}

func (m *recordWriter) write(ctx workflow.Context) {
	for {
		if workflow.Await(ctx, m.state.HasUnwritten) != nil {
			return
		}
		m.seq++
		m.writing = true
		err := workflow.ExecuteActivity(options.Persistent(ctx), contract.ActivityPipelineRecord, m.state.NextRecord(m.seq, workflow.Now(ctx))).Get(ctx, nil)
		m.writing = false
		if err != nil {
			m.failed = err
			workflow.GetLogger(ctx).Error("Could not write a record of a deliberation", "pipeline", m.state.Input.PipelineID, "record", m.seq, "error", err)
		}
	}
}

// flush waits until everything is written. It fails if a record failed permanently.
func (m *recordWriter) flush(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return !m.writing && !m.state.HasUnwritten() }); err != nil {
		return err
	}
	return m.failed
}
