package report

import (
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// reviews lists what models found in the run's change before its release.
func reviews(b *strings.Builder, d views.RunDetails) {
	if len(d.Reviews) == 0 {
		return
	}
	b.WriteString("## Reviews\n\n")
	for _, r := range d.Reviews {
		fmt.Fprintf(b, "Review %d by %s: %s\n\n", r.Round, escape(reviewer(r)), escape(reviewResult(r)))
		if len(r.Unshown) > 0 {
			fmt.Fprintf(b, "The reviewer saw these files only in part or not at all: %s\n\n", escape(listed(r.Unshown)))
		}
		if len(r.Findings) == 0 {
			continue
		}
		b.WriteString("| finding | severity | item | what | answer | state |\n| --- | --- | --- | --- | --- | --- |\n")
		for _, f := range r.Findings {
			state := f.State
			if state == "" {
				state = "new"
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", f.ID, f.Severity, f.Item, escape(f.String()), escape(f.Answer), state)
		}
		if r.Omitted > 0 {
			fmt.Fprintf(b, "\n%d further findings were left out.\n", r.Omitted)
		}
		b.WriteByte('\n')
	}
}

// reviewer names the model of a review.
func reviewer(r contract.ReviewRecord) string {
	if r.SameModel {
		return r.Model + " (which also made the change; no other model was available)"
	}
	return r.Model
}

func reviewResult(r contract.ReviewRecord) string {
	if r.Failed != "" {
		return "the change was not reviewed: " + r.Failed
	}
	return fmt.Sprintf("%d major and %d minor findings count. %s", r.Count(contract.SeverityMajor), r.Count(contract.SeverityMinor), r.Summary)
}

// listed lists the first paths.
func listed(paths []string) string {
	const most = 10
	text := strings.Join(paths[:min(len(paths), most)], ", ")
	if extra := len(paths) - most; extra > 0 {
		text += fmt.Sprintf(" and %d more", extra)
	}
	return text
}
