package showcase

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/changesets"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(storetest.Main(m)) }

// filledDatabase is a filled database with its artifacts.
type filledDatabase struct {
	db    *store.Store
	blobs *artifact.Store
	sql   *pgxpool.Pool
	url   string
	now   time.Time
}

func fill(t *testing.T, o Options) filledDatabase {
	t.Helper()
	w := filledDatabase{url: storetest.URL(t), now: time.Now()}
	var err error
	w.blobs, err = artifact.Open(t.Context(), "", t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.blobs.Close()) })
	o.Database, o.Artifacts, o.Now = w.url, w.blobs, w.now
	began := time.Now()
	require.NoError(t, Fill(t.Context(), o))
	t.Logf("filled in %s", time.Since(began).Round(time.Millisecond))
	w.db, err = store.Open(t.Context(), w.url, store.Options{MaxConns: 4})
	require.NoError(t, err)
	t.Cleanup(w.db.Close)
	w.sql, err = pgxpool.New(t.Context(), w.url)
	require.NoError(t, err)
	t.Cleanup(w.sql.Close)
	return w
}

func (w filledDatabase) count(t *testing.T, sql string, args ...any) (n int) {
	t.Helper()
	require.NoError(t, w.sql.QueryRow(t.Context(), "SELECT count(*) "+sql, args...).Scan(&n), sql)
	return n
}

func (w filledDatabase) runs(t *testing.T) map[int64]views.RunDetails {
	t.Helper()
	list, err := w.db.ListRuns(t.Context(), store.Filter{Limit: 1000})
	require.NoError(t, err)
	out := map[int64]views.RunDetails{}
	for _, r := range list {
		out[r.ID], err = views.New(w.db).RunDetails(t.Context(), r.ID)
		require.NoError(t, err)
	}
	return out
}

func TestTheShowcaseHasRunsInEveryStateThatTheDashboardShows(t *testing.T) {
	t.Parallel()
	w := fill(t, Options{Kind: Showcase})
	runs := w.runs(t)
	require.GreaterOrEqual(t, len(runs), 40)
	statuses, waiting, classes, actions, artifacts := map[contract.Status]int{}, map[string]int{}, map[contract.Class]int{}, map[contract.HealAction]int{}, map[contract.ArtifactType]int{}
	healed, results, projects := map[contract.Class]int{}, map[contract.HealStatus]int{}, map[string]int{}
	for _, d := range runs {
		statuses[d.Status]++
		projects[d.Project]++
		if !d.Status.Terminal() {
			waiting[d.WaitingFor]++
		}
		if d.Status == contract.StatusFailed {
			classes[d.Failure.Class]++
		}
		for _, h := range d.SelfHealEvents {
			actions[h.HealAction]++
			results[h.Status]++
			if h.Status == contract.HealSuccess {
				healed[h.ErrorType]++
			}
		}
		for _, a := range d.Artifacts {
			artifacts[a.Type]++
		}
	}
	for _, s := range []contract.Status{
		contract.StatusPending, contract.PhasePlanner.Running(), contract.PhaseBuilder.Running(), contract.PhaseTester.Running(), contract.StatusSelfHeal,
		contract.StatusPaused, contract.StatusWaitingForApproval, contract.StatusDone, contract.StatusFailed, contract.StatusCancelled,
	} {
		require.Positive(t, statuses[s], s)
	}
	for _, what := range []string{"plan", "release", contract.InterventionHelp, contract.InterventionQuota} {
		require.Positive(t, waiting[what], what)
	}
	for _, c := range contract.Classes() {
		require.Positive(t, classes[c], "a run that failed with %s", c)
		if c != contract.ClassHuman { // a person decides there, not a heal
			require.Positive(t, healed[c], "a heal of %s that helped: %v", c, healed)
		}
	}
	for _, s := range []contract.HealStatus{contract.HealStarted, contract.HealApplied, contract.HealSuccess, contract.HealFailed} {
		if s != contract.HealApplied { // passes at once, unless a phase is under way
			require.Positive(t, results[s], s)
		}
	}
	for _, kind := range []contract.ArtifactType{
		contract.ArtifactZip, contract.ArtifactScreenshot, contract.ArtifactVideo, contract.ArtifactTrace, contract.ArtifactJSON, contract.ArtifactLog,
		contract.ArtifactPatch, contract.ArtifactReport, contract.ArtifactFile,
	} {
		require.Positive(t, artifacts[kind], kind)
	}
	require.GreaterOrEqual(t, len(projects), 8)
	w.tellsOneTime(t, runs)
	w.extremes(t, runs)
	w.regression(t, runs)
	w.deliberations(t, runs)
}

