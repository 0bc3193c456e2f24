package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestSameIdempotencyKeyMakesOneRunUnderRaces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ids := make([]int64, 30)
	var made atomic.Int32
	var g errgroup.Group
	for i := range ids {
		g.Go(func() error {
			run, created, err := b.CreateRun(t.Context(), storetest.Filled(store.NewRun{IdempotencyKey: "k", RequestDigest: "d"}))
			ids[i] = run.ID
			if created {
				made.Add(1)
			}
			return err
		})
	}
	require.NoError(t, g.Wait())
	require.EqualValues(t, 1, made.Load())
	for _, id := range ids {
		require.Equal(t, ids[0], id)
	}
	events, err := b.Events(t.Context(), ids[0], 0, 0)
	require.NoError(t, err)
	require.Len(t, events, 1)
	require.Equal(t, contract.EventRunCreated, events[0].Type)

	_, _, err = b.CreateRun(t.Context(), storetest.Filled(store.NewRun{IdempotencyKey: "k", RequestDigest: "another"}))
	require.True(t, fault.Is(err, store.CodeConflict))
	require.Equal(t, contract.ClassHuman, fault.Of(err).Class)
	require.ErrorContains(t, err, fmt.Sprintf("run %d", ids[0]))
	other := b.Create(t, store.NewRun{Tenant: "acme", IdempotencyKey: "k", RequestDigest: "another"})
	require.NotEqual(t, ids[0], other.ID, "tenants do not share keys")
	first, second := b.Create(t, store.NewRun{}), b.Create(t, store.NewRun{})
	require.NotEqual(t, first.ID, second.ID, "without a key every request is a new run")
}

func TestCreatedRunHoldsItsFrozenInputs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	warm := 0.5
	n := storetest.Filled(store.NewRun{
		GoalDescription: "Division by zero is an error.", Spec: map[string]any{"prompts": map[string]string{"builder": "v1"}},
		GivenPlan: &contract.Plan{Summary: "given", Steps: []contract.Step{{ID: "step-001", Name: "divide"}}},
	})
	n.Settings.Models = map[contract.Agent]contract.ModelChoice{contract.AgentBuilder: {Provider: "scripted", Model: "m", Temperature: &warm}}
	n.Settings.ApprovalWait = time.Hour
	run := b.Create(t, n)
	n.Settings.Repo = storetest.Filled(n).Settings.Repo
	require.Equal(t, n.Settings, run.Settings)
	require.JSONEq(t, `{"prompts": {"builder": "v1"}}`, string(run.Spec))
	require.Equal(t, contract.StatusPending, run.Status)
	require.Equal(t, []string{"local", "/repos/calculator", "c0ffee", "main"}, []string{run.Tenant, run.Repo, run.BaseCommit, run.BaseBranch})
	require.Equal(t, 3, run.MaxRetries)
	require.Equal(t, time.UTC, run.CreatedAt.Location())
	plan, err := b.Plan(t.Context(), run.ID)
	require.NoError(t, err)
	require.Equal(t, "given", plan.Summary)
}

func TestAPlanCountsOnceARecordSaysSoAndIsNeverOverwritten(t *testing.T) {
	t.Parallel()
	b := setup(t)
	execution := b.begin(t, contract.PhasePlanner, "")
	save := func(executionID int64, summary string) int64 {
		id, err := b.SavePlan(t.Context(), b.First.ID, executionID, "planner", contract.Plan{Summary: summary})
		require.NoError(t, err)
		return id
	}
	counts := func(id int64) {
		b.Apply(t, contract.Record{Run: &contract.RunChange{Status: contract.PhasePlanner.Completed(), PlanID: id}})
	}
	plan := func() string {
		plan, err := b.Plan(t.Context(), b.First.ID)
		require.NoError(t, err)
		return plan.Summary
	}
	made := save(execution.ID, "made")
	_, err := b.Plan(t.Context(), b.First.ID)
	require.ErrorIs(t, err, store.ErrNotFound, "a plan that nobody accepted is none")
	counts(made)
	require.Equal(t, made, save(execution.ID, "made differently"))
	require.Equal(t, "made", plan(), "a repeat finds what is there")
	edited := save(0, "edited")
	require.NotEqual(t, edited, save(0, "edited by another"))
	require.Equal(t, "made", plan(), "what was not accepted changes nothing")
	counts(edited)
	counts(0)
	require.Equal(t, "edited", plan())
	old, err := b.PlanByID(t.Context(), b.First.ID, made)
	require.NoError(t, err)
	require.Equal(t, "made", old.Summary)
	_, err = b.PlanByID(t.Context(), b.Create(t, store.NewRun{}).ID, made)
	require.ErrorIs(t, err, store.ErrNotFound, "plans belong to their run")
	run, err := b.Run(t.Context(), b.First.ID)
	require.NoError(t, err)
	require.Equal(t, edited, run.PlanID)
}

