package e2e

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/test/harness"
)

const (
	// killsEnv says how many deliberations are killed at points that their seeds
	// draw; without it there are someKills, and with RGPT_STRESS=full manyKills.
	killsEnv  = "RGPT_KILLS"
	someKills = 2
	manyKills = 40
	// maxKills is how often one of them is killed at most.
	maxKills = 2
)

// killed is how many deliberations are killed at random points.
func killed(t *testing.T) int {
	t.Helper()
	if os.Getenv("RGPT_STRESS") == "full" {
		return manyKills
	}
	n := someKills
	if text := os.Getenv(killsEnv); text != "" {
		var err error
		n, err = strconv.Atoi(text)
		require.NoError(t, err, killsEnv)
	}
	return n
}

// killSubject is a deliberation, of its own or the one that plans a run, and what it
// came to.
type killSubject struct {
	run      int64 // that it plans; 0: none
	pipeline int64
	lengths  map[string]int64 // of the histories, by whose they are
	whose    []string         // in order: the pipeline's is the empty one
	agreed   []string         // text, proposals and votes
	final    string
	plan     contract.Plan
}

// killsAnywhere kills the worker and Temporal when the history of a deliberation, or
// of one of its members, has come to a length that its seed draws from the whole
// length of an undisturbed one. Which turns ALPHA takes while BETA still thinks is
// up to the clock; what they propose, what they agree on, how they voted, and the
// plan that is made of it are the same.
func (c *pipelineTests) killsAnywhere(t *testing.T) (kills int) {
	undisturbed := []killSubject{c.end(t, c.begin(t, false)), c.end(t, c.begin(t, true))}
	for seed := range killed(t) {
		r := rand.New(rand.NewPCG(uint64(seed), 17))
		want := undisturbed[seed%len(undisturbed)]
		s := c.begin(t, want.run != 0)
		var points []string
		for range 1 + r.IntN(maxKills) {
			role := []devstack.Role{devstack.RoleWorker, devstack.RoleTemporal}[r.IntN(2)]
			whose := want.whose[r.IntN(len(want.whose))]
			event := 1 + r.Int64N(want.lengths[whose])
			points = append(points, fmt.Sprintf("%s at event %d of its %q", role, event, whose))
			c.awaitEvents(t, s.pipeline, whose, event)
			c.Kill(t, role)
			c.Up(t)
			kills++
		}
		s = c.end(t, s)
		which := fmt.Sprintf("seed %d: %s", seed, strings.Join(points, ", "))
		require.Equal(t, want.final, s.final, which)
		require.Equal(t, want.agreed, s.agreed, which)
		require.Equal(t, want.plan, s.plan, which)
		t.Log(which)
	}
	return kills
}

// begin starts a deliberation.
func (c *pipelineTests) begin(t *testing.T, plans bool) killSubject {
	t.Helper()
	if !plans {
		return killSubject{pipeline: c.note(c.Spawn(t, "--objective", harness.Goal("killed"), "--auto-continue"))}
	}
	return c.planned(t, "killed-run")
}

// planned starts a run that a deliberation plans.
func (c *pipelineTests) planned(t *testing.T, scenario string) killSubject {
	t.Helper()
	repo := filepath.Join(c.Dir, "planned-repo")
	if _, err := os.Stat(repo); errors.Is(err, os.ErrNotExist) {
		harness.ShellRepo(t, repo)
	}
	s := killSubject{run: c.Create(t, "--repo", repo, "--goal", harness.Goal(scenario), "--plan-by", "deliberation")}
	c.runs = append(c.runs, s.run)
	harness.Await(t, "the deliberation of a run", deliberate, func() (bool, string) {
		list, err := c.Store(t).ListPipelines(t.Context(), store.PipelineFilter{RunID: s.run})
		if err != nil || len(list) == 0 {
			return false, fmt.Sprint(err)
		}
		s.pipeline = list[0].ID
		return true, ""
	})
	return s
}

// workflowOf names the workflow of a pipeline, or of its member.
func workflowOf(pipeline int64, whose string) string {
	if whose == "" {
		return contract.PipelineWorkflowID(pipeline)
	}
	return contract.MemberWorkflowID(pipeline, contract.Member(whose))
}

// awaitEvents waits until a history is as long as told, or does not grow any more.
func (c *pipelineTests) awaitEvents(t *testing.T, pipeline int64, whose string, length int64) {
	t.Helper()
	harness.Await(t, fmt.Sprintf("event %d of the %q of pipeline %d", length, whose, pipeline), deliberate, func() (bool, string) {
		d, err := c.Temporal(t).DescribeWorkflowExecution(t.Context(), workflowOf(pipeline, whose), "")
		var absent *serviceerror.NotFound
		if errors.As(err, &absent) {
			return c.pipeline(t, pipeline).Status.Terminal(), "it has not begun"
		}
		if err != nil {
			return false, err.Error() // the frontend has just been started again
		}
		info := d.GetWorkflowExecutionInfo()
		return info.GetHistoryLength() >= length || info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, fmt.Sprint(info.GetHistoryLength())
	})
}

// end waits for the end of a deliberation, and of the run that it plans, and reads
// what it came to. Its histories replay.
func (c *pipelineTests) end(t *testing.T, s killSubject) killSubject {
	t.Helper()
	p := c.AwaitPipeline(t, s.pipeline, "over", deliberate, func(p store.Pipeline) bool { return p.Status.Terminal() })
	require.Equal(t, contract.PipelineCompleted, p.Status, "%v", p.Failure)
	if s.run != 0 {
		run := c.AwaitEnd(t, c.Store(t), s.run, deliberate)
		require.Equal(t, contract.StatusDone, run.Status, "%v", run.Failure)
		plan, err := c.Store(t).Plan(t.Context(), s.run)
		require.NoError(t, err)
		s.plan = plan
		list, err := c.Store(t).ListPipelines(t.Context(), store.PipelineFilter{RunID: s.run})
		require.NoError(t, err)
		require.Len(t, list, 1, "it deliberated once")
	}
	s.final, s.agreed, s.lengths = p.Consensus.Value.Head, c.agreed(t, p.ID), map[string]int64{}
	for i, h := range c.PipelineHistories(t, p) {
		whose := ""
		if i > 0 {
			whose = string(p.Members[i-1].Member)
		}
		s.whose = append(s.whose, whose)
		s.lengths[whose] = int64(len(h.Events))
		h.Replay(t)
	}
	return s
}
