package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/tester"
)

const (
	// evidenceBytes limits the evidence from one failed attempt in a prompt.
	evidenceBytes = 12 << 10
	// caseBytes limits the evidence from one failing test.
	caseBytes = 1500
	// compactEvidence is how many more times the evidence is halved than the context.
	compactEvidence = 2
	// shownHeals is the number of most recent heals that a prompt shows.
	shownHeals = 4
)

// lessons reads the information about failed attempts that the next attempt needs.
func (a *Activities) lessons(ctx context.Context, runID int64, l contract.Lessons) (prompt.Lessons, error) {
	out := prompt.Lessons{Strict: l.Strict, Generation: l.Generation}
	if len(l.Heals) == 0 {
		return out, nil
	}
	heals, err := a.Store.Heals(ctx, runID)
	if err != nil {
		return out, err
	}
	executions, err := a.Store.Executions(ctx, runID)
	if err != nil {
		return out, err
	}
	told := l.Heals[max(0, len(l.Heals)-shownHeals):]
	for i, h := range heals {
		// After a replay, a number may occur twice; the newest applies.
		later := slices.ContainsFunc(heals[i+1:], func(o store.HealEvent) bool { return o.Number == h.Number })
		if later || !slices.Contains(told, h.Number) {
			continue
		}
		lesson := prompt.Lesson{
			ErrorType: h.ErrorType, Code: h.ErrorCode, Action: h.HealAction,
			Message: h.RootCause, Words: h.Output().Words,
		}
		if e, ok := executionWith(executions, h.ExecutionID); ok {
			if e.Failure != nil {
				lesson.Message = e.Failure.Message
			}
			if lesson.Evidence, err = a.evidence(ctx, e); err != nil {
				return out, err
			}
			if l.Compact > 0 {
				lesson.Evidence = clipped(lesson.Evidence, evidenceBytes>>(l.Compact+compactEvidence))
			}
		}
		out.Heals = append(out.Heals, lesson)
	}
	return out, nil
}

func executionWith(executions []store.Execution, id int64) (store.Execution, bool) {
	i := slices.IndexFunc(executions, func(e store.Execution) bool { return e.ID == id })
	if i < 0 {
		return store.Execution{}, false
	}
	return executions[i], true
}

// evidence returns the evidence from a failed execution as text for a prompt: the tester's failed
// checks and tests, or any other agent's last response.
func (a *Activities) evidence(ctx context.Context, e store.Execution) (string, error) {
	if e.Phase == contract.PhaseTester && e.Step == "" {
		checks, err := a.Store.Checks(ctx, e.ID)
		if err != nil {
			return "", err
		}
		return clipped(telemetry.Redact(redChecks(checks)), evidenceBytes), nil
	}
	messages, err := a.Store.Conversation(ctx, e.ID)
	if err != nil {
		return "", err
	}
	for i := len(messages) - 1; i > 1; i-- { // the first two are the prompt
		if messages[i].Role == "assistant" {
			return "The last response:\n" + clipped(telemetry.Redact(string(messages[i].Content)), evidenceBytes/2), nil
		}
	}
	return "", nil
}

// redChecks describes the failed checks and their failing tests.
func redChecks(checks []store.Check) string {
	var b strings.Builder
	for _, c := range checks {
		if c.Result.OK {
			continue
		}
		fmt.Fprintf(&b, "%s failed: %s\n", c.Result.Check.Name, clipped(telemetry.Redact(c.Result.Message), caseBytes))
		for _, t := range c.Cases {
			if t.Status != contract.TestFailed || b.Len() > evidenceBytes {
				continue
			}
			fmt.Fprintf(&b, "FAILED %s", t.Name)
			if t.Location != "" {
				fmt.Fprintf(&b, " at %s", t.Location)
			}
			fmt.Fprintf(&b, "\n%s\n", clipped(telemetry.Redact(t.Message), caseBytes))
		}
	}
	return b.String()
}

// clipped cuts a text at its end, with a note.
func clipped(s string, most int) string { return tester.Clipped(s, most) }