func TestReconcilerFindsOnlyRunsThatNobodyStarted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	started := b.Create(t, store.NewRun{})
	require.NoError(t, b.MarkStarted(t.Context(), started.ID, contract.RunWorkflowID(started.ID), "x"))
	require.NoError(t, b.MarkStarted(t.Context(), started.ID, contract.RunWorkflowID(started.ID), "x"))
	runs, err := b.PendingUnstarted(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, runs, 1)
	require.Equal(t, b.First.ID, runs[0].ID)
	require.Equal(t, b.First.Settings, runs[0].Settings, "with all that starting it takes")
	runs, err = b.PendingUnstarted(t.Context(), time.Hour, 10)
	require.NoError(t, err)
	require.Empty(t, runs, "whoever created it may be about to start it")
}

func TestListPagesThroughAllRunsOnceWhileOthersAreCreated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 24 {
		b.Create(t, store.NewRun{})
	}
	var seen []int64
	filter := store.Filter{Limit: 10}
	for {
		page, err := b.ListRuns(t.Context(), filter)
		require.NoError(t, err)
		if len(page) == 0 {
			break
		}
		for _, run := range page {
			seen = append(seen, run.ID)
		}
		filter.Before = page[len(page)-1].Cursor()
		b.Create(t, store.NewRun{})
	}
	require.Len(t, seen, 25)
	for i := range seen {
		require.EqualValues(t, 25-i, seen[i])
	}
}

func TestListFilters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Create(t, store.NewRun{Project: "parser", GoalTitle: "100% faster_parser", Tenant: "acme"})
	b.Apply(t, contract.Record{Run: &contract.RunChange{
		Phase: contract.PhaseTester, Status: contract.StatusFailed, Failure: &contract.Failure{Class: contract.ClassAssertion, Message: "red"},
	}})
	for name, filter := range map[string]store.Filter{
		"project": {Project: "parser"}, "text": {Text: "0% FASTER_"}, "tenant": {Tenant: "acme"}, "status": {Status: []contract.Status{contract.StatusPending, contract.StatusDone}},
	} {
		runs, err := b.ListRuns(t.Context(), filter)
		require.NoError(t, err, name)
		require.Len(t, runs, 1, name)
		require.Equal(t, "parser", runs[0].Project, name)
	}
	for name, filter := range map[string]store.Filter{
		"phase": {Phase: contract.PhaseTester}, "class": {ErrorClass: contract.ClassAssertion}, "several": {Status: []contract.Status{contract.StatusFailed}, Project: "calculator"},
	} {
		runs, err := b.ListRuns(t.Context(), filter)
		require.NoError(t, err, name)
		require.Len(t, runs, 1, name)
		require.Equal(t, b.First.ID, runs[0].ID, name)
	}
	runs, err := b.ListRuns(t.Context(), store.Filter{Text: "no%such"})
	require.NoError(t, err)
	require.Empty(t, runs, "what is searched for is text, not a pattern")
}

