package verify

import (
	"context"
	"slices"

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
	for attempt := 1; attempt <= r.env.Settings.RerunFailed && e.explained(); attempt++ {
		if err := r.rerunFailed(ctx, e, attempt); err != nil {
			return err
		}
	}
	return nil
}

func (e *execution) explained() bool {
	return e.failed() && e.counted && e.interruption() == "" && !e.Parsed.Unexplained && len(e.Parsed.Failed()) > 0
}

// rerunFailed runs the failed cases of an execution once more.
func (r *run) rerunFailed(ctx context.Context, e *execution, attempt int) error {
	inv := e.Invocation
	if inv.RerunFailed != nil {
		inv = inv.RerunFailed(e.Parsed.Failed(), attempt)
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
	e.Parsed.Attachments = append(e.Parsed.Attachments, e.attachmentsOf(second)...)
	if second.interruption() == "" && !second.Parsed.Unexplained && (second.Result.OK() || len(second.Parsed.Failed()) > 0) {
		e.compare(second)
	}
	return nil
}

// attachmentsOf returns the files of a re-run. Of a recorded one, only those of the cases that failed
// before count: other cases run with them, such as those of the same file.
func (e *execution) attachmentsOf(second *execution) []output.Attachment {
	if !second.Invocation.Recorded {
		return second.Parsed.Attachments
	}
	failed := map[string]bool{}
	for _, c := range e.Parsed.Failed() {
		failed[c.Name] = true
	}
	var out []output.Attachment
	for _, a := range second.Parsed.Attachments {
		if failed[a.Test] {
			a.Failed = true
			out = append(out, a)
		}
	}
	return out
}

// compare updates the cases of an execution by a re-run. A case counts as passed only if the command
// reports it and the exit code agrees: it is 0, or other cases still fail.
//
// A case that passed and fails in the re-run has failed, except in a recorded one: the first run was
// not recorded, so recording may be the only difference. Such a failure then counts neither against
// the case nor as the reason of the exit code. A case that failed without being recorded and fails
// again has failed, because recording cannot be the reason of both failures.
func (e *execution) compare(second *execution) {
	failed, recorded := second.Parsed.Failed(), second.Invocation.Recorded
	status := map[string]contract.TestStatus{}
	for _, c := range second.Parsed.Cases {
		if status[c.Name] != contract.TestFailed {
			status[c.Name] = c.Status
		}
	}
	left, disturbed := 0, map[string]bool{}
	for n, c := range e.Parsed.Cases {
		switch {
		case status[c.Name] == contract.TestFailed && c.Status == contract.TestPassed && recorded:
			disturbed[c.Name] = true
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
	ok := second.Result.OK() || !slices.ContainsFunc(failed, func(c output.Case) bool { return !disturbed[c.Name] })
	e.passedLater = left == 0 && ok
}

func messageOf(cases []output.Case, name string) string {
	for _, c := range cases {
		if c.Name == name {
			return c.Message
		}
	}
	return ""
}
