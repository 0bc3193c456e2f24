package output

import (
	"encoding/json"
	"errors"
	"path"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// pwReport contains the parts of Playwright's JSON report that are used.
type pwReport struct {
	Config struct {
		RootDir string `json:"rootDir"`
	} `json:"config"`
	Suites []pwSuite `json:"suites"`
	Errors []pwError `json:"errors"`
	Stats  *struct{} `json:"stats"`
}

type pwSuite struct {
	Title  string    `json:"title"`
	File   string    `json:"file"`
	Specs  []pwSpec  `json:"specs"`
	Suites []pwSuite `json:"suites"`
}

type pwSpec struct {
	Title string   `json:"title"`
	File  string   `json:"file"`
	Line  int      `json:"line"`
	Tests []pwTest `json:"tests"`
}

type pwTest struct {
	ProjectName string     `json:"projectName"`
	Status      string     `json:"status"`
	Results     []pwResult `json:"results"`
	Annotations []struct {
		Type string `json:"type"`
	} `json:"annotations"`
}

type pwResult struct {
	Status      string    `json:"status"`
	Duration    float64   `json:"duration"`
	Errors      []pwError `json:"errors"`
	Error       *pwError  `json:"error"`
	Attachments []struct {
		ContentType string `json:"contentType"`
		Path        string `json:"path"`
	} `json:"attachments"`
}

type pwError struct {
	Message  string `json:"message"`
	Stack    string `json:"stack"`
	Location *struct {
		File string `json:"file"`
		Line int    `json:"line"`
	} `json:"location"`
}

// parsePlaywright reads a report of Playwright.
func parsePlaywright(data []byte, s Paths) (Results, error) {
	var report pwReport
	if err := json.Unmarshal(data, &report); err != nil {
		return Results{}, err
	}
	if report.Suites == nil && report.Errors == nil && report.Stats == nil {
		return Results{}, errors.New("it is not a Playwright report")
	}
	var out Results
	for _, suite := range report.Suites {
		pwWalk(&out, suite, suite.File, nil, report.Config.RootDir, s)
	}
	for _, e := range report.Errors {
		out.Unexplained = true
		out.Problems = append(out.Problems, e.problem(s))
	}
	return out, nil
}

func (e pwError) problem(s Paths) Problem {
	p := Problem{Level: Error, Message: Message(e.text())}
	if e.Location != nil {
		p.Path, p.Line = s.Rel(e.Location.File), max(0, e.Location.Line)
	}
	return p
}

func (e pwError) text() string {
	if e.Message != "" {
		return e.Message
	}
	return e.Stack
}

// pwWalk descends the describe blocks. The outermost suite is the file.
func pwWalk(out *Results, suite pwSuite, file string, titles []string, rootDir string, s Paths) {
	const maxDepth = 50
	if len(titles) > maxDepth {
		return
	}
	titles = append(titles[:len(titles):len(titles)], Bound(suite.Title, maxName))
	for _, spec := range suite.Specs {
		for _, t := range spec.Tests {
			c := pwCase(spec, t, file, titles, rootDir, s)
			out.Cases = append(out.Cases, c)
			out.Attachments = append(out.Attachments, t.attachments(c)...)
		}
	}
	for _, inner := range suite.Suites {
		pwWalk(out, inner, file, titles, rootDir, s)
	}
}

// pwCase returns the case of a test of a file. A test that another file defines, such as a helper,
// has its location there, but Playwright finds it only by the file that it runs.
func pwCase(spec pwSpec, t pwTest, file string, titles []string, rootDir string, s Paths) Case {
	var c Case
	c.Name = Name(strings.Join(append(titles[:len(titles):len(titles)], spec.Title), " › "))
	if t.ProjectName != "" {
		c.Name = Name("[" + t.ProjectName + "] " + c.Name)
	}
	c.Status = t.status()
	for _, r := range t.Results {
		c.DurationMS += milliseconds(r.Duration / 1000)
	}
	defined := pwFile(spec.File, rootDir, s)
	c.File = defined
	if file != "" {
		c.File = pwFile(file, rootDir, s)
	}
	if c.File == defined && !t.serial() {
		c.Line = max(0, spec.Line)
	}
	if c.Status == contract.TestFailed || c.Status == contract.TestFlaky {
		c.Location = Location(defined, spec.Line)
		t.explain(&c, s)
	}
	return c
}

func pwFile(file, rootDir string, s Paths) string {
	if rootDir != "" && !path.IsAbs(file) {
		file = path.Join(rootDir, file)
	}
	return s.Rel(file)
}

// serial reports whether a test needs those before it. Old versions, such as 1.58, do not say so.
func (t pwTest) serial() bool {
	for _, a := range t.Annotations {
		if a.Type == "serial" {
			return true
		}
	}
	return false
}

// status returns the status of a test: a test that is not expected, flaky or skipped has failed,
// and an expected one without results was skipped.
func (t pwTest) status() contract.TestStatus {
	switch t.Status {
	case "expected":
		if len(t.Results) == 0 {
			return contract.TestSkipped
		}
		return contract.TestPassed
	case "flaky":
		return contract.TestFlaky
	case "skipped":
		return contract.TestSkipped
	}
	return contract.TestFailed
}

// explain copies the message and the location of the test's first error.
func (t pwTest) explain(c *Case, s Paths) {
	for _, r := range t.Results {
		all := r.Errors
		if len(all) == 0 && r.Error != nil {
			all = []pwError{*r.Error}
		}
		for _, e := range all {
			c.Message = Message(e.text())
			if p := e.problem(s); p.Path != "" {
				c.Location = p.Location()
			}
			return
		}
		if r.Status == "timedOut" || r.Status == "interrupted" {
			c.Message = "the test was " + map[string]string{"timedOut": "stopped at its time limit", "interrupted": "interrupted"}[r.Status]
		}
	}
}

// attachments lists the files of a test.
func (t pwTest) attachments(c Case) []Attachment {
	var out []Attachment
	failed := c.Status == contract.TestFailed || c.Status == contract.TestFlaky
	for _, r := range t.Results {
		for _, a := range r.Attachments {
			if a.Path != "" && len(a.Path) < 4096 && !strings.ContainsRune(a.Path, 0) {
				out = append(out, Attachment{Test: c.Name, Path: a.Path, Kind: artifactType(a.ContentType, a.Path), Failed: failed})
			}
		}
	}
	return out
}
