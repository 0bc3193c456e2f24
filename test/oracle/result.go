package oracle

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/template"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store/views"
)

// Statuses of results, in addition to those of runs.
const (
	StatusNotPlayed = "not_played" // the tools cannot reproduce the commit, or its repository is missing
	StatusError     = "error"      // the product could not be called, or did not respond
)

// Result is the result of one commit.
type Result struct {
	Commit
	OK       bool     `json:"ok"`                 // there are no Problems
	Problems []string `json:"problems,omitempty"` // what is wrong, in words
	RunID    int64    `json:"run_id,omitempty"`
	Status   string   `json:"status"` // of the run, else not_played or error

	Failure *contract.Failure `json:"failure,omitempty"`
	// Seconds is the duration of the command, from the goal to the released branch, on a cold
	// stack. WarmSeconds is the duration of a second run of the same commit.
	Seconds            float64  `json:"seconds"`
	WarmSeconds        float64  `json:"warm_seconds,omitempty"`
	EnvironmentSeconds *float64 `json:"environment_seconds,omitempty"` // where the run tells
	Phases             []Phase  `json:"phases,omitempty"`

	Tests    contract.TestSummary `json:"tests"`
	Own      OwnTests             `json:"own_tests"`
	Findings []contract.Finding   `json:"findings,omitempty"` // those that are open
	Heals    []Heal               `json:"heals,omitempty"`
	Tokens   int64                `json:"tokens"`
	Commands int                  `json:"commands"` // commands of the checks that ran in the sandbox, counted by their outputs

	// Differs are the paths at which the released branch differs from the commit.
	Differs []string `json:"differs,omitempty"`
	Clone   string   `json:"clone,omitempty"`    // kept if there are problems
	DataDir string   `json:"data_dir,omitempty"` // kept if there are problems
	// Built is the first output of `rgpt env build`, in -base mode.
	Built *Built `json:"built,omitempty"`

	known  int                 // tests that failed on the base commit
	branch string              // that was released
	cases  []contract.TestCase // that ran
}

// Built is the output of `rgpt env build --json`.
type Built struct {
	RunID       int64                 `json:"runId"`
	Status      contract.Status       `json:"status"`
	Environment *views.RunEnvironment `json:"environment"`
	Baseline    *views.RunBaseline    `json:"baseline"`
	Failure     *contract.Failure     `json:"failure"`
}

// Phase is an attempt of a phase.
type Phase struct {
	Phase   contract.Phase `json:"phase"`
	Attempt int            `json:"attempt"`
	Status  string         `json:"status"`
	Seconds float64        `json:"seconds"`
}

// Heal is a heal of a run. A script causes no failures, so each heal indicates a problem of the
// product.
type Heal struct {
	Phase  contract.Phase      `json:"phase"`
	Class  contract.Class      `json:"class"`
	Code   contract.Code       `json:"code,omitempty"`
	Action contract.HealAction `json:"action"`
	Status contract.HealStatus `json:"status"`
	Cause  string              `json:"cause,omitempty"`
}

// wrong notes a problem.
func (r *Result) wrong(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// WriteLines writes each result as a line of JSON.
func WriteLines(w io.Writer, results ...Result) error {
	lines := json.NewEncoder(w)
	lines.SetEscapeHTML(false)
	for _, r := range results {
		if err := lines.Encode(r); err != nil {
			return fmt.Errorf("write the results: %w", err)
		}
	}
	return nil
}

// cell formats a text for a Markdown table: one line of limited length that does not end the cell
// or contain markup.
func cell(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'").Replace(text)
}

// Maximum widths of the table's texts, in characters.
const (
	subjectWidth = 60
	problemWidth = 300
)

var markdown = template.Must(template.New("results").Funcs(template.FuncMap{
	"subject": func(s string) string { return cell(s, subjectWidth) },
	"problem": func(r Result) string { return cell(strings.Join(r.Problems, "; "), problemWidth) },
	"warm": func(r Result) string {
		if r.WarmSeconds == 0 {
			return "–"
		}
		return fmt.Sprintf("%.1f", r.WarmSeconds)
	},
	"own": func(r Result) string {
		if r.Own.Unnamed {
			return "no names"
		}
		n := len(r.Own.Passed)
		return fmt.Sprintf("%d/%d", n, n+len(r.Own.Failed)+len(r.Own.Skipped)+len(r.Own.Missing))
	},
	"code": func(r Result) string {
		if r.Failure == nil {
			return ""
		}
		return string(r.Failure.Code)
	},
}).Parse(`| Repository | Commit | Subject | Ecosystem | Status | OK | Cold s | Warm s | Passed | Failed | Skipped | Own tests | Heals | Failure | What is wrong |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{{range .}}| {{subject .Repo}} | {{printf "%.12s" .ID}} | {{subject .Subject}} | {{.Ecosystem}} | {{.Status}} | {{if .OK}}yes{{else}}no{{end}} | {{printf "%.1f" .Seconds}} | {{warm .}} | {{.Tests.Passed}} | {{.Tests.Failed}} | {{.Tests.Skipped}} | {{own .}} | {{len .Heals}} | {{code .}} | {{problem .}} |
{{end}}`))

// WriteMarkdown writes results as a table, and the number of successful ones.
func WriteMarkdown(w io.Writer, results []Result) error {
	fine := 0
	for _, r := range results {
		if r.OK {
			fine++
		}
	}
	if err := markdown.Execute(w, results); err != nil {
		return fmt.Errorf("write the results table: %w", err)
	}
	_, err := fmt.Fprintf(w, "\n%d of %d commits are fine.\n", fine, len(results))
	return err
}

var markdownOfBases = template.Must(template.New("bases").Funcs(template.FuncMap{
	"subject": func(s string) string { return cell(s, subjectWidth) },
	"problem": func(r Result) string { return cell(strings.Join(r.Problems, "; "), problemWidth) },
	"size": func(r Result) string {
		if r.Built == nil || r.Built.Environment == nil {
			return "–"
		}
		return fmt.Sprintf("%.1f", float64(r.Built.Environment.Bytes)/(1<<20))
	},
}).Parse(`| Repository | Commit | Ecosystem | Cold s | Warm s | Size MiB | Passed | Failed | Skipped | Failure |
| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |
{{range .}}| {{subject .Repo}} | {{printf "%.12s" .ID}} | {{.Ecosystem}} | {{printf "%.1f" .Seconds}} | {{printf "%.1f" .WarmSeconds}} | {{size .}} | {{.Tests.Passed}} | {{.Tests.Failed}} | {{.Tests.Skipped}} | {{problem .}} |
{{end}}`))

// WriteBases writes the results of -base mode as a table.
func WriteBases(w io.Writer, results []Result) error {
	if err := markdownOfBases.Execute(w, results); err != nil {
		return fmt.Errorf("write the table of environments: %w", err)
	}
	return nil
}
