package activities

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.temporal.io/sdk/activity"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// TakeCheck classifies the failure in a message about a released branch, stores it redacted, and
// counts the resulting repair. A failure caused by a machine is not stored: no code change can fix
// it. A repetition for the same message has no effect.
func (a *Activities) TakeCheck(ctx context.Context, in contract.TakeCheckInput) (contract.TakeCheckResult, error) {
	m := &in.Message
	for _, text := range []*string{&m.Name, &m.Summary, &m.Details, &m.URL, &m.By} {
		*text = telemetry.Redact(*text)
	}
	failure := failureOfCheck(*m)
	if failure.Class == contract.ClassInfra {
		return contract.TakeCheckResult{Failure: failure}, nil
	}
	taken, err := a.Store.AddBranchMessage(ctx, activity.GetInfo(ctx).WorkflowExecution.RunID, in)
	taken.Failure = failure
	return taken, err
}

// failureOfCheck converts a failed check or a review comment into a run's failure. The check's
// output distinguishes missing configuration and failed machines from incorrect code.
func failureOfCheck(m contract.CheckMessage) contract.Failure {
	out := contract.Failure{Class: contract.ClassAssertion, Code: contract.CodeCheckFailed}
	if m.Kind == contract.CheckBase {
		out.Code = contract.CodeMergeConflict
		out.Message = m.Summary
		out.Cause = "Both sides changed the same parts. The repository has the automatic merge: in the conflicting files, git marked the parts (<<<<<<<, =======, >>>>>>>); " +
			"what is above ======= is of the branch, what is below is of the base. Keep what both sides wanted, remove the markers, and change nothing else of what the base brought."
		return out
	}
	if m.Kind == contract.CheckComment {
		out.Message = fmt.Sprintf("a review comment (%s) requests a change: %s", m.Name, firstOf(m.Summary, m.Details))
		out.Cause = clipped(strings.TrimSpace(cmp.Or(m.Details, m.Summary)), causeBytes)
		return out
	}
	seen := fault.OfOutput(fault.Output{Command: m.Name, ExitCode: 1, Text: cmp.Or(m.Details, m.Summary)})
	if slices.Contains([]contract.Class{contract.ClassAssertion, contract.ClassConfig, contract.ClassInfra}, seen.Class) {
		out.Class, out.Code = seen.Class, seen.Code
	}
	said := firstOf(m.Summary, seen.Message)
	out.Message = fmt.Sprintf("check %s failed on the released commit: %s", m.Name, said)
	out.Cause = clipped(cmp.Or(seen.Cause, said), causeBytes)
	return out
}

// addressed matches the mention of the program at the beginning of a comment.
var addressed = regexp.MustCompile(`^@\S+\s*`)

// asked returns what a comment asks for, in short: its first line that quotes nothing, without the mention.
func asked(m contract.CheckMessage) string {
	for line := range strings.Lines(withoutSecrets(cmp.Or(m.Details, m.Summary))) {
		line = strings.Join(strings.Fields(line), " ")
		if line = addressed.ReplaceAllString(line, ""); line != "" && !strings.HasPrefix(line, ">") {
			return clipped(line, fault.MaxOutputMessage)
		}
	}
	return ""
}

// firstOf returns the first line of the first non-empty text, shortened.
func firstOf(texts ...string) string {
	for _, text := range texts {
		if line, _, _ := strings.Cut(strings.TrimSpace(text), "\n"); line != "" {
			return clipped(line, fault.MaxOutputMessage)
		}
	}
	return "no details given"
}

// evidenceOfCheck returns a message about a branch as text for a prompt.
func (a *Activities) evidenceOfCheck(ctx context.Context, id int64, start contract.Workspace) (string, error) {
	m, err := a.Store.BranchMessage(ctx, id)
	if err != nil {
		return "", err
	}
	if m.Kind == contract.CheckBase {
		return a.conflictEvidence(ctx, m, start)
	}
	what := "The check " + m.Name + " failed outside this run. It may cover behaviour that the tests available to you do not cover."
	if m.Kind == contract.CheckComment {
		what = "A reviewer of the branch wrote (" + m.Name + "):"
	}
	details := m.Details
	if cut := len(details) - evidenceBytes; cut > 0 { // the failure is at the end of a log
		details = fmt.Sprintf("(%d bytes omitted) … %s", cut, strings.ToValidUTF8(details[cut:], ""))
	}
	return strings.TrimSpace(what + "\n" + m.Summary + "\n" + details), nil
}
