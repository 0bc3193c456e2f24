package chaos

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// addsWorkflow is a run whose step adds a workflow to the repository's CI, so that a person must approve its
// push.
func addsWorkflow() harness.Rules {
	return harness.PlanRules("20ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{{
		{Name: "create_file", Arguments: map[string]any{
			"path": ".github/workflows/x.yml", "content": "on: push\npermissions: {}\njobs:\n  x:\n    runs-on: ubuntu-latest\n    steps:\n      - run: ./test.sh\n",
		}},
		harness.Finish("added a workflow"),
	}}})
}

// TestAKillBetweenVerdictApprovalAndPushPushesOnceWhatWasApproved kills the worker, and the database, right
// after each event on the way from a verdict to the push.
func TestAKillBetweenVerdictApprovalAndPushPushesOnceWhatWasApproved(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.Options{Scenario: addsWorkflow()})
	db := s.Store(t)
	repo := repository(t, filepath.Join(s.Dir, "repo"))
	var ids []int64
	for _, role := range []devstack.Role{devstack.RoleWorker, devstack.RolePostgres} {
		for _, point := range []contract.EventType{
			contract.EventGateAllowed, contract.EventGateNeedsApproval, contract.EventApprovalGranted, contract.PhaseReleaser.Started(),
		} {
			remote := filepath.Join(s.Dir, fmt.Sprintf("%s-%s.git", role, point))
			harness.Git(t, s.Dir, "init", "--quiet", "--bare", remote)
			id := s.Create(t, "--repo", repo, "--goal", "Add a workflow", "--push", "--remote", remote)
			ids = append(ids, id)
			happened := func(kind contract.EventType) {
				harness.Await(t, fmt.Sprintf("run %d: %s", id, kind), time.Minute, func() (bool, string) {
					events, err := db.Events(t.Context(), id, 0, 0)
					require.NoError(t, err)
					return slices.ContainsFunc(events, func(e contract.Event) bool { return e.Type == kind }), ""
				})
			}
			approve := func() {
				require.Empty(t, harness.Git(t, remote, "for-each-ref"), "nothing is pushed before the approval")
				s.OK(t, "run", "approve", fmt.Sprint(id))
			}
			killed := func() {
				s.Kill(t, role)
				s.Up(t)
			}
			late := point == contract.EventApprovalGranted || point == contract.PhaseReleaser.Started()
			if late {
				happened(contract.EventApprovalRequested)
				approve()
			}
			happened(point)
			killed()
			if !late {
				happened(contract.EventApprovalRequested)
				approve()
			}
			run := s.AwaitEnd(t, db, id, time.Minute)
			require.Equal(t, contract.StatusDone, run.Status, "%s, %s: %v", role, point, run.Failure)
			require.Equal(t, run.ReleaseCommit+" refs/heads/"+run.ReleaseBranch,
				strings.TrimSpace(harness.Git(t, remote, "for-each-ref", "--format=%(objectname) %(refname)")))
			var stages []string
			for _, v := range s.Inspect(t, id).Gate {
				stages = append(stages, fmt.Sprintf("%s %s %t", v.Stage, v.Decision, v.ApprovedBy != ""))
			}
			require.Equal(t, []string{"step allow false", "release needs_approval true"}, stages, "one verdict for each change")
		}
	}
	harness.CheckInvariants(t, s, ids...)
	s.CheckSandboxes(t)
}
