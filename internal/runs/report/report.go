// Package report generates the report of a run: as Markdown for a release or a review, and as JSON
// for programs.
package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// JSON returns the whole run as one indented document.
func JSON(d views.RunDetails) ([]byte, error) {
	raw, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write run %d as JSON: %w", d.ID, err)
	}
	return append(raw, '\n'), nil
}

// Markdown returns the report of a run: request, changes, verification and cost. Texts from models
// and repositories are escaped so that they cannot become links, images or HTML.
func Markdown(d views.RunDetails, changes string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Run %d: %s\n\n", d.ID, escape(d.GoalTitle))
	if d.GoalDescription != "" {
		fmt.Fprintf(&b, "%s\n\n", quote(prompt.Shown(d.GoalDescription)))
	}
	summary(&b, d)
	plan(&b, d)
	tests(&b, d)
	findings(&b, d)
	gate(&b, d)
	reviews(&b, d)
	heals(&b, d)
	leftOut(&b, d)
	if changes != "" {
		fmt.Fprintf(&b, "## Changes\n\n%s\n\n", fenced(changes))
	}
	costs(&b, d)
	return b.String()
}

// listedFiles is the maximum number of files that were not stored that a report lists.
const listedFiles = 100

// leftOut lists the files that were not stored.
func leftOut(b *strings.Builder, d views.RunDetails) {
	n := 0
	for _, f := range d.Artifacts {
		if f.LeftOut == "" {
			continue
		}
		if n++; n == 1 {
			b.WriteString("## Files that were not stored\n\n| file | bytes | why |\n| --- | --- | --- |\n")
		}
		if n <= listedFiles {
			fmt.Fprintf(b, "| %s | %d | %s |\n", code(f.Name), f.Size, escape(f.LeftOut))
		}
	}
	if n > listedFiles {
		fmt.Fprintf(b, "\n%d more are not listed here.\n", n-listedFiles)
	}
	if n > 0 {
		b.WriteByte('\n')
	}
}

func summary(b *strings.Builder, d views.RunDetails) {
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(b, "| %s | %s |\n", name, value)
		}
	}
	b.WriteString("| | |\n| --- | --- |\n")
	row("status", string(d.Status))
	if i := d.Settings.Issue; i != nil {
		row("issue", code(strings.TrimSpace(i.String()+" "+i.URL)))
	}
	row("repository", code(d.Repo))
	row("base", code(strings.TrimSpace(d.BaseBranch+" "+short(d.BaseCommit))))
	row("branch", code(strings.TrimSpace(d.ReleaseBranch+" "+short(d.ReleaseCommit))))
	if d.StayingUntil != nil {
		row("watching its branch", "until "+d.StayingUntil.UTC().Format(time.RFC3339))
	}
	row("started", d.CreatedAt.UTC().Format(time.RFC3339))
	if f := d.Failure; f != nil {
		row("failure", escape(fmt.Sprintf("%s (%s): %s", f.Class, f.Code, f.Message)))
	}
	b.WriteByte('\n')
}

func plan(b *strings.Builder, d views.RunDetails) {
	var out struct {
		Plan contract.Plan `json:"plan"`
	}
	if json.Unmarshal(d.PlannerOutput, &out) != nil || len(out.Plan.Steps) == 0 {
		return
	}
	status := map[string]string{}
	for _, e := range d.Executions {
		if e.Step != "" {
			status[e.Step] = fmt.Sprintf("%s, %d turns", e.Status, e.Turns)
		}
	}
	fmt.Fprintf(b, "## Plan\n\n%s\n\n| step | description | depends on | state |\n| --- | --- | --- | --- |\n", paragraph(out.Plan.Summary))
	for _, s := range out.Plan.Steps {
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", code(s.ID), escape(s.Name), escape(strings.Join(s.Dependencies, ", ")), status[s.ID])
	}
	b.WriteByte('\n')
}

// listedCases is the maximum number of unsuccessful test cases that a report lists.
const listedCases = 50

