package showcase

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// stamps has the times of rows that the database stamps with its own clock.
type stamps struct {
	events struct {
		from, to []int64
		at       []time.Time
	}
	calls struct {
		execution []int64
		turn      []int32
		from, to  []time.Time
		open      []bool
	}
	checks struct {
		execution []int64
		check     []string
		from, to  []time.Time
	}
	lastEvent int64
}

func (s *stamps) call(execution int64, turn int, from, to time.Time, open bool) {
	c := &s.calls
	c.execution, c.turn = append(c.execution, execution), append(c.turn, int32(turn))
	c.from, c.to, c.open = append(c.from, from), append(c.to, to), append(c.open, open)
}

func (s *stamps) check(execution int64, check string, from, to time.Time) {
	c := &s.checks
	c.execution, c.check = append(c.execution, execution), append(c.check, check)
	c.from, c.to = append(c.from, from), append(c.to, to)
}

// stamp assigns the current time to the events written since the last stamp.
func (t *runWriter) stamp() {
	t.do(func() error {
		var last int64
		if err := t.f.sql.QueryRow(t.ctx, "SELECT event_seq FROM orchestrator_runs WHERE id = $1", t.run.ID).Scan(&last); err != nil {
			return fmt.Errorf("read the number of events of run %d: %w", t.run.ID, err)
		}
		if s := &t.stamps; last > s.lastEvent {
			s.events.from, s.events.to, s.events.at = append(s.events.from, s.lastEvent), append(s.events.to, last), append(s.events.at, t.now)
			s.lastEvent = last
		}
		return nil
	})
}

// backdate moves all of a run into its past and returns the first error.
func (t *runWriter) backdate() error {
	t.do(func() error {
		return pgx.BeginFunc(t.ctx, t.f.sql, func(tx pgx.Tx) error { return t.stamps.apply(t.ctx, tx, t.run.ID, t.now) })
	})
	if t.err != nil {
		return fmt.Errorf("write run %d (%.60s): %w", t.run.ID, t.run.GoalTitle, t.err)
	}
	return nil
}

func (s *stamps) apply(ctx context.Context, tx pgx.Tx, run int64, last time.Time) error {
	for _, one := range []struct {
		sql  string
		args []any
	}{
		{`UPDATE orchestrator_events e SET created_at = m.at
		  FROM (SELECT unnest($2::bigint[]) AS lo, unnest($3::bigint[]) AS hi, unnest($4::timestamptz[]) AS at) m
		  WHERE e.run_id = $1 AND e.seq > m.lo AND e.seq <= m.hi`, []any{run, s.events.from, s.events.to, s.events.at}},
		{`UPDATE orchestrator_model_calls c SET started_at = m.lo, finished_at = CASE WHEN m.open THEN NULL ELSE m.hi END,
		         latency_ms = CASE WHEN m.open THEN 0 ELSE extract(epoch FROM m.hi - m.lo) * 1000 END
		  FROM (SELECT unnest($2::bigint[]) AS execution, unnest($3::int[]) AS turn, unnest($4::timestamptz[]) AS lo, unnest($5::timestamptz[]) AS hi, unnest($6::bool[]) AS open) m
		  WHERE c.run_id = $1 AND c.execution_id = m.execution AND c.turn = m.turn`,
			[]any{run, s.calls.execution, s.calls.turn, s.calls.from, s.calls.to, s.calls.open}},
		{`UPDATE orchestrator_checks c SET started_at = m.lo, finished_at = m.hi
		  FROM (SELECT unnest($2::bigint[]) AS execution, unnest($3::text[]) AS check_id, unnest($4::timestamptz[]) AS lo, unnest($5::timestamptz[]) AS hi) m
		  WHERE c.execution_id = m.execution AND c.check_id = m.check_id AND $1::bigint > 0`,
			[]any{run, s.checks.execution, s.checks.check, s.checks.from, s.checks.to}},
		{`UPDATE orchestrator_findings f SET created_at = c.finished_at
		  FROM orchestrator_checks c WHERE f.run_id = $1 AND c.execution_id = f.execution_id AND c.check_id = f.check_id`, []any{run}},
		{`UPDATE orchestrator_findings f SET resolved_at = (
		      SELECT min(c.finished_at) FROM orchestrator_checks c JOIN orchestrator_executions e ON e.id = c.execution_id
		      WHERE e.run_id = f.run_id AND c.check_id = f.check_id AND c.execution_id > f.execution_id)
		  WHERE f.run_id = $1 AND f.resolved`, []any{run}},
		{`UPDATE orchestrator_artifacts a SET created_at = e.created_at
		  FROM orchestrator_events e WHERE a.run_id = $1 AND e.run_id = $1 AND e.event_type = 'artifact.added' AND (e.payload ->> 'id')::bigint = a.id`, []any{run}},
		{`UPDATE orchestrator_transcripts m SET created_at = coalesce(
		      (SELECT l.finished_at FROM orchestrator_tool_calls l WHERE l.execution_id = m.execution_id AND l.turn = m.turn AND l.call_index = m.position - 1000),
		      (SELECT c.finished_at FROM orchestrator_model_calls c WHERE c.execution_id = m.execution_id AND c.turn = m.turn), e.started_at)
		  FROM orchestrator_executions e WHERE e.run_id = $1 AND m.execution_id = e.id`, []any{run}},
		{`UPDATE orchestrator_plans p SET created_at = coalesce((SELECT max(c.finished_at) FROM orchestrator_model_calls c WHERE c.execution_id = p.execution_id), $2)
		  WHERE p.run_id = $1`, []any{run, s.created()}},
		{`UPDATE orchestrator_runs SET created_at = $2, updated_at = $3 WHERE id = $1`, []any{run, s.created(), last}},
	} {
		if _, err := tx.Exec(ctx, one.sql, one.args...); err != nil {
			return fmt.Errorf("move run %d into the past: %w", run, err)
		}
	}
	return nil
}

// created returns when the run was created, which is the time of its first event.
func (s *stamps) created() time.Time { return s.events.at[0] }
