// Package review has the parts of a review of a change that call no model: the diff that a reviewer
// sees, the form of its response, and what counts of it.
//
// A response is hostile, because what it is about is: a diff may contain instructions for the
// reviewer. So it can only add findings, of the items of the rubric and of two severities, to those
// of the guards. It cannot take any away except its own.
package review

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// The limits of a review.
const (
	MaxFindings = 30  // of a review; the least serious ones are left out
	MaxText     = 600 // bytes of one text of a finding
	MaxSummary  = 1500
	// maxFile is the size of a file whose lines are counted.
	maxFile = 1 << 20
)

// Response is the form of a reviewer's response.
type Response struct {
	Summary  string    `json:"summary" jsonschema:"description=what the change does and how well it is done in at most five sentences"`
	Findings []Finding `json:"findings" jsonschema:"description=problems of the change; empty if there are none"`
	Earlier  []Earlier `json:"earlier" jsonschema:"description=what became of each finding of the earlier review; empty if none are listed"`
}

// Finding is a problem that a reviewer reports.
type Finding struct {
	Item     string `json:"item" jsonschema:"description=item of the rubric"`
	Severity string `json:"severity" jsonschema:"description=major or minor"`
	File     string `json:"file" jsonschema:"description=path of the file; empty for the change as a whole"`
	Line     int    `json:"line" jsonschema:"description=line of the new version; 0 for the file as a whole"`
	Problem  string `json:"problem" jsonschema:"description=what is wrong and how it shows"`
	Action   string `json:"action" jsonschema:"description=what to do about it"`
}

// Earlier is what became of a finding of the earlier review.
type Earlier struct {
	ID    string `json:"id" jsonschema:"description=of the finding such as R1"`
	State string `json:"state" jsonschema:"description=fixed or accepted or remains"`
	Why   string `json:"why" jsonschema:"description=how the change shows it"`
}

// Schema returns the schema of a response.
func Schema() model.Schema {
	return model.SchemaOf[Response]().Bounded("review", model.Bounds{
		"findings.[].item":     {"enum": contract.ReviewItems()},
		"findings.[].severity": {"enum": []contract.Severity{contract.SeverityMajor, contract.SeverityMinor}},
		"earlier.[].state":     {"enum": []string{contract.ReviewFixed, contract.ReviewAccepted, contract.ReviewRemains}},
	})
}

// Parse reads a response. The error is for the model: what is wrong with it.
func Parse(schema model.Schema, text string) (Response, error) {
	var r Response
	doc, err := model.CheckJSON(schema, text)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(doc, &r); err != nil {
		return r, fault.Wrap(err, contract.ClassLLM, contract.CodeInvalidOutput, "the reviewer's response is not a review")
	}
	return r, nil
}

// Before is what an earlier review found in a run.
type Before struct {
	// Findings are its major ones that still count.
	Findings []contract.ReviewFinding
	// Answers are what an agent answered, by the ids of findings.
	Answers map[string]string
	// Numbered is the highest number of an id so far.
	Numbered int
}

// Of returns what counts of a response about a change: the findings of the response, and those of the
// review before with what became of them. A finding whose file is neither in the change nor in its
// tree has no place; neither has one whose line the file does not have.
func Of(ctx context.Context, c change.Change, r Response, before Before) (out []contract.ReviewFinding, omitted int, err error) {
	places, err := placesOf(ctx, c)
	if err != nil {
		return nil, 0, err
	}
	if out, err = carried(ctx, places, r.Earlier, before); err != nil {
		return nil, 0, err
	}
	fresh := make([]contract.ReviewFinding, 0, len(r.Findings))
	for _, f := range r.Findings {
		one := contract.ReviewFinding{
			Item: contract.ReviewItem(f.Item), Severity: contract.Severity(f.Severity), What: Text(f.Problem, MaxText), Action: Text(f.Action, MaxText),
		}
		if one.What == "" || !slices.Contains(contract.ReviewItems(), one.Item) || !rated(one.Severity) {
			omitted++
			continue
		}
		if one.Path, one.Line, err = places.find(ctx, f.File, f.Line); err != nil {
			return nil, 0, err
		}
		if !slices.Contains(fresh, one) {
			fresh = append(fresh, one)
		}
	}
	slices.SortStableFunc(fresh, func(a, b contract.ReviewFinding) int {
		return slices.Index(contract.Severities(), a.Severity) - slices.Index(contract.Severities(), b.Severity)
	})
	if extra := len(fresh) - MaxFindings; extra > 0 {
		fresh, omitted = fresh[:MaxFindings], omitted+extra
	}
	for i := range fresh {
		fresh[i].ID = fmt.Sprint("R", before.Numbered+i+1)
	}
	return append(out, fresh...), omitted, nil
}

// rated reports whether a reviewer may give a severity.
func rated(s contract.Severity) bool {
	return s == contract.SeverityMajor || s == contract.SeverityMinor
}

