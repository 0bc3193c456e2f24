package verify

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// rerun runs failed tests again, to distinguish flaky ones from broken ones. Only a command whose
// failure is explained by its failed cases runs again: after a crash or a compile error, there are
// no results to compare.
func (r *run) rerun(ctx context.Context) error {
	if r.job.Check.Category != contract.CategoryTest {
		return nil
	}
	for i := range r.executions {
		if err := r.rerunAll(ctx, r.executions[i]); err != nil {
			return err
		}
		e, err := r.confirm(ctx, r.executions[i])
		if err != nil {
			return err
		}
		if e == r.executions[i] {
			continue
		}
		r.executions[i] = e
		if err := r.rerunAll(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) rerunAll(ctx context.Context, e *execution) error {
	for attempt := 0; attempt < r.env.Settings.RerunFailed && e.explained(); attempt++ {
		if err := r.rerunFailed(ctx, e); err != nil {
			return err
		}
	}
	return nil
}

func (e *execution) explained() bool {
	return e.failed() && e.counted && e.interruption() == "" && !e.Parsed.Unexplained && len(e.Parsed.Failed()) > 0
}

// rerunFailed runs the failed cases of an execution once more. A case counts as passed only if the
// command reports it and the exit code agrees: it is 0, or other cases still fail.
func (r *run) rerunFailed(ctx context.Context, e *execution) error {
	inv := e.Invocation
	if inv.RerunFailed != nil {
		inv = inv.RerunFailed(e.Parsed.Failed())
		if e.way != nil { // the conditions are the same
			dir := checks.CoverageDir()
			if err := r.dir.Mkdir(dir, 0o755); err == nil {
				inv = inv.Measured(e.way.Coverage, dir, e.Invocation.Most)
			}
		}
	}
	second, err := r.execute(ctx, inv)
	if err != nil {
		return err
	}
	e.Parsed.Attachments = append(e.Parsed.Attachments, second.Parsed.Attachments...)
	failed := second.Parsed.Failed()
	if second.interruption() != "" || second.Parsed.Unexplained || !second.Result.OK() && len(failed) == 0 {
		return nil
	}
	status := map[string]contract.TestStatus{}
	for _, c := range second.Parsed.Cases {
		if status[c.Name] != contract.TestFailed {
			status[c.Name] = c.Status
		}
	}
	left := 0
	for n, c := range e.Parsed.Cases {
		switch {
		case status[c.Name] == contract.TestFailed && c.Status == contract.TestPassed:
			e.Parsed.Cases[n].Status, e.Parsed.Cases[n].Message = contract.TestFailed, messageOf(failed, c.Name)
			left++
		case c.Status != contract.TestFailed:
		case status[c.Name] == contract.TestPassed, status[c.Name] == contract.TestFlaky:
			e.Parsed.Cases[n].Status = contract.TestFlaky
		default:
			left++
		}
	}
	e.passedLater = left == 0 && second.Result.OK()
	return nil
}

func messageOf(cases []output.Case, name string) string {
	for _, c := range cases {
		if c.Name == name {
			return c.Message
		}
	}
	return ""
}