// many fills a database like a year of use.
func many(ctx context.Context, tb testing.TB, conn *pgx.Conn) {
	tb.Helper()
	for _, sql := range []string{
		`INSERT INTO orchestrator_runs (project, goal_title, repo, settings, created_at, status, error_class)
			SELECT 'project-' || n % 100, 'goal ' || n, '/r', '{}', now() - n * interval '1 minute',
			       CASE WHEN n % 50 = 0 THEN 'failed' ELSE 'done' END, CASE WHEN n % 50 = 0 THEN 'LLM_ERROR' ELSE '' END
			FROM generate_series(1, 10000) n`,
		"INSERT INTO orchestrator_events (run_id, seq, event_type) SELECT id, 1 + n, 'run.updated' FROM orchestrator_runs, generate_series(1, 5) n",
		"INSERT INTO orchestrator_budgets (scope_kind, scope_key) SELECT 'run', id::text FROM orchestrator_runs",
		`INSERT INTO orchestrator_executions (run_id, phase, step, agent, attempt, started_at)
			SELECT id, 'builder', 'step-' || n, 'builder', 1, now() FROM orchestrator_runs, generate_series(1, 2) n`,
		`INSERT INTO orchestrator_model_calls (run_id, execution_id, turn, phase, agent, provider, model, status)
			SELECT run_id, id, 1, 'builder', 'builder', 'p', 'm', 'done' FROM orchestrator_executions`,
		`INSERT INTO orchestrator_checks (execution_id, check_id, category, ok, result, summary, started_at, finished_at)
			SELECT id, 'test', 'test', true, '{}', '{}', now(), now() FROM orchestrator_executions`,
		`INSERT INTO orchestrator_tool_calls (execution_id, turn, call_index, tool, ok, outcome, started_at, finished_at)
			SELECT id, 1, 0, 'read_file', true, '{}', now(), now() FROM orchestrator_executions`,
		`INSERT INTO orchestrator_findings (run_id, execution_id, check_id, severity, category, message)
			SELECT run_id, id, 'test', 'minor', 'test', 'm' FROM orchestrator_executions`,
		"INSERT INTO orchestrator_transcripts (execution_id, turn, position, role, content) SELECT id, 0, 0, 'user', '{}' FROM orchestrator_executions",
		"INSERT INTO orchestrator_artifacts (run_id, name, path, type, size, hash) SELECT run_id, step, step, 'log', 1, 'h' FROM orchestrator_executions",
		"INSERT INTO orchestrator_webhooks (url, secret) SELECT 'https://example.com/' || n, 's' FROM generate_series(1, 20) n",
		`INSERT INTO orchestrator_webhook_deliveries (webhook_id, event_id, event_type, status, created_at)
			SELECT 1 + n % 20, n, 'run.updated', 'delivered', now() - n * interval '1 minute' FROM generate_series(1, 10000) n`,
		"INSERT INTO orchestrator_webhook_attempts (delivery_id, attempt) SELECT id, 1 FROM orchestrator_webhook_deliveries",
		`INSERT INTO orchestrator_environments (digest, repo, source, recipe, archive, archive_size, bytes, files, duration_ms, used_at)
			SELECT lpad(to_hex(n), 64, '0'), '/r', 'detected', '{}', 'a', 1, 1, 1, 1, now() - n * interval '1 minute' FROM generate_series(1, 10000) n`,
		`INSERT INTO orchestrator_requests (route, key, digest, created_at)
			SELECT '/api/runs', n::text, 'd', now() - n * interval '1 minute' FROM generate_series(1, 10000) n`,
		`INSERT INTO orchestrator_pipelines (run_id, objective, task, settings, mode, status, created_at)
			SELECT id, 'objective', '{}', '{}', 'local', CASE WHEN id % 50 = 0 THEN 'FAILED' ELSE 'COMPLETED' END, created_at FROM orchestrator_runs`,
		`INSERT INTO orchestrator_pipeline_entries (pipeline_id, section, key, version, author, entry, record_seq, written_at)
			SELECT id, 'solutions', 'p1', n, 'ALPHA', '{}', 1, now() FROM orchestrator_pipelines, generate_series(1, 2) n`,
		`INSERT INTO orchestrator_pipeline_messages (pipeline_id, seq, message_id, sender, message, sent_at)
			SELECT id, n, n::text, 'ALPHA', '{}', now() FROM orchestrator_pipelines, generate_series(1, 2) n`,
		"INSERT INTO orchestrator_pipeline_votes (pipeline_id, key, version, voter, accept, vote, voted_at) SELECT id, 's1', 1, 'BETA', true, '{}', now() FROM orchestrator_pipelines",
		"INSERT INTO orchestrator_pipeline_errors (pipeline_id, error_class, message, error, created_at) SELECT id, 'LLM_ERROR', 'm', '{}', now() FROM orchestrator_pipelines",
		"INSERT INTO orchestrator_pipeline_reports (pipeline_id, kind, report, written_at) SELECT id, 'final', '{}', now() FROM orchestrator_pipelines",
		"INSERT INTO orchestrator_pipeline_texts (pipeline_id, ref, text) SELECT id, 'r', 't' FROM orchestrator_pipelines",
		"INSERT INTO orchestrator_pipeline_records (workflow_id, workflow_run_id, seq, pipeline_id) SELECT 'pipeline-' || id, 'r', 1, id FROM orchestrator_pipelines",
		"ANALYZE orchestrator_pipelines, orchestrator_pipeline_entries, orchestrator_pipeline_messages, orchestrator_pipeline_votes, orchestrator_pipeline_errors, " +
			"orchestrator_pipeline_reports, orchestrator_pipeline_texts, orchestrator_pipeline_records",
		`INSERT INTO orchestrator_pull_requests (run_id, forge, repo, number, url, title, head, base, commit_id, state, draft, notes)
			SELECT id, 'work', 'o/r' || id % 1000, id, 'u', 't', 'h', 'main', 'c', 'open', false, '[]' FROM orchestrator_runs`,
		`INSERT INTO orchestrator_forge_events (forge, repo, number, event_id, kind, name, result, payload, state, ended_at)
			SELECT 'work', 'o/r' || id % 1000, id, 'check:' || id, 'check', 'lint', 'failure', '{}', 'sent', now() - id * interval '1 minute' FROM orchestrator_runs`,
		`INSERT INTO orchestrator_forge_watches (forge, repo, number, commit_id, since, looked_at, next_at, failures, reason)
			SELECT 'work', 'o/r' || id % 1000, id, 'c', now(), now(), now() + id * interval '1 minute', 0, '' FROM orchestrator_runs`,
		`INSERT INTO orchestrator_forge_deliveries (forge, delivery, repo, event_id, received_at)
			SELECT 'work', id::text, 'o/r' || id % 1000, id::text, now() - id * interval '1 minute' FROM orchestrator_runs`,
		`INSERT INTO orchestrator_triggers (name) SELECT 't' || n FROM generate_series(1, 10000) n`,
		`INSERT INTO orchestrator_trigger_firings (trigger, delivery, payload, occurred_at, state, run_id, ended_at)
			SELECT 't' || id % 100, 'issue:' || id, '{}', now(), CASE WHEN id % 1000 = 0 THEN 'waiting' ELSE 'fired' END, id,
			       CASE WHEN id % 1000 = 0 THEN NULL ELSE now() - id * interval '1 minute' END FROM orchestrator_runs`,
		"ANALYZE orchestrator_triggers, orchestrator_trigger_firings",
		`INSERT INTO orchestrator_notification_channels (channel) SELECT 'channel-' || n FROM generate_series(1, 20) n`,
		`INSERT INTO orchestrator_browsers (name, channel, endpoint, p256dh, auth, server_key) SELECT 'browsers.' || n, 'browsers', 'https://example.com/' || n, '', '', '' FROM generate_series(1, 200) n`,
		`INSERT INTO orchestrator_notifications (channel, event_id, run_id, seq, event_type, kind, state, message_id, composed_at, created_at, sent_at)
			SELECT 'channel-' || id % 20, id, id, 1, 'run.failed', 'failed', CASE WHEN id % 500 = 0 THEN 'pending' ELSE 'sent' END, id, now(),
			now() - id * interval '1 minute', CASE WHEN id % 500 <> 0 THEN now() - id * interval '1 minute' END FROM orchestrator_runs`,
		"ANALYZE orchestrator_notification_channels, orchestrator_browsers, orchestrator_notifications",
		"INSERT INTO orchestrator_merge_queues (forge, repo, base, version) SELECT 'work', 'o/r' || id, 'main', 1 FROM orchestrator_runs",
		`INSERT INTO orchestrator_merge_queue_entries (forge, repo, base, key, number, run_id, added_at, place, state, version, ended_at)
			SELECT 'work', 'o/r' || id, 'main', 'k' || n, n, id, now(), n, CASE WHEN n = 1 THEN 'waiting' ELSE 'merged' END, 1, CASE WHEN n > 1 THEN now() END
			FROM orchestrator_runs, generate_series(1, 3) n`,
		`INSERT INTO orchestrator_merge_queue_commands (forge, repo, base, key, action, number, by_whom, reason)
			SELECT 'work', 'o/r' || id, 'main', 'k', 'add', 1, 'the system', '' FROM orchestrator_runs`,
		"INSERT INTO orchestrator_change_sets (goal_title, settings) SELECT 'goal', '{}' FROM orchestrator_runs",
		"INSERT INTO orchestrator_change_set_runs (set_id, number, run_id) SELECT (row_number() OVER (ORDER BY id) - 1) / 3 + 1, (row_number() OVER (ORDER BY id) - 1) % 3 + 1, id FROM orchestrator_runs",
		"INSERT INTO orchestrator_replays (run_id, phase, execution_id) SELECT run_id, phase, id FROM orchestrator_executions",
		"ANALYZE orchestrator_change_sets, orchestrator_change_set_runs, orchestrator_replays",
		"ANALYZE orchestrator_merge_queues, orchestrator_merge_queue_entries, orchestrator_merge_queue_commands",
		"ANALYZE orchestrator_pull_requests, orchestrator_forge_events, orchestrator_forge_watches, orchestrator_forge_deliveries",
		"ANALYZE orchestrator_webhooks, orchestrator_webhook_deliveries, orchestrator_webhook_attempts, orchestrator_requests, orchestrator_environments",
		"ANALYZE orchestrator_runs, orchestrator_events, orchestrator_budgets, orchestrator_executions, orchestrator_model_calls, " +
			"orchestrator_checks, orchestrator_tool_calls, orchestrator_findings, orchestrator_transcripts, orchestrator_artifacts",
	} {
		_, err := conn.Exec(ctx, sql)
		require.NoError(tb, err)
	}
}

