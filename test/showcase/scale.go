package showcase

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/rocketgpt/orchestrator/contract"
)

// Sizes of the scale fill.
const (
	ScaleRuns   = 10_000
	ScaleEvents = 1_000_000

	scaleCalls = 12 // model calls of a run
)

// shape is the state of a run of the scale fill.
type shape struct {
	status  contract.Status
	phase   contract.Phase
	waiting string
	failure contract.Class
}

// shapeOf distributes the states of runs as in a year-old installation: most are done, a tenth have
// failed, and a few of the newest are in progress.
func shapeOf(i, runs int) shape {
	if left := runs - i; left <= 40 {
		return []shape{
			{status: contract.StatusPending}, {status: contract.PhasePlanner.Running(), phase: contract.PhasePlanner},
			{status: contract.PhaseBuilder.Running(), phase: contract.PhaseBuilder}, {status: contract.PhaseTester.Running(), phase: contract.PhaseTester},
			{status: contract.StatusSelfHeal, phase: contract.PhaseTester}, {status: contract.StatusWaitingForApproval, phase: contract.PhaseReleaser, waiting: "release"},
			{status: contract.StatusPaused, phase: contract.PhaseBuilder, waiting: "paused by cli"}, {status: contract.PhaseBuilder.Running(), phase: contract.PhaseBuilder},
		}[left%8]
	}
	switch {
	case i%10 == 3:
		classes := contract.Classes()
		return shape{status: contract.StatusFailed, phase: contract.Phases()[i%4], failure: classes[(i/10)%len(classes)]}
	case i%29 == 7:
		return shape{status: contract.StatusCancelled, phase: contract.PhaseBuilder, failure: contract.ClassHuman}
	default:
		return shape{status: contract.StatusDone, phase: contract.PhaseReleaser}
	}
}

// scale copies runs, their executions, phases, events, model calls, heals and
// findings into the database.
func (f *dataset) scale(ctx context.Context, o Options) error {
	runs, events := cmp.Or(o.Runs, ScaleRuns), cmp.Or(o.Events, ScaleEvents)
	s := scaling{dataset: f, runs: runs, each: events / runs, more: events % runs, settings: map[string]inputs{}}
	return pgx.BeginFunc(ctx, f.sql, func(tx pgx.Tx) error {
		for _, table := range []struct {
			name    string
			columns []string
			rows    int
			row     func(i int) ([]any, error)
		}{
			{"orchestrator_runs", []string{
				"id", "project", "goal_title", "repo", "base_branch", "base_commit", "phase", "status", "waiting_for", "error_class", "error_code", "error_message",
				"release_branch", "release_commit", "settings", "spec", "workflow_id", "workflow_run_id", "workflow_started_at", "event_seq", "retry_count",
				"created_at", "updated_at", "started_at", "finished_at", "quality_score",
			}, runs, s.run},
			{"orchestrator_executions", []string{
				"id", "run_id", "phase", "agent", "attempt", "status", "provider", "model", "prompt_tokens", "completion_tokens", "cost_micros", "turns", "started_at", "finished_at",
			}, 4 * runs, s.execution},
			{"orchestrator_phases", []string{"run_id", "phase", "attempt", "execution_id", "status", "started_at", "finished_at"}, 4 * runs, s.phase},
			{"orchestrator_model_calls", []string{
				"run_id", "execution_id", "turn", "phase", "agent", "provider", "model", "status", "settled", "prompt_tokens", "completion_tokens", "cost_micros", "latency_ms", "started_at", "finished_at",
			}, scaleCalls * runs, s.call},
			{"orchestrator_findings", []string{"run_id", "execution_id", "check_id", "severity", "category", "message", "location", "rule", "created_at"}, runs, s.finding},
			{"orchestrator_self_heal_events", []string{
				"run_id", "number", "execution_id", "phase", "error_type", "error_code", "heal_action", "root_cause", "status", "heal_output", "created_at", "finished_at",
			}, runs / 3, s.heal},
			{"orchestrator_events", []string{"run_id", "seq", "event_type", "payload", "created_at"}, events, s.event()},
		} {
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{table.name}, table.columns, pgx.CopyFromSlice(table.rows, table.row)); err != nil {
				return fmt.Errorf("copy %d rows into %s: %w", table.rows, table.name, err)
			}
		}
		// Sequences continue after the copied IDs.
		for _, table := range []string{"orchestrator_runs", "orchestrator_executions"} {
			if _, err := tx.Exec(ctx, fmt.Sprintf("SELECT setval(pg_get_serial_sequence('%s', 'id'), (SELECT max(id) FROM %s))", table, table)); err != nil {
				return fmt.Errorf("set the next id of %s: %w", table, err)
			}
		}
		return nil
	})
}

type scaling struct {
	*dataset
	runs, each, more int
	settings         map[string]inputs // by project
}

// inputs are the frozen inputs of a run, as stored in its row.
type inputs struct {
	repo           contract.Repo
	settings, spec string
}

// born returns when a run began: runs are distributed over a year, with more recent ones than old
// ones.
func (s scaling) born(i int) time.Time {
	left := float64(s.runs-i) / float64(s.runs)
	return s.now.Add(-time.Duration(left * left * float64(365*day))).Add(-time.Second).Truncate(time.Microsecond)
}

func (s scaling) events(i int) int {
	if i < s.more {
		return s.each + 1
	}
	return s.each
}

const scaleLife = 11 * time.Minute

func (s scaling) finished(i int) *time.Time {
	if !shapeOf(i, s.runs).status.Terminal() {
		return nil
	}
	at := s.born(i).Add(scaleLife)
	if at.After(s.now) {
		at = s.now
	}
	return &at
}

