package activities

import (
	"context"
	"fmt"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/runs/followup"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

const (
	// shownChange limits the diff in the task of the Repair agent, and changedPaths the number of
	// changed files whose directories are described.
	shownChange, changedPaths = 16 << 10, 20
	// shownSummary limits the summary of one agent, and shownSummaries their number.
	shownSummary, shownSummaries = 2000, 8
)

// work is what agents of a run have done so far.
type work struct {
	diff      string
	paths     []string         // changed files
	summaries []prompt.Excerpt // of the agents, the last ones
}

// workSoFar describes the change of a run up to a workspace, and what its agents said about it.
func (a *Activities) workSoFar(ctx context.Context, executions []store.Execution, at contract.Workspace) (work, error) {
	var out work
	base, err := a.baseOf(ctx, at)
	if err != nil {
		return out, err
	}
	if base.Tree != at.Tree {
		diff, err := a.Workspaces.DiffOf(ctx, base, at, "", shownChange)
		if err != nil {
			return out, err
		}
		out.diff = telemetry.Redact(diff)
		stat, err := a.Workspaces.DiffStat(ctx, at)
		if err != nil {
			return out, err
		}
		for _, f := range stat.Files[:min(len(stat.Files), changedPaths)] {
			out.paths = append(out.paths, f.Path)
		}
	}
	for _, e := range slices.Backward(executions) {
		if e.Agent != contract.AgentBuilder && e.Agent != contract.AgentRepair || len(out.summaries) == shownSummaries {
			continue
		}
		said, err := a.finalWords(ctx, e.ID)
		if err != nil {
			return out, err
		}
		if said != "" {
			name := fmt.Sprintf("%s, attempt %d", e.Step, e.Attempt)
			if e.Agent == contract.AgentRepair {
				name = "an earlier repair"
			}
			out.summaries = append(out.summaries, prompt.Excerpt{Name: name, Text: said})
		}
	}
	slices.Reverse(out.summaries)
	return out, nil
}

// finalWords returns what an agent said when it finished, or "" if it has not.
func (a *Activities) finalWords(ctx context.Context, execution int64) (string, error) {
	said, err := followup.LastWords(ctx, a.Store, execution)
	return clipped(telemetry.Redact(said), shownSummary), err
}

// logsOf returns the logs of the failed checks of an execution: the name of each check, and the call
// that reads its log.
func (a *Activities) logsOf(ctx context.Context, e store.Execution) ([]prompt.Check, error) {
	stored, err := a.Store.Checks(ctx, e.ID)
	if err != nil || len(stored) == 0 {
		return nil, err
	}
	all, err := a.Store.Artifacts(ctx, e.RunID)
	if err != nil {
		return nil, err
	}
	var out []prompt.Check
	for _, c := range stored {
		if c.Result.OK || c.LogDigest == "" || len(out) == maxShownChecks {
			continue
		}
		if name := logName(all, e.ID, c.LogDigest); name != "" {
			out = append(out, prompt.Check{Name: c.Result.Check.Name, Command: fmt.Sprintf("%s {%q: %q}", tool.ReadOutput, "id", name)})
		}
	}
	return out, nil
}
