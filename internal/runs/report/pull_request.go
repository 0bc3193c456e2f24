package report

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/runs/issue"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// Limits of the text of a pull request.
const (
	// MaxPullRequestTitle is the number of bytes of a title. GitHub and GitLab accept 255 characters.
	MaxPullRequestTitle = 200
	// MaxPullRequestBody is the number of bytes of a body. GitHub accepts 65,536 characters.
	MaxPullRequestBody = 60_000
	// listedRows is the number of rows of a table.
	listedRows = 30
	// shownGoal is the number of bytes of the goal's description.
	shownGoal = 8_000
)

// PullRequest is what the text of a pull request is made of.
type PullRequest struct {
	Run    views.RunDetails
	Stat   string                 // of the change, such as "3 files changed"
	Checks []contract.CheckResult // the last ones of the change
	Link   string                 // address of the run's page; empty: none
	Closes string                 // issue that merging closes, such as #12; empty: none
	// Carried are commits of others that are merged too; nil: none.
	Carried *change.Carried
}

// Title returns the title of the pull request: that of the goal, on one line.
func (p PullRequest) Title() string {
	title := strings.TrimSpace(visible(p.Run.GoalTitle))
	if len(title) <= MaxPullRequestTitle {
		return title
	}
	cut := MaxPullRequestTitle - len("…")
	for !utf8.RuneStart(title[cut]) {
		cut--
	}
	return strings.TrimSpace(title[:cut]) + "…"
}

// Body returns the report of the run as the body of a pull request. All texts of models, repositories
// and goals are escaped: they mention nobody, link to nothing and close no issues. It has at most
// MaxPullRequestBody bytes; what does not fit is left out at the end of a line, with a note.
func (p PullRequest) Body() string {
	var b strings.Builder
	description := p.Run.GoalDescription
	if i := p.Run.Settings.Issue; i != nil { // readers find its text there
		description = issue.Without(*i, description)
		p.issue(&b, *i)
	}
	if description != "" {
		fmt.Fprintf(&b, "%s\n\n", quote(fault.Clip(description, shownGoal)))
	}
	p.carried(&b)
	p.changes(&b)
	p.checks(&b)
	p.notDone(&b)
	p.findings(&b)
	p.review(&b)
	p.gate(&b)
	return p.cut(b.String()) + p.footer()
}

// issue names the issue that the run is about. Only here, and only by data of the program, does the
// text close one.
func (p PullRequest) issue(b *strings.Builder, i contract.Issue) {
	if p.Closes != "" {
		fmt.Fprintf(b, "Closes %s.\n\n", p.Closes)
		return
	}
	fmt.Fprintf(b, "For the issue %s.\n\n", code(i.URL))
}

// cut shortens a text so that the footer fits.
func (p PullRequest) cut(text string) string {
	const note = "\nThe rest was left out because of its length; it is in the report of the run.\n\n"
	most := MaxPullRequestBody - len(p.footer())
	if len(text) <= most {
		return text
	}
	text = text[:most-len(note)]
	return text[:strings.LastIndexByte(text, '\n')+1] + note
}

func (p PullRequest) footer() string {
	u := p.Run.Usage
	who := fmt.Sprintf("run %d", p.Run.ID)
	if p.Link != "" {
		who = fmt.Sprintf("[run %d](%s)", p.Run.ID, p.Link)
	}
	return fmt.Sprintf("---\n\nMade by %s of RocketGPT in %d model calls, for %s US dollars.\n", who, u.Calls, Cost(u))
}

// carried names the commits that are merged although the run did not make them.
func (p PullRequest) carried(b *strings.Builder) {
	c := p.Carried
	if c == nil || c.Total == 0 {
		return
	}
	from := "the branch from which the run began"
	if c.From != "" {
		from = code(c.From)
	}
	fmt.Fprintf(b, "## Commits of others\n\nMerging this into %s also merges %d commits of %s that it does not have. The run did not make them, and nothing has judged them.\n\n", code(c.Into), c.Total, from)
	for _, one := range c.Commits[:min(len(c.Commits), listedRows)] {
		fmt.Fprintf(b, "- %s %s\n", code(one.ID[:min(len(one.ID), shortID)]), escape(fault.FirstLine(one.Subject)))
	}
	more(b, c.Total-min(len(c.Commits), listedRows), "commits")
	b.WriteByte('\n')
}

// shortID is the number of characters of a commit's id that a text shows.
const shortID = 12

