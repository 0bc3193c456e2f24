package activities

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/tool"
)

// Limits of the description of a project's checks in a prompt, which is paid for with each call of
// a conversation.
const (
	maxShownChecks       = 30
	maxShownCommand      = 600 // bytes of one check's command
	maxShownFailures     = 40
	maxShownFailureBytes = 200 // of each
)

// project describes a run's environment and checks to its agents; nil if the run has neither.
func (a *Activities) project(ctx context.Context, run store.Run) (*prompt.Project, error) {
	if run.Settings.Environment == nil {
		return nil, nil
	}
	tools, err := a.toolsOfRun(ctx, run)
	if err != nil {
		return nil, err
	}
	p := &prompt.Project{}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		if name == "git" || name == environment.ImageTool {
			continue // git is only for setups; a workspace has no history
		}
		p.Tools = append(p.Tools, name+" "+tools[name])
	}
	if run.Environment != "" {
		row, err := a.Store.Environment(ctx, run.Environment)
		var recipe environment.Recipe
		switch {
		case err == nil:
			if err := json.Unmarshal(row.Recipe, &recipe); err != nil {
				return nil, fmt.Errorf("read the recipe of environment %s: %w", run.Environment, err)
			}
			p.Installed, p.Missing = recipe.Describe(), recipe.Absent()
		case !errors.Is(err, store.ErrNotFound):
			return nil, err
		}
	}
	b, err := a.baselineOf(ctx, run)
	if err != nil || b == nil {
		return p, err
	}
	describeBaseline(p, b)
	return p, nil
}

// describeBaseline adds the checks that judge the result, and their outcomes on the base commit.
func describeBaseline(p *prompt.Project, b *store.Baseline) {
	skipped := map[string]bool{}
	for _, c := range b.Checks {
		skipped[c.Result.Check.ID] = c.Result.Skipped
	}
	p.Checks = slices.DeleteFunc(promptChecks(b.Stages, b.Commands), func(c prompt.Check) bool { return skipped[c.ID] })
	var sum contract.TestSummary
	more := 0
	fails := func(text string) {
		if len(p.Failing) == maxShownFailures {
			more++
			return
		}
		p.Failing = append(p.Failing, clipped(telemetry.Redact(text), maxShownFailureBytes))
	}
	for _, c := range b.Checks {
		sum = sum.Add(c.Result.Summary)
		if c.Result.OK {
			continue
		}
		named := false
		for _, t := range c.Cases {
			if t.Status == contract.TestFailed {
				named = true
				fails(c.Result.Check.Name + ": " + t.Name)
			}
		}
		if !named {
			fails(c.Result.Check.Name + ": " + c.Result.Message)
		}
	}
	if more > 0 {
		p.Failing = append(p.Failing, fmt.Sprintf("… and %d more", more))
	}
	if len(b.Checks) > 0 {
		p.Baseline = fmt.Sprintf("%d tests passed, %d failed, %d skipped", sum.Passed+sum.Flaky, sum.Failed, sum.Skipped)
	}
}

// promptChecks lists checks and their commands for a prompt.
func promptChecks(stages [][]contract.Check, commands map[string]string) []prompt.Check {
	var told []prompt.Check
	for _, stage := range stages {
		for _, c := range stage {
			if command := commands[c.ID]; command != "" && len(told) < maxShownChecks {
				told = append(told, prompt.Check{ID: c.ID, Name: c.Name, Command: clipped(command, maxShownCommand)})
			}
		}
	}
	return told
}

// baselineText describes the results of the checks on a run's base commit in at most most bytes.
func (p *planTurn) baselineText(ctx context.Context, q tool.BaselineQuery, most int) (string, error) {
	b, err := p.baselineOf(ctx, p.run)
	if err != nil || b == nil {
		return "The checks did not run on the base commit.", err
	}
	var out strings.Builder
	left := 0
	line := func(text string) {
		text = clipped(strings.Join(strings.Fields(text), " "), maxShownFailureBytes)
		if out.Len()+len(text)+1 > most {
			left++
			return
		}
		out.WriteString(text + "\n")
	}
	contains := strings.ToLower(q.Contains)
	for _, c := range b.Checks {
		line(checkLine(c.Result))
		for _, t := range c.Cases {
			where := t.Location
			if t.Status == contract.TestFailed && t.Message != "" {
				where += ": " + t.Message
			}
			text := fmt.Sprintf("%s %s %s", t.Status, t.Name, where)
			if q.Failed && t.Status != contract.TestFailed || !strings.Contains(strings.ToLower(text), contains) {
				continue
			}
			line(text)
		}
	}
	if left > 0 {
		fmt.Fprintf(&out, "[%d more lines; narrow the list with contains or failed]\n", left)
	}
	return cmp.Or(out.String(), "No check ran on the base commit."), nil
}

// checkLine describes the outcome of a check.
func checkLine(r contract.CheckResult) string {
	outcome := "passed"
	switch {
	case r.Skipped:
		outcome = "skipped: " + r.Message
	case !r.OK:
		outcome = "failed: " + r.Message
	}
	s := r.Summary
	if s.Ran()+s.Skipped == 0 {
		return fmt.Sprintf("# %s %s", r.Check.Name, outcome)
	}
	return fmt.Sprintf("# %s (%d passed, %d failed, %d skipped) %s", r.Check.Name, s.Passed+s.Flaky, s.Failed, s.Skipped, outcome)
}
