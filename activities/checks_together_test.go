package activities_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/storetest"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// shards returns the input of an activity that carries out all shards of the tests; the second of them fails.
func (h *fixture) shards(n int) contract.VerifyInput {
	h.t.Helper()
	h.testedBy(checks.Settings{Shards: n, Test: checks.StageSettings{Command: `test "$RGPT_SHARD" != 2`, Format: "exit-code"}})
	ws := h.repo.Workspace()
	e := h.begin(contract.PhaseTester, "")
	plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: e, Workspace: ws})
	require.Nil(h.t, failure)
	require.Len(h.t, plan.Stages[0], n)
	return contract.VerifyInput{Execution: e, Workspace: ws, Check: plan.Stages[0][0], Others: plan.Stages[0][1:], Timeout: time.Minute}
}

// results returns whether the checks of an execution have passed, by their ids.
func (h *fixture) results(e contract.ExecutionRef) map[string]bool {
	h.t.Helper()
	all, err := h.Store.Checks(h.t.Context(), e.ID)
	require.NoError(h.t, err)
	ok := map[string]bool{}
	for _, c := range all {
		ok[c.Result.Check.ID] = c.Result.OK
	}
	return ok
}

func TestOneActivityCarriesOutSeveralChecksAndStoresEach(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []\n")
	in := h.shards(3)
	out, failure := do[contract.VerifyResult](h, h.Verify, in)
	require.Nil(t, failure)
	require.Equal(t, in.Check, out.Check)
	require.True(t, out.OK)
	require.Len(t, out.Others, 2)
	require.Equal(t, in.Others[0], out.Others[0].Check)
	require.False(t, out.Others[0].OK)
	require.True(t, out.Others[1].OK)
	require.Equal(t, map[string]bool{in.Check.ID: true, in.Others[0].ID: false, in.Others[1].ID: true}, h.results(in.Execution))
}

func TestACheckThatCannotRunDoesNotCostTheResultsOfTheOthers(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []\n")
	in := h.shards(2)
	in.Check = contract.Check{ID: "unknown", Category: contract.CategoryTest}
	out, failure := do[contract.VerifyResult](h, h.Verify, in)
	require.Nil(t, failure)
	require.Empty(t, out.Check)
	require.Len(t, out.Others, 1)
	require.Equal(t, in.Others[0], out.Others[0].Check)

	in.Others[0].ID = "unknown, too"
	_, failure = do[contract.VerifyResult](h, h.Verify, in)
	require.NotNil(t, failure, "none could run")
}

func TestAPanicOfACheckBesideOthersDoesNotEndTheWorker(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	in := h.shards(2)
	h.Sandbox = struct{ sandbox.Runner }{} // each of its methods panics
	_, failure := do[contract.VerifyResult](h, h.Verify, in)
	require.NotNil(t, failure)
	require.Contains(t, failure.Message, in.Check.ID+" panicked")
}

func TestARepeatedActivityCarriesOutOnlyItsOwnCheck(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []\n")
	in := h.shards(3)
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.RegisterActivityWithOptions(func(ctx context.Context, in contract.VerifyInput) (contract.VerifyResult, error) {
		if activity.GetInfo(ctx).Attempt == 1 {
			return contract.VerifyResult{}, errors.New("the worker died")
		}
		return h.Verify(ctx, in)
	}, activity.RegisterOptions{Name: contract.ActivityVerify})
	var out contract.VerifyResult
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 2},
		})
		return workflow.ExecuteActivity(ctx, contract.ActivityVerify, in).Get(ctx, &out)
	})
	require.NoError(t, env.GetWorkflowError())
	require.Equal(t, in.Check, out.Check)
	require.Empty(t, out.Others)
	require.Equal(t, map[string]bool{in.Check.ID: true}, h.results(in.Execution))
}

func TestACheckItsFilesAndItsOutputAreStoredWhenItHasEnded(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []\n")
	h.testedBy(checks.Settings{Test: checks.StageSettings{Command: "echo tested", Format: "exit-code"}})
	in := h.only()
	_, failure := do[contract.VerifyResult](h, h.Verify, in)
	require.Nil(t, failure)
	var together int
	var shown string
	storetest.Query(t, h.url, func(ctx context.Context, conn *pgx.Conn) {
		require.NoError(t, conn.QueryRow(ctx, `SELECT count(*) FROM orchestrator_artifacts a JOIN orchestrator_checks c USING (execution_id)
			WHERE c.execution_id = $1 AND a.hash = c.log_digest AND a.xmin = c.xmin`, in.Execution.ID).Scan(&together))
		require.NoError(t, conn.QueryRow(ctx, "SELECT string_agg(text, '' ORDER BY id) FROM orchestrator_outputs WHERE source = $1", in.Check.ID).Scan(&shown))
	})
	require.Equal(t, 1, together, "the check and its log are one transaction")
	require.Contains(t, shown, "tested\n")
}

func TestTheFilesOfACheckThatCannotBeJudgedAreStored(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []\n")
	h.Config.Verification.Test.Command, h.Config.Verification.Security.Enabled = "echo tested", config.Off
	h.project(map[string]string{"more.txt": "more\n"})
	h.baselineOfTests()
	require.NotEmpty(t, h.run.Baseline)
	in := h.only()
	storetest.Query(t, h.url, func(ctx context.Context, conn *pgx.Conn) {
		_, err := conn.Exec(ctx, `UPDATE orchestrator_baselines SET stages = '"damaged"'`)
		require.NoError(t, err)
	})
	_, failure := do[contract.VerifyResult](h, h.Verify, in)
	require.NotNil(t, failure)
	require.NotContains(t, h.results(in.Execution), in.Check.ID)
	files, err := h.Store.Artifacts(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(files, func(f contract.Artifact) bool {
		return f.ExecutionID == in.Execution.ID && f.Type == contract.ArtifactLog
	}), "%v", files)
}

// only returns the input of the activity that carries out the first check of the run's commit.
func (h *fixture) only() contract.VerifyInput {
	h.t.Helper()
	e := h.begin(contract.PhaseTester, "")
	plan, failure := do[contract.TestPlanResult](h, h.PlanTests, contract.TestPlanInput{Execution: e, Workspace: h.repo.Workspace()})
	require.Nil(h.t, failure)
	return contract.VerifyInput{Execution: e, Workspace: h.repo.Workspace(), Check: plan.Stages[0][0], Timeout: time.Minute}
}