// carried returns the findings of the earlier review with what became of them. A finding about which
// the reviewer says nothing remains, and so does one that it accepts although no agent has answered
// it.
func carried(ctx context.Context, p *places, said []Earlier, before Before) ([]contract.ReviewFinding, error) {
	var out []contract.ReviewFinding
	for _, f := range before.Findings {
		f.State, f.Answer = contract.ReviewRemains, before.Answers[f.ID]
		i := slices.IndexFunc(said, func(e Earlier) bool { return strings.TrimSpace(e.ID) == f.ID })
		if i >= 0 && (said[i].State == contract.ReviewFixed || said[i].State == contract.ReviewAccepted && f.Answer != "") {
			f.State = said[i].State
		}
		var err error
		if f.Path, f.Line, err = p.find(ctx, f.Path, f.Line); err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// Unreviewed returns the findings of an earlier review if the next one failed: all of them remain.
func Unreviewed(before Before) []contract.ReviewFinding {
	out := slices.Clone(before.Findings)
	for i := range out {
		out[i].State, out[i].Answer = contract.ReviewRemains, before.Answers[out[i].ID]
	}
	return out
}

// Highest returns the highest number of the ids of findings.
func Highest(all []contract.ReviewFinding) int {
	highest := 0
	for _, f := range all {
		n, _ := strconv.Atoi(strings.TrimPrefix(f.ID, "R"))
		highest = max(highest, n)
	}
	return highest
}

// places are the files that a finding may name.
type places struct {
	changed map[string]change.File
	tree    change.Tree
	paths   []string
	lines   map[string]int
}

func placesOf(ctx context.Context, c change.Change) (*places, error) {
	p := &places{changed: map[string]change.File{}, tree: c.Tree, lines: map[string]int{}}
	for _, f := range c.Files {
		for _, path := range f.Paths() {
			p.changed[path] = f
		}
	}
	var err error
	p.paths, err = c.Tree.Paths(ctx)
	return p, err
}

// find returns a place if it exists: the file without a line it does not have, or nothing.
func (p *places) find(ctx context.Context, file string, line int) (string, int, error) {
	file = strings.TrimPrefix(strings.TrimSpace(file), "./")
	_, changed := p.changed[file]
	_, inTree := slices.BinarySearch(p.paths, file)
	if file == "" || !changed && !inTree {
		return "", 0, nil
	}
	if line < 1 || !inTree {
		return file, 0, nil
	}
	n, known := p.lines[file]
	if !known {
		content, ok, err := p.tree.Read(ctx, file, maxFile)
		if err != nil {
			return "", 0, err
		}
		if ok && len(content) > 0 {
			n = strings.Count(strings.TrimSuffix(string(content), "\n"), "\n") + 1
		}
		p.lines[file] = n
	}
	if line > n {
		line = 0
	}
	return file, line, nil
}

// Text returns a text of a model in the form in which it is stored and shown: in one line, without
// secrets and without characters that hide or forge text, and of at most most bytes.
func Text(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			return ' '
		case r == unicode.ReplacementChar || !unicode.IsPrint(r):
			return -1
		}
		return r
	}, telemetry.Redact(strings.ToValidUTF8(s, "")))
	return fault.Clip(strings.TrimSpace(s), most)
}

// Findings returns what a review adds to the findings of the guards.
func Findings(r contract.ReviewRecord) []change.Finding {
	var out []change.Finding
	add := func(rule string, severity contract.Severity, message string) {
		out = append(out, change.Finding{Guard: contract.GuardReview, Rule: rule, Severity: severity, Message: message})
	}
	if r.Failed != "" {
		add(contract.RuleReviewUnavailable, contract.SeverityMajor,
			"the change was not reviewed: "+Text(r.Failed, MaxText)+"; review it yourself, or repeat the tests of the run when the model is available")
	}
	if n := len(r.Unshown); n > 0 {
		add(contract.RuleReviewUnexamined, contract.SeverityMedium,
			fmt.Sprintf("%d changed files were shown to the reviewer only in part or not at all (gate.review_diff), such as %s; review them, or split the change", n, change.Clean(r.Unshown[0])))
	}
	for _, f := range r.Open() {
		message := f.ID + ": " + f.What
		if f.Action != "" {
			message += " To do: " + f.Action
		}
		if f.State == contract.ReviewRemains {
			message += " The agent's answer: " + cmp.Or(f.Answer, "none") + "."
		}
		out = append(out, change.Finding{
			Guard: contract.GuardReview, Rule: string(f.Item), Path: f.Path, Line: f.Line, Severity: f.Severity, Message: message,
		})
	}
	return out
}

// Missing is the finding about a change that should have been reviewed and was not.
func Missing() change.Finding {
	return change.Finding{
		Guard: contract.GuardReview, Rule: contract.RuleReviewMissing, Severity: contract.SeverityMajor,
		Message: "the change was not reviewed by another model, which the configuration or a policy requires; review it yourself, or repeat the tests of the run",
	}
}
