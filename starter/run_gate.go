package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// printGate prints what the policy gate decided about the changes of a run, with the reasons against
// them.
func printGate(w io.Writer, verdicts []contract.GateRecord) {
	for _, v := range verdicts {
		what := string(v.Stage)
		if v.Step != "" {
			what += " " + v.Step
		}
		fmt.Fprintf(w, "gate %d  %s by %s: %s", v.ID, terminal.Clean(what), terminal.Clean(v.Author), decided(v))
		if n := len(v.Findings); n > 0 {
			fmt.Fprintf(w, " (%d findings)", n)
		}
		fmt.Fprintln(w)
		for _, r := range v.Reasons {
			if r.Decision != contract.GateAllow {
				fmt.Fprintf(w, "  %s: %s\n", decisionWords[r.Decision], terminal.Clean(r.String()))
			}
		}
	}
}

// decisionWords are the decisions for people.
var decisionWords = map[contract.GateDecision]string{
	contract.GateAllow: "allowed", contract.GateNeedsApproval: "needs approval", contract.GateDeny: "denied",
}

func decided(v contract.GateRecord) string {
	words := cmp.Or(decisionWords[v.Decision], string(v.Decision))
	if v.ApprovedBy != "" {
		return words + ", approved by " + terminal.Clean(strings.TrimSpace(v.ApprovedBy))
	}
	return words
}