func TestListsUseIndexesWithManyRuns(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills tables")
	}
	b := setup(t)
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		many(ctx, t, conn)
		text, err := os.ReadFile("queries/runs.sql")
		require.NoError(t, err)
		list := parameters.ReplaceAllString(statement(string(text), "ListRuns"), "<$1$2>")
		values := map[string]string{"statuses": "'{failed,cancelled}'", "since": "'2000-01-01'", "phase": "'tester'", "project": "'project-7'", "error_class": "'LLM_ERROR'"}
		for filter, index := range map[string]string{
			"statuses": "orchestrator_runs_status", "phase": "orchestrator_runs_phase", "since": "orchestrator_runs_newest", "project": "orchestrator_runs_project",
			"error_class": "orchestrator_runs_error_class", "": "orchestrator_runs_newest",
		} {
			sql := strings.NewReplacer("<"+filter+">", values[filter], "<before_at>", "(now() - interval '1 day')", "<before_id>", "5000", "<most>", "50").Replace(list)
			plan := explain(ctx, t, conn, regexp.MustCompile("<[a-z_]+>").ReplaceAllString(sql, "NULL"))
			require.Regexp(t, "Index Scan (using|on) "+index, plan, filter)
			require.NotContains(t, plan, "Seq Scan", filter)
		}
	})
}