// changes says what changed and why: the plan's summary, and its steps.
func (p PullRequest) changes(b *strings.Builder) {
	b.WriteString("## What changed\n\n")
	if p.Stat != "" {
		fmt.Fprintf(b, "%s.\n\n", escape(p.Stat))
	}
	var out struct {
		Plan contract.Plan `json:"plan"`
	}
	if json.Unmarshal(p.Run.PlannerOutput, &out) != nil || len(out.Plan.Steps) == 0 {
		return
	}
	if out.Plan.Summary != "" {
		fmt.Fprintf(b, "%s\n\n", paragraph(out.Plan.Summary))
	}
	for _, s := range out.Plan.Steps[:min(len(out.Plan.Steps), listedRows)] {
		fmt.Fprintf(b, "1. %s\n", paragraph(s.Name))
	}
	more(b, len(out.Plan.Steps)-listedRows, "steps")
	b.WriteByte('\n')
}

// more says how many entries are not listed, if any.
func more(b *strings.Builder, n int, what string) {
	if n > 0 {
		fmt.Fprintf(b, "\n%d more %s are not listed.\n", n, what)
	}
}

// checks compares the checks of the change with those of the base commit.
func (p PullRequest) checks(b *strings.Builder) {
	if len(p.Checks) == 0 {
		return
	}
	b.WriteString("## Checks\n\n| check | base | change | tests |\n| --- | --- | --- | --- |\n")
	for _, c := range p.Checks[:min(len(p.Checks), listedRows)] {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", code(c.Check.Name), p.onBase(c.Check.Name), escape(Outcome(c)), testsOf(c.Summary))
	}
	more(b, len(p.Checks)-listedRows, "checks")
	b.WriteByte('\n')
}

// onBase returns the result of a check on the base commit, "" if it is not known.
func (p PullRequest) onBase(name string) string {
	base := p.Run.Baseline
	switch {
	case base == nil || base.State != views.PreparationReady:
		return ""
	case slices.Contains(base.Red, name):
		return "failed"
	case slices.ContainsFunc(base.Unavailable, func(u string) bool { return strings.HasPrefix(u, name+":") }):
		return "did not run"
	}
	return "passed"
}

// Outcome describes the result of a check in a few words.
func Outcome(c contract.CheckResult) string {
	switch {
	case c.Skipped:
		return "skipped: " + fault.FirstLine(c.Message)
	case c.KnownOnly:
		return "fails as on the base"
	case c.OK:
		return "passed"
	}
	return "failed: " + fault.FirstLine(c.Message)
}

func testsOf(s contract.TestSummary) string {
	if s.Ran()+s.Skipped == 0 {
		return ""
	}
	text := fmt.Sprintf("%d passed", s.Passed)
	for _, n := range []struct {
		of   int
		what string
	}{{s.Failed, "failed"}, {s.Skipped, "skipped"}, {s.Flaky, "flaky"}, {s.Quarantined, "quarantined"}} {
		if n.of > 0 {
			text += fmt.Sprintf(", %d %s", n.of, n.what)
		}
	}
	return text
}

// notDone lists what the run left open: checks that could not run, and major findings.
func (p PullRequest) notDone(b *strings.Builder) {
	var items []string
	for _, c := range p.Checks {
		if c.Skipped {
			items = append(items, fmt.Sprintf("The check %s could not run: %s", code(c.Check.Name), escape(fault.FirstLine(c.Message))))
		}
	}
	for _, f := range p.lastReview().Open() {
		if f.Severity == contract.SeverityMajor {
			items = append(items, "The reviewer's finding "+escape(f.ID)+" remains: "+escape(f.String()))
		}
	}
	for _, f := range p.Run.Findings {
		if !f.Resolved && f.Severity == contract.SeverityMajor {
			items = append(items, fmt.Sprintf("A major finding remains: %s %s", code(f.Location), escape(fault.FirstLine(f.Message))))
		}
	}
	if len(items) == 0 {
		return
	}
	b.WriteString("## Not done\n\n")
	for _, item := range items[:min(len(items), listedRows)] {
		fmt.Fprintf(b, "- %s\n", item)
	}
	more(b, len(items)-listedRows, "items")
	b.WriteByte('\n')
}