// deliberations requires that there are pipelines in every status, as real ones
// leave them.
func (w filledDatabase) deliberations(t *testing.T, runs map[int64]views.RunDetails) {
	t.Helper()
	all, err := w.db.ListPipelines(t.Context(), store.PipelineFilter{Limit: 1000})
	require.NoError(t, err)
	statuses, aborts, gammas := map[contract.PipelineStatus]int{}, map[contract.AbortReason]int{}, map[contract.GammaReason]int{}
	reports, waiting, planning, refused, long := 0, 0, 0, 0, 0
	for i, p := range all {
		statuses[p.Status]++
		aborts[p.AbortReason]++
		gammas[p.Metrics.GammaReason]++
		require.False(t, p.CreatedAt.After(w.now) || p.UpdatedAt.After(w.now), "pipeline %d is of the future", p.ID)
		if i > 0 {
			require.Greater(t, all[i-1].ID, p.ID, "the newer one has the higher number")
		}
		require.Equal(t, p.Status.Terminal(), p.FinishedAt != nil, "pipeline %d", p.ID)
		if p.Status != contract.PipelineSpawned {
			require.InDelta(t, p.Metrics.Score(p.Settings.Iterations), p.Metrics.PerformanceScore, 0.001, "pipeline %d", p.ID)
		}
		if p.WaitingFor != "" {
			waiting++
		}
		if p.ForRun {
			planning++
			require.Equal(t, runs[p.RunID].GoalTitle, strings.SplitN(p.Objective, "\n", 2)[0])
		} else {
			require.NotContains(t, runs, p.RunID, "what carries a pipeline is no run")
		}
		if p.RecoveredBy != 0 {
			next, err := w.db.Pipeline(t.Context(), p.RecoveredBy)
			require.NoError(t, err)
			require.Equal(t, []any{p.ID, p.Attempt + 1, p.RunID}, []any{next.PriorID, next.Attempt, next.RunID})
			files, err := w.db.Artifacts(t.Context(), p.RunID)
			require.NoError(t, err)
			require.Equal(t, p.HandoffRef, files[0].Name)
		}
		for _, kind := range []string{"checkpoint", "partial", "final"} {
			if _, err := w.db.PipelineReport(t.Context(), p.ID, kind, false); err == nil {
				reports++
			}
		}
		errs, err := w.db.PipelineErrors(t.Context(), p.ID)
		require.NoError(t, err)
		refused += len(errs)
		entries, err := w.db.PipelineEntries(t.Context(), p.ID, true, true)
		require.NoError(t, err)
		for _, e := range entries {
			if e.Value.Ref != "" {
				long++
				require.Len(t, e.Value.Head, e.Value.Size, "the whole text is kept")
			}
		}
	}
	for _, s := range contract.PipelineStatuses() {
		require.Positive(t, statuses[s], s)
	}
	for _, a := range []contract.AbortReason{contract.AbortStuck, contract.AbortIterationLimit, contract.AbortTimeout} {
		require.Positive(t, aborts[a], a)
	}
	for _, g := range []contract.GammaReason{contract.GammaStuck, contract.GammaConflict, contract.GammaComplexity, contract.GammaRecovery} {
		require.Positive(t, gammas[g], g)
	}
	for name, n := range map[string]int{"reports": reports, "waiting": waiting, "refused": refused, "long texts": long} {
		require.Positive(t, n, name)
	}
	require.Equal(t, 2, planning)
}

