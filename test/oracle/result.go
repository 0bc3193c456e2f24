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

// Statuses of results besides those of runs.
const (
	StatusNotPlayed = "not_played" // the tools cannot make the commit, or its repository is missing
	StatusError     = "error"      // the product could not be asked, or did not answer
)

// Result is what came of one commit.
type Result struct {
	Commit
	OK       bool     `json:"ok"`                 // nothing is wrong: Problems is empty
	Problems []string `json:"problems,omitempty"` // what is wrong, in words
	RunID    int64    `json:"run_id,omitempty"`
	Status   string   `json:"status"` // of the run, else not_played or error

	Failure *contract.Failure `json:"failure,omitempty"`
	// Seconds is how long the command took, from the wish to the released branch,
	// with what this stack had never seen before; WarmSeconds is the same commit
	// once more.
	Seconds            float64  `json:"seconds"`
	WarmSeconds        float64  `json:"warm_seconds,omitempty"`
	EnvironmentSeconds *float64 `json:"environment_seconds,omitempty"` // where the run tells
	Phases             []Phase  `json:"phases,omitempty"`

	Tests    contract.TestSummary `json:"tests"`
	Own      OwnTests             `json:"own_tests"`
	Findings []contract.Finding   `json:"findings,omitempty"` // those that are open
	Heals    []Heal               `json:"heals,omitempty"`
	Tokens   int64                `json:"tokens"`
	Commands int                  `json:"commands"` // that ran in the sandbox for the checks; their outputs are counted

	// Differs are the paths at which the released branch is not the commit.
	Differs []string `json:"differs,omitempty"`
	Clone   string   `json:"clone,omitempty"`    // kept where something is wrong
	DataDir string   `json:"data_dir,omitempty"` // kept where something is wrong
	// Built is what `rgpt env build` printed the first time, in the mode -base.
	Built *Built `json:"built,omitempty"`

	known  int                 // tests that failed on the base commit
	branch string              // that was released
	cases  []contract.TestCase // that ran
}

// Built is what `rgpt env build --json` prints.
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

// Heal is what a run did about a failure of its own. A script has none to answer
// for, so each tells of something wrong.
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

// cell is a text in a table of Markdown: one line of bounded length that ends no
// cell and begins no markup.
func cell(text string, most int) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "\uFFFD")), " ")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "…"
	}
	return strings.NewReplacer("|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'").Replace(text)
}

// Widths of the table's texts, in letters.
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

// WriteMarkdown writes results as a table, and how many of them are fine.
func WriteMarkdown(w io.Writer, results []Result) error {
	fine := 0
	for _, r := range results {
		if r.OK {
			fine++
		}
	}
	if err := markdown.Execute(w, results); err != nil {
		return fmt.Errorf("write the table of results: %w", err)
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

// WriteBases writes results of the mode -base as a table.
func WriteBases(w io.Writer, results []Result) error {
	if err := markdownOfBases.Execute(w, results); err != nil {
		return fmt.Errorf("write the table of environments: %w", err)
	}
	return nil
}