func TestAllOtherQueriesUseIndexesWithOnePlanForAllParameters(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("fills tables")
	}
	b := setup(t)
	storetest.Query(t, b.URL, func(ctx context.Context, conn *pgx.Conn) {
		many(ctx, t, conn)
		_, err := conn.Exec(ctx, "SET plan_cache_mode = force_generic_plan")
		require.NoError(t, err)
		files, err := filepath.Glob("db/*.sql.go")
		require.NoError(t, err)
		checked := 0
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, m := range regexp.MustCompile("(?s)`-- name: (\\w+) :\\w+\n(.*?)`").FindAllStringSubmatch(string(text), -1) {
				name, sql := m[1], m[2]
				if slices.Contains([]string{"ListRuns", "ListPipelines", "ListEnvironments", "ListSetups", "ListQuarantine", "Questions", "Agents", "ForgetAgents", "SchemaVersion", "Deliveries", "Notifications", "ForgetModels", "ModelChoices", "ForgetAllCalls", "ForgetBreakers", "Checkpoints", "LedgerHead", "LastLedgerEntries", "Firings", "MergeQueues"}, name) {
					continue // planned for its parameters; reads all of a small table
				}
				if slices.Contains([]string{"ExpiredRuns", "KeptRuns", "SizeCutoff", "LiveSince", "Windows", "UnusedEnvironments", "Cleanups", "ScheduledSince", "Referenced", "DeletedFiles", "ContinuedRuns", "ReferencedAfter", "ExpiredResponses", "DropExpiredResponses", "UnusedBrainBlobs", "DropUnusedBrainBlobs", "SweepForgeDeliveries", "SweepForgeEvents", "SweepForgeWatches", "SweepFirings", "OldMergeQueueEntries", "OldMergeQueueCommands", "SweepMergeQueueEntries", "SweepMergeQueueCommands"}, name) {
					continue // of a clean-up: planned for its parameters; once a day, it looks at all runs
				}
				if slices.Contains([]string{"RecordTests", "RepositoriesWithTests"}, name) {
					continue // joins all tests of a report with the known ones; once an hour, counts them
				}
				described, err := conn.Prepare(ctx, name, sql)
				require.NoError(t, err, name)
				call := "EXECUTE \"" + name + "\""
				if n := len(described.ParamOIDs); n > 0 {
					call += "(" + strings.TrimSuffix(strings.Repeat("NULL,", n), ",") + ")"
				}
				plan := regexp.MustCompile(`Seq Scan on orchestrator_(webhooks|webhook_feed|notification_channels|browsers)\b`).ReplaceAllString(explain(ctx, t, conn, call), "all of a small table")
				require.NotContains(t, plan, "Seq Scan", name)
				checked++
			}
		}
		require.Greater(t, checked, 40)
	})
}

