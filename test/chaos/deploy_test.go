package chaos

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/devstack"
	"github.com/rocketgpt/orchestrator/test/harness"
)

// TestRunsOutliveAReleaseWhoseWorkflowsPanic replaces the worker in mid-run by one that
// panics in each workflow task, and that one by the right one.
func TestRunsOutliveAReleaseWhoseWorkflowsPanic(t *testing.T) {
	d := newFaultTrial(t, harness.Options{})
	program := filepath.Join(d.Dir, "wrongdeploy")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./test/chaos/testdata/wrongdeploy")
	build.Dir = harness.Root()
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	begun := d.midRun(t, "Deploy the wrong worker")
	d.Kill(t, devstack.RoleWorker)
	d.underWay(t, begun)
	wrong, log := d.StartWorker(t, program)
	fresh := d.run(t, "Begin with the wrong worker")
	for _, id := range []int64{begun, fresh} {
		// Where all tasks were done when the worker died, the run waits for activities, which
		// nobody carries out now: whatever signal comes makes a task.
		require.NoError(t, d.Temporal(t).SignalWorkflow(t.Context(), contract.RunWorkflowID(id), "", "wake", nil))
		harness.Await(t, "workflow tasks to panic", time.Minute, func() (bool, string) {
			n := panics(t, log, id)
			return n >= 3, fmt.Sprint(n, " did")
		})
		d.underWay(t, id)
	}
	require.NoError(t, wrong.Stop(t.Context(), 20*time.Second, syscall.SIGTERM))
	d.Up(t)
	d.requireDone(t, 2*time.Minute, begun, fresh)
}

// panics counts the workflow tasks of a run and its steps that the wrong worker failed.
// A history names the first one of a row at most.
func panics(t *testing.T, log string, id int64) (n int) {
	t.Helper()
	text, err := os.ReadFile(log)
	require.NoError(t, err)
	of := regexp.MustCompile(fmt.Sprintf(`WorkflowID=run-%d[ /]`, id))
	for line := range strings.Lines(string(text)) {
		if of.MatchString(line) && strings.Contains(line, "this release is wrong") {
			n++
		}
	}
	return n
}
