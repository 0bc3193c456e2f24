package contract

import "time"

// ArtifactType is the kind of a stored file.
type ArtifactType string

// The artifact types.
const (
	ArtifactZip        ArtifactType = "zip"
	ArtifactScreenshot ArtifactType = "screenshot"
	ArtifactVideo      ArtifactType = "video"
	ArtifactTrace      ArtifactType = "trace"
	ArtifactJSON       ArtifactType = "json"
	ArtifactLog        ArtifactType = "log"
	ArtifactPatch      ArtifactType = "patch"
	ArtifactReport     ArtifactType = "report"
	ArtifactFile       ArtifactType = "file"
)

// Artifact is a stored file of a run. Its content is in the artifact store under Digest; Name is
// the path within the run that people see, such as tester/1/login/trace.zip.
type Artifact struct {
	ID          int64        `json:"id,omitempty"`
	RunID       int64        `json:"run_id"`
	ExecutionID int64        `json:"execution_id,omitempty"`
	Name        string       `json:"name"`
	Type        ArtifactType `json:"type"`
	Size        int64        `json:"size"`   // bytes
	Digest      string       `json:"digest"` // sha256:<hex> of the content; empty if it was left out
	CreatedAt   time.Time    `json:"created_at"`
	// LeftOut is why the content was not stored; empty if it was. Such a file has no digest.
	LeftOut string `json:"left_out,omitempty"`
	// DeletedAt is when retention deleted the content.
	DeletedAt *time.Time `json:"deleted_at,omitempty"`
}

// Missing returns why the content of the file cannot be read; empty if it can.
func (a Artifact) Missing() string {
	switch {
	case a.LeftOut != "":
		return "not stored: " + a.LeftOut
	case a.DeletedAt != nil:
		return "deleted by retention on " + a.DeletedAt.UTC().Format(time.DateOnly)
	}
	return ""
}

// Severity grades a finding.
type Severity string

// The severities.
const (
	SeverityMajor  Severity = "major"
	SeverityMedium Severity = "medium"
	SeverityMinor  Severity = "minor"
)

// Severities returns the severities, most serious first.
func Severities() []Severity { return []Severity{SeverityMajor, SeverityMedium, SeverityMinor} }

// Category is the kind of check that found a finding.
type Category string

// The categories, in the order in which verification runs them.
const (
	CategoryBuild    Category = "build"
	CategoryTest     Category = "test"
	CategoryLint     Category = "lint"
	CategorySecurity Category = "security"
	CategoryCustom   Category = "custom"
)

// Categories returns the categories in the order in which verification runs them.
func Categories() []Category {
	return []Category{CategoryBuild, CategoryTest, CategoryLint, CategorySecurity, CategoryCustom}
}

// Finding is one problem that verification found.
type Finding struct {
	ID       int64    `json:"id,omitempty"`
	Severity Severity `json:"severity"`
	Category Category `json:"category"`
	Message  string   `json:"message"`
	Location string   `json:"location,omitempty"` // file:line
	Rule     string   `json:"rule,omitempty"`     // test case, linter rule or scanner id
	// Status relates the finding to the base commit; empty if they were not compared.
	Status     FindingStatus `json:"status,omitempty"`
	Resolved   bool          `json:"resolved"`
	ResolvedAt *time.Time    `json:"resolved_at,omitempty"`
}

// FindingStatus is the state of a finding relative to the base commit.
type FindingStatus string

// The states of a finding. A finding of the base commit that the change does not have is fixed, and
// is not a finding of the change.
const (
	FindingNew   FindingStatus = "new"
	FindingKnown FindingStatus = "known"
)

// TestStatus is the outcome of one test case.
type TestStatus string

// The outcomes.
const (
	TestPassed  TestStatus = "passed"
	TestFailed  TestStatus = "failed"
	TestSkipped TestStatus = "skipped"
	TestFlaky   TestStatus = "flaky" // failed, then passed when repeated
	// TestQuarantined: failed each time, but is quarantined, so the failure does not count.
	TestQuarantined TestStatus = "quarantined"
)

// TestCase is the result of one test case.
type TestCase struct {
	Name       string     `json:"test_case"`
	Status     TestStatus `json:"status"`
	DurationMS int64      `json:"duration_ms"`
	Message    string     `json:"message,omitempty"`
	Location   string     `json:"location,omitempty"`
}

// TestSummary counts test cases. Skipped is never counted as passed, and Quarantined never as failed.
type TestSummary struct {
	Passed      int   `json:"passed"`
	Failed      int   `json:"failed"`
	Skipped     int   `json:"skipped"`
	Flaky       int   `json:"flaky"`
	Quarantined int   `json:"quarantined,omitempty"` // failures of quarantined tests
	DurationMS  int64 `json:"duration"`
}

// Ran returns the number of tests that ran, whatever their outcome.
func (s TestSummary) Ran() int { return s.Passed + s.Failed + s.Flaky + s.Quarantined }

// Add returns the sum of two summaries.
func (s TestSummary) Add(t TestSummary) TestSummary {
	return TestSummary{
		Passed: s.Passed + t.Passed, Failed: s.Failed + t.Failed, Skipped: s.Skipped + t.Skipped,
		Flaky: s.Flaky + t.Flaky, Quarantined: s.Quarantined + t.Quarantined, DurationMS: s.DurationMS + t.DurationMS,
	}
}

// TestResult is the tester's result JSON. Durations are in milliseconds; artifacts are names.
type TestResult struct {
	Summary   TestSummary `json:"summary"`
	Results   []TestCase  `json:"results"`
	Artifacts []string    `json:"artifacts"`
	// Coverage is the coverage by all checks together; nil if none measured it.
	Coverage *Coverage `json:"coverage,omitempty"`
}