// statement returns the text of a named query.
func statement(file, name string) string {
	_, rest, _ := strings.Cut(file, "-- name: "+name+" ")
	_, rest, _ = strings.Cut(rest, "\n")
	body, _, _ := strings.Cut(rest, ";\n")
	return body
}

var parameters = regexp.MustCompile(`sqlc\.narg\((\w+)\)|@(\w+)`)

// explain returns the plan of a statement.
func explain(ctx context.Context, tb testing.TB, conn *pgx.Conn, sql string) string {
	tb.Helper()
	rows, err := conn.Query(ctx, "EXPLAIN "+sql, pgx.QueryExecModeSimpleProtocol)
	require.NoError(tb, err, sql)
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(tb, err, sql)
	return strings.Join(lines, "\n")
}

func TestRunMarshalsWithItsSpecification(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(store.Run{ID: 42, Spec: raw(`{"a":1}`)})
	require.NoError(t, err)
	require.Contains(t, string(text), `"runId":42`)
	require.Contains(t, string(text), `"quality_score":null`)
}

func TestRunsBeyondTheLimitWaitInOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const most = 2
	made := func() store.Run { return b.Create(t, store.NewRun{}) }
	runs := []store.Run{b.First}
	for i := range 5 {
		if i > 0 {
			runs = append(runs, made())
		}
		queued, err := b.Enqueue(t.Context(), runs[i].ID, most)
		require.NoError(t, err)
		require.Equal(t, i >= most, queued, "run %d", i)
	}
	unstarted, err := b.PendingUnstarted(t.Context(), 0, 10)
	require.NoError(t, err)
	require.Len(t, unstarted, most, "what waits for its turn is not started")
	waiting, err := b.Run(t.Context(), runs[2].ID)
	require.NoError(t, err)
	require.Equal(t, "turn", waiting.WaitingFor)

	next, err := b.Dequeue(t.Context(), most)
	require.NoError(t, err)
	require.Empty(t, next)
	again, err := b.Enqueue(t.Context(), runs[2].ID, most)
	require.NoError(t, err)
	require.True(t, again, "asked for twice it keeps its place")
	// A run that waits for a person does not count as running.
	b.Apply(t, contract.Record{Run: &contract.RunChange{Phase: contract.PhasePlanner, Status: contract.StatusWaitingForApproval}})
	next, err = b.Dequeue(t.Context(), most)
	require.NoError(t, err)
	require.Equal(t, []int64{runs[2].ID}, next)
	late := made()
	queued, err := b.Enqueue(t.Context(), late.ID, most+5)
	require.NoError(t, err)
	require.True(t, queued, "nobody overtakes")
	// A stop, or a person who starts it, takes one out of the queue.
	require.NoError(t, b.MarkStarted(t.Context(), runs[3].ID, "w", "r"))
	next, err = b.Dequeue(t.Context(), 0)
	require.NoError(t, err)
	require.ElementsMatch(t, []int64{runs[4].ID, late.ID}, next, "0 is no limit")
	started, err := b.Run(t.Context(), runs[4].ID)
	require.NoError(t, err)
	require.Empty(t, started.WaitingFor)
}
