package verify

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
)

// rerun runs failed tests again, to tell flaky ones from broken ones. Only a
// command whose failure its failed cases explain is run again: after a crash
// or a compile error there is nothing to compare.
func (r *run) rerun(ctx context.Context) error {
	if r.job.check.Category != contract.CategoryTest {
		return nil
	}
	for _, e := range r.executions {
		for attempt := 0; attempt < r.env.Settings.RerunFailed && e.explained(); attempt++ {
			if err := r.again(ctx, e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *execution) explained() bool {
	return e.red() && e.counted && e.broken() == "" && !e.parsed.unexplained && len(e.parsed.failed()) > 0
}

// again runs the failed cases of an execution once more. A case counts as
// passed only when the command says so and its exit code agrees: with 0, or
// with cases that still fail.
func (r *run) again(ctx context.Context, e *execution) error {
	inv := e.run
	if inv.again != nil {
		inv = inv.again(e.parsed.failed())
	}
	second, err := r.execute(ctx, inv)
	if err != nil {
		return err
	}
	e.parsed.artifacts = append(e.parsed.artifacts, second.parsed.artifacts...)
	failed := second.parsed.failed()
	if second.broken() != "" || second.parsed.unexplained || !second.result.OK() && len(failed) == 0 {
		return nil
	}
	status := map[string]contract.TestStatus{}
	for _, c := range second.parsed.cases {
		if status[c.Name] != contract.TestFailed {
			status[c.Name] = c.Status
		}
	}
	left := 0
	for n, c := range e.parsed.cases {
		switch {
		case status[c.Name] == contract.TestFailed && c.Status == contract.TestPassed:
			e.parsed.cases[n].Status, e.parsed.cases[n].Message = contract.TestFailed, messageOf(failed, c.Name)
			left++
		case c.Status != contract.TestFailed:
		case status[c.Name] == contract.TestPassed, status[c.Name] == contract.TestFlaky:
			e.parsed.cases[n].Status = contract.TestFlaky
		default:
			left++
		}
	}
	e.cured = left == 0 && second.result.OK()
	return nil
}

func messageOf(cases []testCase, name string) string {
	for _, c := range cases {
		if c.Name == name {
			return c.Message
		}
	}
	return ""
}