func tests(b *strings.Builder, d views.RunDetails) {
	var out struct {
		contract.TestResult
		Warning string `json:"warning"`
	}
	if json.Unmarshal(d.TesterOutput, &out) != nil {
		return
	}
	s := out.Summary
	quarantined := ""
	switch s.Quarantined {
	case 0:
	case 1:
		quarantined = ", 1 quarantined failure"
	default:
		quarantined = fmt.Sprintf(", %d quarantined failures", s.Quarantined)
	}
	fmt.Fprintf(b, "## Tests\n\n%d passed, %d failed, %d skipped, %d flaky%s, in %s.\n\n", s.Passed, s.Failed, s.Skipped, s.Flaky, quarantined,
		(time.Duration(s.DurationMS) * time.Millisecond).Round(time.Millisecond))
	if out.Warning != "" {
		fmt.Fprintf(b, "Warning: %s\n\n", escape(out.Warning))
	}
	coverage(b, out.Coverage)
	n := 0
	for _, c := range out.Results {
		if c.Status == contract.TestPassed {
			continue
		}
		if n++; n > listedCases {
			continue
		}
		fmt.Fprintf(b, "- %s: %s %s\n", escape(string(c.Status)), code(c.Name), escape(fault.FirstLine(c.Message)))
	}
	if n > listedCases {
		fmt.Fprintf(b, "- and %d more\n", n-listedCases)
	}
	if n > 0 {
		b.WriteByte('\n')
	}
}

// listedUncovered is the maximum number of files whose uncovered lines a report lists.
const listedUncovered = 20

// coverage describes which of the changed lines the tests executed.
func coverage(b *strings.Builder, c *contract.Coverage) {
	if c == nil {
		return
	}
	fmt.Fprintf(b, "%s.\n\n", escape(c.Summary()))
	if c.Note != "" {
		fmt.Fprintf(b, "%s.\n\n", paragraph(fault.FirstLine(c.Note)))
	}
	missed := c.Missed()
	for _, f := range missed[:min(len(missed), listedUncovered)] {
		fmt.Fprintf(b, "- not covered: %s %s\n", code(f.Path), escape(f.MissedText()))
	}
	if more := len(missed) - listedUncovered; more > 0 {
		fmt.Fprintf(b, "- and %d more files\n", more)
	}
	if len(missed) > 0 {
		b.WriteByte('\n')
	}
}

func findings(b *strings.Builder, d views.RunDetails) {
	if len(d.Findings) == 0 {
		return
	}
	b.WriteString("## Findings\n\n| severity | category | location | finding |\n| --- | --- | --- | --- |\n")
	for _, f := range d.Findings {
		message := escape(fault.FirstLine(f.Message))
		if f.Resolved {
			message = "resolved: " + message
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s |\n", escape(string(f.Severity)), escape(string(f.Category)), code(f.Location), message)
	}
	b.WriteByte('\n')
}

// heals describes the heals of a run, and the questions to people.
func heals(b *strings.Builder, d views.RunDetails) {
	if len(d.SelfHealEvents) > 0 {
		b.WriteString("## Self-heal\n\n| | phase | failure | root cause | action | result |\n| --- | --- | --- | --- | --- | --- |\n")
		for _, h := range d.SelfHealEvents {
			out := h.Output()
			what := cmp.Or(out.Result, out.Message)
			fmt.Fprintf(b, "| %d | %s | %s | %s | %s | %s: %s |\n", h.Number, escape(strings.TrimSpace(string(h.Phase)+" "+h.Step)), h.ErrorType,
				escape(fault.FirstLine(h.RootCause)), code(string(h.HealAction)), h.Status, escape(fault.FirstLine(what)))
		}
		b.WriteByte('\n')
	}
	if len(d.Interventions) == 0 {
		return
	}
	b.WriteString("## Questions for people\n\n| | question | status | answer |\n| --- | --- | --- | --- |\n")
	for _, i := range d.Interventions {
		fmt.Fprintf(b, "| %d | %s | %s | %s |\n", i.Number, escape(fault.FirstLine(i.Reason)), i.Status, escape(strings.TrimSpace(i.ResolvedBy+" "+i.Answer+" "+fault.FirstLine(i.Words))))
	}
	b.WriteByte('\n')
}

func costs(b *strings.Builder, d views.RunDetails) {
	if len(d.ModelUsage) == 0 {
		return
	}
	b.WriteString("## Cost\n\n| agent | model | calls | prompt tokens | response tokens | US dollars |\n| --- | --- | ---: | ---: | ---: | ---: |\n")
	for _, u := range d.ModelUsage {
		fmt.Fprintf(b, "| %s | %s | %d | %d | %d | %s |\n", u.Agent, code(u.Provider+"/"+u.Model), u.Calls, u.PromptTokens, u.CompletionTokens, Cost(u.Usage))
	}
	u := d.Usage
	fmt.Fprintf(b, "| all | | %d | %d | %d | %s |\n", u.Calls, u.PromptTokens, u.CompletionTokens, Cost(u))
	if u.CachedTokens+u.CacheWriteTokens > 0 {
		fmt.Fprintf(b, "\nOf the prompt tokens, %d were read from the providers' caches, and %d were written to them.\n", u.CachedTokens, u.CacheWriteTokens)
	}
	if u.FromCache > 0 {
		fmt.Fprintf(b, "\nOf the calls, %d cost nothing: their requests were identical to those of earlier runs, whose responses were used again.\n", u.FromCache)
	}
	if u.EstimatedPrice {
		b.WriteString("\nThe price of a model is unknown; its costs are estimated with the highest known prices of its kind of provider.\n")
	}
	if u.ReasoningTokens > 0 {
		fmt.Fprintf(b, "\nOf the response tokens, %d were reasoning.\n", u.ReasoningTokens)
	}
}

// Dollars formats millionths of a US dollar as dollars.
func Dollars(micros int64) string { return fmt.Sprintf("%.4f", float64(micros)/1e6) }

// Cost formats the cost of a usage as US dollars, and says if it is estimated.
func Cost(u contract.Usage) string {
	return contract.MarkEstimated(Dollars(u.MicroUSD), u.EstimatedPrice)
}

func short(commit string) string { return commit[:min(len(commit), 12)] }

// escaper escapes the characters that Markdown or HTML would interpret.
var escaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "|", `\|`, "#", `\#`, "!", `\!`, "~", `\~`, "$", `\$`,
)

