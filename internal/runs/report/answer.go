package report

import (
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Limits of the text of an answer.
const (
	answerText   = 2_000 // bytes of what was done, or why it was not
	answerChecks = 10    // checks that are named
)

// Answer is what the answer to a comment on a pull request is made of.
type Answer struct {
	RunID    int64
	Commit   string // released now
	Released bool   // for the comment
	Done     string // what was done
	NotDone  string // why the comment was not carried out; empty: it was
	Checks   []contract.CheckResult
	Link     string // address of the run's page; empty: none
}

// String returns the text of the answer. Texts of models and checks are escaped: they mention nobody,
// link to nothing and close no issues.
func (a Answer) String() string {
	var b strings.Builder
	switch {
	case a.NotDone != "":
		fmt.Fprintf(&b, "This was not carried out: %s\n", paragraph(fault.Clip(a.NotDone, answerText)))
	case a.Released:
		fmt.Fprintf(&b, "Carried out in %s.\n", code(short(a.Commit)))
	default:
		fmt.Fprintf(&b, "The released commit %s was not changed.\n", code(short(a.Commit)))
	}
	if a.Done != "" && a.NotDone == "" {
		fmt.Fprintf(&b, "\n%s\n", quote(fault.Clip(a.Done, answerText)))
	}
	if len(a.Checks) > 0 {
		b.WriteString("\nChecks of this commit:\n\n")
		for _, c := range a.Checks[:min(len(a.Checks), answerChecks)] {
			fmt.Fprintf(&b, "- %s: %s\n", code(c.Check.Name), escape(Outcome(c)))
		}
		more(&b, len(a.Checks)-answerChecks, "checks")
	}
	who := fmt.Sprintf("run %d", a.RunID)
	if a.Link != "" {
		who = fmt.Sprintf("[run %d](%s)", a.RunID, a.Link)
	}
	fmt.Fprintf(&b, "\nBy %s of RocketGPT.", who)
	return b.String()
}
