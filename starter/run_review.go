package main

import (
	"fmt"
	"io"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/terminal"
)

// printReviews prints what models found in the change of a run before its release.
func printReviews(w io.Writer, reviews []contract.ReviewRecord) {
	for _, r := range reviews {
		model := r.Model
		if r.SameModel {
			model += " (the author's model; no other one was available)"
		}
		fmt.Fprintf(w, "review %d  by %s: ", r.Round, terminal.Clean(model))
		if r.Failed != "" {
			fmt.Fprintf(w, "failed: %s\n", terminal.Clean(r.Failed))
		} else {
			fmt.Fprintf(w, "%d major, %d minor\n", r.Count(contract.SeverityMajor), r.Count(contract.SeverityMinor))
		}
		if n := len(r.Unshown); n > 0 {
			fmt.Fprintf(w, "  %d files were shown only in part or not at all\n", n)
		}
		for _, f := range r.Findings {
			fmt.Fprintf(w, "  %s %s %s: %s\n", f.ID, f.Severity, f.Item, terminal.Clean(f.String()))
			if f.State != "" {
				fmt.Fprintf(w, "    %s; answer: %s\n", f.State, terminal.Clean(answered(f)))
			}
		}
	}
}

func answered(f contract.ReviewFinding) string {
	if f.Answer == "" {
		return "none"
	}
	return f.Answer
}