func (s scaling) run(i int) ([]any, error) {
	subject, id, born, is := subjects[i%len(subjects)], int64(i+1), s.born(i), shapeOf(i, s.runs)
	settings, ok := s.settings[subject.project]
	if !ok {
		frozen, spec, err := s.freeze(subject.project)
		if err != nil {
			return nil, err
		}
		settings = inputs{frozen.Repo, jsonOf(frozen), jsonOf(spec)}
		s.settings[subject.project] = settings
	}
	branch, commit, code, message := "", "", "", ""
	if is.status == contract.StatusDone {
		branch, commit = contract.Branch(id), objectID("commit", id)
	}
	if is.failure != "" {
		code, message = string(contract.CodeUnknown), "the run could not continue: "+string(is.failure)
	}
	started := &born
	updated := born.Add(scaleLife)
	if is.status == contract.StatusPending {
		started, updated = nil, born
	}
	if updated.After(s.now) {
		updated = s.now
	}
	return []any{
		id, subject.project, fmt.Sprintf("%s (%d)", subject.goal, id), settings.repo.URL, "main", settings.repo.Base, string(is.phase), string(is.status), is.waiting,
		string(is.failure), code, message, branch, commit, settings.settings, settings.spec, contract.RunWorkflowID(id), uuidOf("run", id), started,
		int64(s.events(i)), i % 4, born, updated, started, s.finished(i), float64(100-i%60) / 100,
	}, nil
}

// ended is the state of an execution of a run.
func (s scaling) ended(i, n int) (status contract.ExecutionStatus, from time.Time, to *time.Time) {
	from = s.born(i).Add(time.Duration(n) * scaleLife / 4)
	end := from.Add(scaleLife / 4)
	is := shapeOf(i, s.runs)
	if is.status.Terminal() || contract.Phases()[n] != is.phase {
		return contract.ExecutionCompleted, from, &end
	}
	return contract.ExecutionRunning, from, nil
}

func (s scaling) execution(row int) ([]any, error) {
	i, n := row/4, row%4
	phase := contract.Phases()[n]
	status, from, to := s.ended(i, n)
	return []any{
		int64(row + 1), int64(i + 1), string(phase), string(contract.AgentOf(phase)), 1, string(status), "anthropic", "claude-sonnet-4-5",
		int64(9000 + i%5000), int64(700 + i%900), int64(31_000 + i%20_000), 3, from, to,
	}, nil
}

func (s scaling) phase(row int) ([]any, error) {
	i, n := row/4, row%4
	status, from, to := s.ended(i, n)
	return []any{int64(i + 1), string(contract.Phases()[n]), 1, int64(row + 1), string(status), from, to}, nil
}

func (s scaling) call(row int) ([]any, error) {
	i, n := row/scaleCalls, row%scaleCalls
	p := n / 3 // three calls per phase
	phase := contract.Phases()[p]
	from := s.born(i).Add(time.Duration(n) * scaleLife / scaleCalls)
	return []any{
		int64(i + 1), int64(i*4 + p + 1), n%3 + 1, string(phase), string(contract.AgentOf(phase)), "anthropic", "claude-sonnet-4-5", "done", []int32{1},
		int64(3000 + i%1600), int64(230 + i%300), int64(10_000 + i%7000), int64(900 + i%5000), from, from.Add(3 * time.Second),
	}, nil
}

func (s scaling) finding(i int) ([]any, error) {
	severity := []contract.Severity{contract.SeverityMinor, contract.SeverityMinor, contract.SeverityMedium, contract.SeverityMajor}[i%4]
	return []any{
		int64(i + 1), int64(i*4 + 3), "lint-go", string(severity), string(contract.CategoryLint), "exported function should have comment or be unexported",
		fmt.Sprintf("internal/auth/login.go:%d", i%400+1), "revive", s.born(i).Add(8 * time.Minute),
	}, nil
}

func (s scaling) heal(row int) ([]any, error) {
	i := row * 3
	classes, actions := contract.Classes(), contract.HealActions()
	at := s.born(i).Add(6 * time.Minute)
	end := at.Add(time.Minute)
	return []any{
		int64(i + 1), 1, int64(i*4 + 3), string(contract.PhaseTester), string(classes[row%len(classes)]), "unknown", string(actions[row%len(actions)]), "the test fails", "success",
		`{"message":"fixed","result":"the tester succeeded"}`, at, end,
	}, nil
}

// event returns a function that generates the events in order.
func (s scaling) event() func(int) ([]any, error) {
	i, seq := 0, 0
	types := []contract.EventType{
		contract.EventStepStarted, contract.EventStepCompleted, contract.EventArtifactAdded, contract.EventFindingAdded, contract.EventRunUpdated,
		contract.PhaseBuilder.Started(), contract.PhaseBuilder.CompletedEvent(), contract.EventHealStarted, contract.EventHealSuccess, contract.PhaseTester.Started(),
	}
	return func(int) ([]any, error) {
		if seq == s.events(i) {
			i, seq = i+1, 0
		}
		seq++
		kind := types[seq%len(types)]
		if seq == 1 {
			kind = contract.EventRunCreated
		}
		return []any{
			int64(i + 1), int64(seq), string(kind), fmt.Sprintf(`{"step":"step-%03d","attempt":1,"turns":%d}`, seq%12+1, seq%9),
			s.born(i).Add(time.Duration(seq) * scaleLife / time.Duration(s.events(i)+1)),
		}, nil
	}
}
