package report

import (
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// listedReasons is the maximum number of reasons of one verdict that a report lists.
const listedReasons = 20

// gate lists what the policy gate decided about the changes of the run.
func gate(b *strings.Builder, d views.RunDetails) {
	if len(d.Gate) == 0 {
		return
	}
	b.WriteString("## Policy gate\n\n| change | by | decision | reasons |\n| --- | --- | --- | --- |\n")
	for _, v := range d.Gate {
		what := string(v.Stage)
		if v.Step != "" {
			what += " " + v.Step
		}
		decision := strings.ReplaceAll(string(v.Decision), "_", " ")
		if v.ApprovedBy != "" {
			decision += ", approved by " + v.ApprovedBy
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", escape(what), escape(v.Author), escape(decision), reasons(v))
	}
	b.WriteByte('\n')
}

func reasons(v contract.GateRecord) string {
	var texts []string
	left := 0
	for _, r := range v.Reasons {
		switch {
		case r.Decision == contract.GateAllow:
		case len(texts) == listedReasons:
			left++
		default:
			texts = append(texts, escape(r.String()))
		}
	}
	if left > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", left))
	}
	return strings.Join(texts, "; ")
}
