package verify

import (
	"encoding/json"
	"math"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// jestReport is what jest and, alike, vitest write as JSON.
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

// parseJest reads the JSON of jest and vitest. A file that could not be loaded is
// a problem, no test: so both count it themselves.
func parseJest(data []byte, s site) (parsed, error) {
	var r jestReport
	if err := json.Unmarshal(data, &r); err != nil {
		return parsed{}, err
	}
	var out parsed
	for _, f := range r.TestResults {
		file, failed := s.rel(f.Name), false
		for _, c := range f.AssertionResults {
			if len(out.cases) >= 2*maxCases {
				break
			}
			made := c.testCase(file, s)
			failed = failed || made.Status == contract.TestFailed
			out.cases = append(out.cases, made)
		}
		if f.Status == "failed" && !failed {
			out.unexplained = true
			out.problems = append(out.problems, jestFileProblem(file, f.Message, s))
		}
	}
	return out, nil
}

// jestFileProblem says why a file failed of which no test did.
func jestFileProblem(file, text string, s site) problem {
	p := problem{level: levelError, path: file, rule: "test-file", message: "the test file failed outside of its tests"}
	for _, at := range places(text, s) {
		if at.path == file {
			p.line = at.line
		}
	}
	for line := range strings.Lines(clean(bound(text, 8*maxMessage))) {
		line = strings.TrimSpace(line)
		if nodeError.MatchString(line) || line != "" && !strings.HasPrefix(line, "●") && p.message == "the test file failed outside of its tests" {
			p.message = message("the test file failed outside of its tests: " + line)
		}
		if nodeError.MatchString(line) {
			break
		}
	}
	return p
}

func (c jestCase) testCase(file string, s site) testCase {
	out := testCase{file: file}
	out.Name = name(strings.Join(append(c.AncestorTitles[:min(len(c.AncestorTitles), 50):min(len(c.AncestorTitles), 50)], c.Title), " › "))
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
			text = bound(c.FailureMessages[0], 64<<10)
		}
		out.Message = message(withoutStack(text))
		out.Location = location(file, 0)
		if c.Location != nil {
			out.Location = location(file, c.Location.Line)
		}
		for _, at := range places(text, s) {
			if at.path == file {
				out.Location = at.location()
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
	for line := range strings.Lines(clean(text)) {
		if strings.HasPrefix(strings.TrimSpace(line), "at ") {
			break
		}
		kept = append(kept, strings.TrimRight(line, "\n"))
	}
	return strings.Join(kept, "\n")
}