// tellsOneTime requires that times agree with each other and lie in the past.
func (w filledDatabase) tellsOneTime(t *testing.T, runs map[int64]views.RunDetails) {
	t.Helper()
	for id, d := range runs {
		require.False(t, d.UpdatedAt.After(w.now), "run %d was updated at %s", id, d.UpdatedAt)
		last := d.CreatedAt
		for i, e := range d.Events {
			require.EqualValues(t, i+1, e.Seq, "run %d", id)
			require.False(t, e.CreatedAt.Before(last), "run %d: event %d (%s) is older than the one before", id, e.Seq, e.Type)
			last = e.CreatedAt
		}
		for _, e := range d.Executions {
			require.False(t, e.StartedAt.Before(d.CreatedAt), "run %d, execution %d", id, e.ID)
			if d.Status.Terminal() && d.StayingUntil == nil {
				require.NotNil(t, e.FinishedAt, "run %d is over, and its execution %d (%s %s) is not", id, e.ID, e.Phase, e.Step)
			}
		}
		if previous, ok := runs[id-1]; ok {
			require.True(t, d.CreatedAt.After(previous.CreatedAt), "run %d is not newer than the one before", id)
		}
		for _, a := range d.Artifacts {
			there, err := w.blobs.Exists(t.Context(), a.Digest)
			require.NoError(t, err)
			require.True(t, there, "%s of run %d", a.Name, id)
			require.False(t, a.CreatedAt.Before(d.CreatedAt) || a.CreatedAt.After(w.now), "%s of run %d", a.Name, id)
		}
	}
	for _, sql := range []string{
		"FROM orchestrator_model_calls WHERE started_at > $1 OR finished_at > $1", "FROM orchestrator_tool_calls WHERE finished_at > $1",
		"FROM orchestrator_checks WHERE finished_at > $1", "FROM orchestrator_findings WHERE created_at > $1 OR resolved_at > $1",
		"FROM orchestrator_transcripts WHERE created_at > $1", "FROM orchestrator_self_heal_events WHERE created_at > $1 OR finished_at > $1",
	} {
		require.Zero(t, w.count(t, sql, w.now), sql)
	}
}

// extremes requires that the runs which are hard to show are there.
func (w filledDatabase) extremes(t *testing.T, runs map[int64]views.RunDetails) {
	t.Helper()
	var longest, cases int
	var tokens, dollars int64
	scripts := map[string]bool{}
	for _, d := range runs {
		longest = max(longest, len(d.GoalTitle))
		tokens, dollars = max(tokens, d.Usage.Tokens()), max(dollars, d.Usage.MicroUSD)
		for _, r := range d.GoalTitle {
			switch {
			case r >= 0x0590 && r <= 0x05ff:
				scripts["Hebrew"] = true
			case r >= 0x0600 && r <= 0x06ff:
				scripts["Arabic"] = true
			case r >= 0x4e00 && r <= 0x9fff:
				scripts["CJK"] = true
			case r >= 0x1f300:
				scripts["emoji"] = true
			}
		}
		for _, e := range d.Executions {
			checks, err := w.db.Checks(t.Context(), e.ID)
			require.NoError(t, err)
			for _, c := range checks {
				cases = max(cases, len(c.Cases))
			}
		}
	}
	require.Greater(t, longest, 200)
	require.Len(t, scripts, 4)
	require.Equal(t, 10_000, cases)
	require.Greater(t, tokens, int64(1_200_000))
	require.InDelta(t, 123.45, float64(dollars)/1e6, 0.005)
	bars := 0
	for id := range runs {
		timing, err := views.New(w.db).Timing(t.Context(), id)
		require.NoError(t, err)
		bars = max(bars, len(timing.Executions)+len(timing.ModelCalls)+len(timing.ToolCalls)+len(timing.Checks))
	}
	require.GreaterOrEqual(t, bars, 500)
	lines := 0
	for _, d := range runs {
		for _, a := range d.Artifacts {
			if a.Type != contract.ArtifactLog || a.Size < 1<<20 {
				continue
			}
			text, err := w.blobs.Get(t.Context(), a.Digest)
			require.NoError(t, err)
			lines = max(lines, strings.Count(string(text), "\n"))
		}
	}
	require.Equal(t, 100_000, lines)
}

// regression requires that the two runs which are to be compared differ.
func (w filledDatabase) regression(t *testing.T, runs map[int64]views.RunDetails) {
	t.Helper()
	require.Equal(t, runs[Baseline].GoalTitle, runs[Regressed].GoalTitle)
	var sides []diff.Side
	for _, id := range []int64{Baseline, Regressed} {
		side, err := diff.Load(t.Context(), w.db, views.New(w.db), w.blobs, diff.Ref{Run: id, Phase: contract.PhaseTester})
		require.NoError(t, err)
		sides = append(sides, side)
	}
	diff := diff.Compare(sides[0], sides[1])
	require.NotEmpty(t, diff.Regressions)
	require.Empty(t, sides[0].Code.Why)
	require.NotEmpty(t, sides[1].Code.Patch)
}

func TestAFilledDatabaseIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	w := fill(t, Options{Kind: Scale, Runs: 50, Events: 500})
	err := Fill(t.Context(), Options{Kind: Hostile, Database: w.url, Artifacts: w.blobs})
	require.ErrorIs(t, err, ErrFilled)
	require.Equal(t, 50, w.count(t, "FROM orchestrator_runs"))
}