// findings lists the findings of the checks that are still open.
func (p PullRequest) findings(b *strings.Builder) {
	open := slices.DeleteFunc(slices.Clone(p.Run.Findings), func(f store.Finding) bool { return f.Resolved })
	if len(open) == 0 {
		return
	}
	b.WriteString("## Findings of the checks\n\n| severity | category | location | finding |\n| --- | --- | --- | --- |\n")
	for _, f := range open[:min(len(open), listedRows)] {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", escape(string(f.Severity)), escape(string(f.Category)), code(f.Location), escape(fault.FirstLine(f.Message)))
	}
	more(b, len(open)-listedRows, "findings")
	b.WriteByte('\n')
}

// lastReview returns the last review of the change; empty if there is none.
func (p PullRequest) lastReview() contract.ReviewRecord {
	if n := len(p.Run.Reviews); n > 0 {
		return p.Run.Reviews[n-1]
	}
	return contract.ReviewRecord{}
}

// review summarizes the last review of the change by a model.
func (p PullRequest) review(b *strings.Builder) {
	r := p.lastReview()
	if r.Round == 0 {
		return
	}
	fmt.Fprintf(b, "## Review\n\nBy %s: %s\n\n", escape(reviewer(r)), escape(reviewResult(r)))
	if len(r.Unshown) > 0 {
		fmt.Fprintf(b, "It saw these files only in part or not at all: %s\n\n", escape(listed(r.Unshown)))
	}
	open := r.Open()
	for _, f := range open[:min(len(open), listedRows)] {
		fmt.Fprintf(b, "- %s: %s", escape(string(f.Severity)), escape(f.String()))
		if f.Answer != "" {
			fmt.Fprintf(b, " Answer: %s", escape(f.Answer))
		}
		b.WriteByte('\n')
	}
	more(b, len(open)-listedRows, "findings")
	if len(open) > 0 {
		b.WriteByte('\n')
	}
}

// gate says what the policy gate decided about the release.
func (p PullRequest) gate(b *strings.Builder) {
	v, ok := ReleaseVerdict(p.Run)
	if !ok {
		return
	}
	fmt.Fprintf(b, "## Policy gate\n\n%s.", DecisionText(v.Decision))
	if v.ApprovedBy != "" {
		fmt.Fprintf(b, " Approved by %s.", escape(v.ApprovedBy))
	}
	b.WriteString("\n\n")
	n := 0
	for _, r := range v.Reasons {
		if r.Decision == contract.GateAllow {
			continue
		}
		if n++; n <= listedReasons {
			fmt.Fprintf(b, "- %s\n", escape(r.String()))
		}
	}
	more(b, n-listedReasons, "reasons")
	if n > 0 {
		b.WriteByte('\n')
	}
}

// Risk returns the highest risk level of the plan's steps, "" without a plan.
func (p PullRequest) Risk() contract.Level {
	var out struct {
		Plan contract.Plan `json:"plan"`
	}
	if json.Unmarshal(p.Run.PlannerOutput, &out) != nil {
		return ""
	}
	for _, level := range []contract.Level{contract.LevelHigh, contract.LevelMedium, contract.LevelLow} {
		if slices.ContainsFunc(out.Plan.Steps, func(s contract.Step) bool { return s.RiskLevel == level }) {
			return level
		}
	}
	return ""
}

// LineComments returns the open findings of the last review that concern a line, at most most.
func (p PullRequest) LineComments(most int) []forge.LineComment {
	var out []forge.LineComment
	for _, f := range p.lastReview().Open() {
		if f.Path == "" || f.Line <= 0 || len(out) == most {
			continue
		}
		body := fmt.Sprintf("**%s** %s", escape(string(f.Severity)), escape(f.What))
		if f.Action != "" {
			body += "\n\n" + paragraph(f.Action)
		}
		if f.Answer != "" {
			body += "\n\nAnswer of the author: " + escape(f.Answer)
		}
		out = append(out, forge.LineComment{Path: f.Path, Line: f.Line, Body: telemetry.Redact(body)})
	}
	return out
}

// DecisionText returns a decision of the policy gate in words.
func DecisionText(d contract.GateDecision) string {
	switch d {
	case contract.GateAllow:
		return "Allowed"
	case contract.GateNeedsApproval:
		return "Needs an approval"
	default:
		return "Denied"
	}
}

// ReleaseVerdict returns the gate's last verdict about the release of a run; false if there is none.
func ReleaseVerdict(d views.RunDetails) (contract.GateRecord, bool) {
	for _, v := range slices.Backward(d.Gate) {
		if v.Stage == contract.GateRelease {
			return v, true
		}
	}
	return contract.GateRecord{}, false
}
