package output

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// jestReport is the JSON report of jest; vitest uses the same format.
type jestReport struct {
	TestResults []jestFile `json:"testResults"`
}

type jestFile struct {
	Name             string     `json:"name"`
	Status           string     `json:"status"`
	Message          string     `json:"message"`
	AssertionResults []jestCase `json:"assertionResults"`
}

type jestCase struct {
	AncestorTitles  []string `json:"ancestorTitles"`
	Title           string   `json:"title"`
	Status          string   `json:"status"`
	Duration        float64  `json:"duration"`
	FailureMessages []string `json:"failureMessages"`
	Location        *struct {
		Line int `json:"line"`
	} `json:"location"`
}

// parseJest reads the JSON of jest and vitest. A file that could not be loaded is a problem, not a
// test: both runners count it that way.
func parseJest(data []byte, s Paths) (Results, error) {
	var r jestReport
	if err := json.Unmarshal(data, &r); err != nil {
		return Results{}, err
	}
	var out Results
	for _, f := range r.TestResults {
		file, failed := s.Rel(f.Name), false
		for _, c := range f.AssertionResults {
			if len(out.Cases) >= 2*MaxCases {
				break
			}
			made := c.testCase(file, s)
			failed = failed || made.Status == contract.TestFailed
			out.Cases = append(out.Cases, made)
		}
		if f.Status == "failed" && !failed {
			out.Unexplained = true
			out.Problems = append(out.Problems, jestFileProblem(file, f.Message, s))
		}
	}
	return out, nil
}

// jestFileProblem describes why a file failed although none of its tests did.
func jestFileProblem(file, text string, s Paths) Problem {
	p := Problem{Level: Error, Path: file, Rule: "test-file", Message: "the test file failed outside of its tests"}
	for _, at := range locations(text, s) {
		if at.Path == file {
			p.Line = at.Line
		}
	}
	for line := range strings.Lines(Clean(Bound(text, 8*MaxMessage))) {
		line = strings.TrimSpace(line)
		if nodeError.MatchString(line) || line != "" && !strings.HasPrefix(line, "●") && p.Message == "the test file failed outside of its tests" {
			p.Message = Message("the test file failed outside of its tests: " + line)
		}
		if nodeError.MatchString(line) {
			break
		}
	}
	return p
}

func (c jestCase) testCase(file string, s Paths) Case {
	out := Case{File: file}
	out.Name = Name(strings.Join(append(c.AncestorTitles[:min(len(c.AncestorTitles), 50):min(len(c.AncestorTitles), 50)], c.Title), " › "))
	if !math.IsNaN(c.Duration) {
		out.DurationMS = milliseconds(c.Duration / 1000)
	}
	switch c.Status {
	case "passed":
		out.Status = contract.TestPassed
	case "failed":
		out.Status = contract.TestFailed
		text := ""
		if len(c.FailureMessages) > 0 {
			text = Bound(c.FailureMessages[0], 64<<10)
		}
		out.Message = Message(withoutStack(text))
		out.Location = Location(file, 0)
		if c.Location != nil {
			out.Location = Location(file, c.Location.Line)
		}
		for _, at := range locations(text, s) {
			if at.Path == file {
				out.Location = at.Location()
				break
			}
		}
	default: // pending, skipped, todo, disabled
		out.Status = contract.TestSkipped
		if c.Status == "todo" {
			out.Message = "todo"
		}
	}
	return out
}

// withoutStack is an error's message without its frames.
func withoutStack(text string) string {
	var kept []string
	for line := range strings.Lines(Clean(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "at ") {
			break
		}
		kept = append(kept, strings.TrimRight(line, "\n"))
	}
	return strings.Join(kept, "\n")
}
