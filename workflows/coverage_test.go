package workflows

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"

	"github.com/rocketgpt/orchestrator/contract"
)

// TestEveryWorkflowEndingAndActionHasARecordedHistory fails when something new
// comes that a run can do and no history shows: what is not recorded can be
// changed without the replay test noticing.
func TestEveryWorkflowEndingAndActionHasARecordedHistory(t *testing.T) {
	t.Parallel()
	kinds, endings, carriedOut := map[string]bool{}, map[contract.Status]bool{}, map[contract.HealAction]bool{}
	resets := 0
	require.NoError(t, filepath.WalkDir("testdata/histories", func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(file, ".json.gz") {
			return err
		}
		events := readHistory(t, file).Events
		kind := events[0].GetWorkflowExecutionStartedEventAttributes().GetWorkflowType().GetName()
		kinds[kind] = true
		for _, e := range events {
			if e.GetWorkflowTaskFailedEventAttributes().GetCause() == enumspb.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW {
				resets++
			}
		}
		result := events[len(events)-1].GetWorkflowExecutionCompletedEventAttributes().GetResult()
		switch kind {
		case contract.WorkflowRun:
			endings[decoded[contract.RunResult](t, result).Status] = true
		case contract.WorkflowSelfHeal:
			carriedOut[decoded[contract.Directive](t, result).Action] = true
		}
		return nil
	}))
	for _, kind := range []string{contract.WorkflowRun, contract.WorkflowStep, contract.WorkflowSelfHeal, contract.WorkflowDeliberation, contract.WorkflowMember} {
		require.True(t, kinds[kind], "there is no history of %s", kind)
	}
	for _, s := range contract.Statuses() {
		require.Equal(t, s.Terminal(), endings[s], "histories of runs that ended as %s", s)
	}
	var lacking []contract.HealAction
	for _, a := range contract.HealActions() {
		if !carriedOut[a] {
			lacking = append(lacking, a)
		}
	}
	require.Empty(t, lacking, "no history has a heal by them; add an ending to test/recordhistories and record it into a new folder")
	require.Positive(t, resets, "no history is of a run that was done again")
}

// decoded reads a workflow's result.
func decoded[T any](t *testing.T, result *commonpb.Payloads) (v T) {
	t.Helper()
	require.NotEmpty(t, result.GetPayloads())
	require.NoError(t, json.Unmarshal(result.GetPayloads()[0].GetData(), &v))
	return v
}