func TestEveryHostileTextStandsWhereverATextCanStand(t *testing.T) {
	t.Parallel()
	w := fill(t, Options{Kind: Hostile})
	runs := w.runs(t)
	require.Len(t, runs, len(HostileTexts())+1+3*len(HostileTexts()))
	for i, text := range HostileTexts() {
		text = strings.ToValidUTF8(text, "\uFFFD")
		set, err := changesets.Read(t.Context(), w.db, int64(i+1))
		require.NoError(t, err)
		require.Equal(t, text, set.Title)
		require.Equal(t, i%2 == 1, set.Held, "the others were stopped")
		d := runs[int64(i+1)]
		require.Equal(t, text, d.GoalTitle)
		require.Equal(t, text, d.Project)
		plan, err := w.db.Plan(t.Context(), d.ID)
		require.NoError(t, err)
		require.Equal(t, text, plan.Steps[0].Name)
		require.Equal(t, text, d.Findings[0].Message)
		require.Equal(t, text, d.SelfHealEvents[0].RootCause)
		names := []string{}
		for _, a := range d.Artifacts {
			names = append(names, a.Name)
		}
		require.Contains(t, names, "tester/1/test-go/"+text+".png")
		require.Equal(t, text, d.Executions[0].Model)
		p, err := w.db.Pipeline(t.Context(), int64(2*i+1))
		require.NoError(t, err)
		require.Equal(t, text+"\n"+text, p.Objective)
		require.Equal(t, text, p.FailureContext.RecoveryHint)
		require.NotZero(t, p.RecoveredBy)
		messages, err := w.db.PipelineMessages(t.Context(), p.ID, 0, 0, true)
		require.NoError(t, err)
		require.Equal(t, text, messages[0].Text.Head)
		entries, err := w.db.PipelineEntries(t.Context(), p.ID, false, false)
		require.NoError(t, err)
		require.Contains(t, keysOf(entries), text)
	}
}

func keysOf(entries []contract.Entry) (keys []string) {
	for _, e := range entries {
		keys = append(keys, e.Key)
	}
	return keys
}

func TestTheScaleFillIsSpreadAsInAnInstallationThatIsAYearOld(t *testing.T) {
	t.Parallel()
	w := fill(t, Options{Kind: Scale, Runs: 1000, Events: 20_011})
	require.Equal(t, 1000, w.count(t, "FROM orchestrator_runs"))
	require.Equal(t, 20_011, w.count(t, "FROM orchestrator_events"))
	require.Zero(t, w.count(t, "FROM orchestrator_runs r WHERE r.event_seq <> (SELECT max(seq) FROM orchestrator_events e WHERE e.run_id = r.id)"))
	require.Zero(t, w.count(t, "FROM orchestrator_runs WHERE created_at > $1 OR updated_at > $1", w.now))
	done := w.count(t, "FROM orchestrator_runs WHERE status = 'done'")
	require.Greater(t, done, 800)
	require.Equal(t, 40, w.count(t, "FROM orchestrator_runs WHERE finished_at IS NULL"))
	d, err := views.New(w.db).RunDetails(t.Context(), 500)
	require.NoError(t, err)
	require.Len(t, d.Phases, 4)
	require.Len(t, d.Events, 20)
	require.Equal(t, scaleCalls, d.Usage.Calls)
	run, _, err := w.db.CreateRun(t.Context(), store.NewRun{Project: "p", GoalTitle: "one more"})
	require.NoError(t, err)
	require.EqualValues(t, 1001, run.ID, "ids go on")
}

func TestTheShowcaseIsServedWithoutTemporal(t *testing.T) {
	t.Parallel()
	w := fill(t, Options{Kind: Hostile})
	handler, done, err := Handler(t.Context(), w.url, w.blobs, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	t.Cleanup(done)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	ask := func(method, path string) (int, string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, method, server.URL+path, strings.NewReader("{}"))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return resp.StatusCode, string(text)
	}
	for _, path := range []string{"/runs", "/runs/1", "/pipelines", "/pipelines/1", "/pipelines/2", fmt.Sprintf("/runs/%d", len(HostileTexts())+1)} {
		status, page := ask(http.MethodGet, path)
		require.Equal(t, http.StatusOK, status, path)
		require.NotContains(t, page, `<script>window.__xss`, path)
		require.NotContains(t, page, `<img src=x`, path)
	}
	status, answer := ask(http.MethodPost, "/api/runs/1/pause")
	require.Equal(t, http.StatusServiceUnavailable, status, answer)
}
