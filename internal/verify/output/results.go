package output

import (
	"path"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// Level is the severity that a tool assigns to a problem.
type Level string

// The levels.
const (
	Error   Level = "error"
	Warning Level = "warning"
	Note    Level = "note"
)

// Problem is a problem reported by a tool. Path is relative to the checkout and empty if it is
// outside the checkout or unknown.
type Problem struct {
	Level   Level
	Path    string
	Line    int
	Rule    string
	Message string
	// Severity is the tool's own grade; empty if it only has levels, or none.
	Severity contract.Severity
	// Package is the vulnerable dependency, as its ecosystem spells it; empty for other problems.
	Package string
	// Secret describes a secret in the file; nil for other problems.
	Secret *Secret
}

// Secret describes a secret without its value.
type Secret struct {
	EndLine int     // the last line that it is on
	Entropy float32 // Shannon entropy of its value, in bits for each byte
}

// Location is the file and line of the problem.
func (p Problem) Location() string { return Location(p.Path, p.Line) }

// Location formats a file and a line: a.go:12.
func Location(file string, line int) string {
	switch {
	case file == "":
		return ""
	case line <= 0:
		return file
	}
	return file + ":" + strconv.Itoa(line)
}

// Case is a test case with what is needed to run it again.
type Case struct {
	contract.TestCase
	Test  string // the runner's own name for it
	Group string // Go: the package
	File  string // relative to the checkout
	// Line is where the test begins in File, if its runner can select it by that; otherwise 0.
	Line int
	// Frames is the stack by package, innermost last (Java).
	Frames []Problem
}

// Results are the parsed results of a command, from its output or a report.
type Results struct {
	Cases       []Case
	Problems    []Problem
	Attachments []Attachment
	// Unexplained is true if something failed besides the failed cases. If those pass later, the
	// command has still failed.
	Unexplained bool
	// Reported is the runner's own count of its tests; nil if it reports none.
	Reported *contract.TestSummary
	// NotTAP is true if the count is from a runner that does not write TAP.
	NotTAP bool
}

// Add adds further results.
func (p *Results) Add(more Results) {
	p.Cases = append(p.Cases, more.Cases...)
	p.Problems = append(p.Problems, more.Problems...)
	p.Attachments = append(p.Attachments, more.Attachments...)
	p.Unexplained = p.Unexplained || more.Unexplained
	p.NotTAP = p.NotTAP || more.NotTAP
	switch {
	case more.Reported == nil && p.Reported != nil:
		*p.Reported = p.Reported.Add(Summarize(more.Cases))
	case more.Reported != nil && p.Reported == nil:
		sum := Summarize(p.Cases[:len(p.Cases)-len(more.Cases)]).Add(*more.Reported)
		p.Reported = &sum
	case more.Reported != nil:
		*p.Reported = p.Reported.Add(*more.Reported)
	}
}

// Summary counts the tests. It uses the runner's own count if there is one, but never returns fewer
// failures than there are failed cases. A test that failed first and passed later is flaky.
func (p *Results) Summary() contract.TestSummary {
	cases := Summarize(p.Cases)
	if p.Reported == nil {
		return cases
	}
	sum := *p.Reported
	sum.Flaky = cases.Flaky
	sum.Failed = max(cases.Failed, sum.Failed-cases.Flaky)
	return sum
}

// Failed returns the cases that failed.
func (p *Results) Failed() []Case {
	var out []Case
	for _, c := range p.Cases {
		if c.Status == contract.TestFailed {
			out = append(out, c)
		}
	}
	return out
}

// Attachment is a file named by a report. The path is hostile input from the report.
type Attachment struct {
	Test string // name of its case
	Path string
	Kind contract.ArtifactType
	// Failed: it belongs to a test that failed, also if it then passed.
	Failed bool
}

// Summarize counts cases by status.
func Summarize(cases []Case) contract.TestSummary {
	var s contract.TestSummary
	for _, c := range cases {
		switch c.Status {
		case contract.TestPassed:
			s.Passed++
		case contract.TestFailed:
			s.Failed++
		case contract.TestSkipped:
			s.Skipped++
		case contract.TestFlaky:
			s.Flaky++
		case contract.TestQuarantined: // the quarantine applies to outcomes later
		}
	}
	return s
}

// artifactType uses the media type that the reporter specifies, otherwise the file name.
func artifactType(mediaType, p string) contract.ArtifactType {
	ext := strings.ToLower(path.Ext(p))
	switch {
	case strings.HasPrefix(mediaType, "image/"), ext == ".png", ext == ".jpg", ext == ".jpeg":
		return contract.ArtifactScreenshot
	case strings.HasPrefix(mediaType, "video/"), ext == ".webm", ext == ".mp4":
		return contract.ArtifactVideo
	case path.Base(p) == "trace.zip", mediaType == "application/zip" && strings.Contains(p, "trace"):
		return contract.ArtifactTrace
	case ext == ".zip":
		return contract.ArtifactZip
	case ext == ".json", mediaType == "application/json":
		return contract.ArtifactJSON
	case ext == ".log", ext == ".txt", strings.HasPrefix(mediaType, "text/"):
		return contract.ArtifactLog
	}
	return contract.ArtifactFile
}