// linked matches text that viewers turn into links automatically: addresses, e-mail
// addresses, mentions of people and teams, numbers of issues and merge requests, keys of other trackers.
var linked = regexp.MustCompile(`(?i)://|www\.|@|[#!]\d|\bgh-\d|(mailto|xmpp|javascript|data):|(?-i:\b[A-Z][A-Z0-9_]+-\d)`)

// escape returns untrusted text on one line. Text that viewers would turn into links becomes inline
// code, which is readable and can be copied.
func escape(s string) string {
	words := strings.Split(visible(s), " ")
	for i, w := range words {
		if linked.MatchString(w) {
			words[i] = code(w)
		} else {
			words[i] = escaper.Replace(w)
		}
	}
	return strings.Join(words, " ")
}

// visible removes invisible characters that control a terminal or change the direction of text, then
// secrets, which nothing hides any longer and no escapes divide yet. Line separators become spaces.
func visible(s string) string {
	return telemetry.Redact(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case r == '\u200d':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Cf, r):
			return -1
		}
		return r
	}, s))
}

// code formats a text as inline code for a table cell.
func code(s string) string {
	s = strings.NewReplacer("`", "'", "|", `\|`).Replace(visible(s))
	if strings.TrimSpace(s) == "" {
		return ""
	}
	return "`" + s + "`"
}

// blocks matches the characters that would start a heading, a list or a rule at the beginning of a
// line, or one of GitLab's commands, such as /merge.
var blocks = regexp.MustCompile(`^([-+=/]|\d+[.)])`)

func quote(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight("> "+paragraph(l), " ")
	}
	return strings.Join(lines, "\n")
}

// paragraph formats untrusted text as a separate line.
func paragraph(s string) string {
	s = strings.TrimSpace(escape(s))
	if at := blocks.FindStringSubmatchIndex(s); at != nil {
		s = s[:at[3]-1] + `\` + s[at[3]-1:] // before the last character of the marker
	}
	return s
}

// fenced formats a text as a code block that the text itself cannot close.
func fenced(s string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.Map(func(r rune) rune {
			if r != '\t' && (unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)) {
				return -1
			}
			return r
		}, l)
	}
	s = strings.Join(lines, "\n")
	fence := "```"
	for strings.Contains(s, fence) {
		fence += "`"
	}
	return fence + "\n" + s + "\n" + fence
}
