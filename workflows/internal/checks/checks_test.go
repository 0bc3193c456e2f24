package checks_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/workflows/internal/checks"
)

// stage carries out checks with the given ids, which are separated by spaces, and returns the results and, sorted, the
// checks of each activity.
func stage(t *testing.T, ids string, together int, verify func(contract.VerifyInput) (contract.VerifyResult, error)) (results []contract.CheckResult, activities []string, _ error) {
	t.Helper()
	var all []contract.Check
	for id := range strings.FieldsSeq(ids) {
		all = append(all, contract.Check{ID: id})
	}
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	var mu sync.Mutex
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.VerifyInput) (contract.VerifyResult, error) {
		mu.Lock()
		defer mu.Unlock()
		of := in.Check.ID
		for _, c := range in.Others {
			of += " " + c.ID
		}
		activities = append(activities, of)
		return verify(in)
	}, activity.RegisterOptions{Name: contract.ActivityVerify})
	env.ExecuteWorkflow(func(ctx workflow.Context) (err error) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: time.Minute, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
		})
		results, err = checks.Stage(ctx, all, together, contract.VerifyInput{Timeout: time.Second}, func(in contract.VerifyInput) workflow.Future {
			return workflow.ExecuteActivity(ctx, contract.ActivityVerify, in)
		})
		return err
	})
	slices.Sort(activities)
	return results, activities, env.GetWorkflowError()
}

// passed returns the results of checks that have passed.
func passed(list ...contract.Check) []contract.CheckResult {
	var out []contract.CheckResult
	for _, c := range list {
		out = append(out, contract.CheckResult{Check: c, OK: true})
	}
	return out
}

// everything carries out all checks of an activity.
func everything(in contract.VerifyInput) (contract.VerifyResult, error) {
	return contract.VerifyResult{CheckResult: passed(in.Check)[0], Others: passed(in.Others...)}, nil
}

// ids returns the checks of results, in their order.
func ids(results []contract.CheckResult) string {
	var out []string
	for _, r := range results {
		out = append(out, r.Check.ID)
	}
	return strings.Join(out, " ")
}

func TestAnActivityCarriesOutAsManyChecksOfAStageAsTheSettingsAllow(t *testing.T) {
	t.Parallel()
	for together, want := range map[int][]string{4: {"a b c d", "e f"}, 32: {"a b c d e f"}, 1: {"a", "b", "c", "d", "e", "f"}, 0: {"a", "b", "c", "d", "e", "f"}} {
		results, activities, err := stage(t, "a b c d e f", together, everything)
		require.NoError(t, err)
		require.Equal(t, want, activities)
		require.Equal(t, "a b c d e f", ids(results))
	}
}

func TestAStageWithoutChecksNeedsNoActivity(t *testing.T) {
	t.Parallel()
	results, activities, err := stage(t, "", 4, everything)
	require.NoError(t, err)
	require.Empty(t, results)
	require.Empty(t, activities)
}

func TestChecksThatAnActivityDidNotCarryOutGetActivitiesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for name, verify := range map[string]func(contract.VerifyInput) (contract.VerifyResult, error){
		"its own only": func(in contract.VerifyInput) (contract.VerifyResult, error) { // a worker of an earlier version
			return contract.VerifyResult{CheckResult: passed(in.Check)[0]}, nil
		},
		"one of the others": func(in contract.VerifyInput) (contract.VerifyResult, error) {
			if len(in.Others) == 0 {
				return everything(in)
			}
			return contract.VerifyResult{Others: passed(in.Others[1])}, nil
		},
	} {
		results, activities, err := stage(t, "a b c", 3, verify)
		require.NoError(t, err, name)
		require.Equal(t, "a b c", ids(results), name)
		want := []string{"a b c", "b", "c"}
		if name == "one of the others" {
			want = []string{"a", "a b c", "b"}
		}
		require.Equal(t, want, activities, name)
		for _, r := range results {
			require.True(t, r.OK, name)
		}
	}
}

func TestTheErrorOfAnActivityIsThatOfTheStageAfterAllOthersHaveEnded(t *testing.T) {
	t.Parallel()
	results, activities, err := stage(t, "a b c", 2, func(in contract.VerifyInput) (contract.VerifyResult, error) {
		if in.Check.ID == "a" {
			return contract.VerifyResult{}, errors.New("the disk is full")
		}
		return everything(in)
	})
	require.ErrorContains(t, err, "the disk is full")
	require.Equal(t, []string{"a b", "c"}, activities)
	require.Equal(t, "  c", ids(results))
}
