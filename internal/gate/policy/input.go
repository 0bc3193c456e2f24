package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// InputVersion is the version of Input. It changes if a field is renamed, removed or gets another
// meaning, not if one is added.
const InputVersion = 1

// Input is what policies judge. It contains no file contents. All lists exist, possibly empty, so
// that a policy need not test for them.
type Input struct {
	Version   int         `json:"version"`
	Stage     Stage       `json:"stage"`
	Author    change.Role `json:"author"`
	Run       Run         `json:"run"`
	Change    Change      `json:"change"`
	Findings  []Finding   `json:"findings"`
	Labels    []string    `json:"labels"`
	Approvals []Approval  `json:"approvals"`
	Rules     Rules       `json:"rules"`
	Review    Review      `json:"review"`
	// Dependencies are the versions of packages that the change adds, with what their registries say;
	// none if registries are not asked.
	Dependencies []Dependency `json:"dependencies"`
}

// Dependency is a version of a package that a change adds.
type Dependency struct {
	Path      string `json:"path"`
	Ecosystem string `json:"ecosystem"`
	Name      string `json:"name"`
	// Version is the one that is installed if Exact, otherwise the first that a range names.
	Version string        `json:"version"`
	Exact   bool          `json:"exact"`
	Status  change.Status `json:"status"`
	Reason  string        `json:"reason"`
	// Published is when the version was published, and First when the package's first version was, in
	// RFC 3339; empty: it is not known. Their ages are those when the registry was asked; missing: they
	// are not known.
	Published  string `json:"published"`
	First      string `json:"first_published"`
	Age        *int64 `json:"age_seconds,omitempty"`
	PackageAge *int64 `json:"package_age_seconds,omitempty"`
}

// Review is what is known about a review of the change by a model.
type Review struct {
	// Mode is off, policy or on; see the setting gate.review.
	Mode string `json:"mode"`
	// Made says that a model has reviewed exactly this change, Failed that it was tried in vain.
	Made   bool `json:"made"`
	Failed bool `json:"failed"`
	// Model is the reviewer's, as provider/model; SameModel says that it also made the change.
	Model     string `json:"model"`
	SameModel bool   `json:"same_model"`
}

// Stage is the point at which a change is judged.
type Stage string

// The stages.
const (
	StageStep    Stage = "step"    // a step's change, before the run continues with it
	StageRepair  Stage = "repair"  // a repair's change, before the run continues with it
	StagePlan    Stage = "plan"    // the change that a plan announces
	StageRelease Stage = "release" // the whole change of a run, before it is released
	StageCheck   Stage = "check"   // a change outside of a run, judged as for a release
)

// Stages returns all stages.
func Stages() []Stage {
	return []Stage{StageStep, StageRepair, StagePlan, StageRelease, StageCheck}
}

// Run is the run that made the change.
type Run struct {
	// ID is 0 outside of a run.
	ID int64 `json:"id"`
	// Project is the repository's URL or path, without credentials.
	Project string `json:"project"`
	// Pushes says that a release is pushed to a remote.
	Pushes bool `json:"pushes"`
	// Model is the author's, as provider/model; empty: a person, or several models.
	Model string `json:"model"`
}

// Change describes the changed files.
type Change struct {
	Files  []File `json:"files"`
	Totals Totals `json:"totals"`
	// Unread is the number of changed files that are not in Files, because there are too many.
	Unread int `json:"unread"`
}

// File is one changed file, link or submodule.
type File struct {
	Path string `json:"path"`
	// From is the path before a rename, otherwise empty.
	From   string `json:"from"`
	Status Status `json:"status"`
	// OldMode and NewMode are git's modes, such as 100644; empty if that version does not exist.
	OldMode string `json:"old_mode"`
	NewMode string `json:"new_mode"`
	// Added and Removed are numbers of lines; 0 for what is not text.
	Added   int  `json:"added"`
	Removed int  `json:"removed"`
	Binary  bool `json:"binary"`
	// OldSize and Size are bytes before and after.
	OldSize int64 `json:"old_size"`
	Size    int64 `json:"size"`
}

// Status is what happened to a file.
type Status string

// The statuses of files.
const (
	StatusAdded    Status = "added"
	StatusChanged  Status = "changed"
	StatusDeleted  Status = "deleted"
	StatusRenamed  Status = "renamed"
	StatusModeOnly Status = "mode" // same content, other mode
)

// Totals are sums over the files of a change.
type Totals struct {
	Files   int   `json:"files"`
	Created int   `json:"created"`
	Deleted int   `json:"deleted"`
	Renamed int   `json:"renamed"`
	Added   int   `json:"added"`
	Removed int   `json:"removed"`
	Bytes   int64 `json:"bytes"`
}

// Finding is what a guard found.
type Finding struct {
	// ID identifies the finding in the content that it was found in; approvals name it.
	ID       string            `json:"id"`
	Guard    string            `json:"guard"`
	Rule     string            `json:"rule"`
	Path     string            `json:"path"`
	Line     int               `json:"line"`
	Severity contract.Severity `json:"severity"`
	Message  string            `json:"message"`
}

// Approval is an answer of a person who allows a part of the change.
type Approval struct {
	// By names the person. An approval without a name has no effect.
	By string `json:"by"`
	// Reasons are IDs of reasons or findings.
	Reasons []string `json:"reasons"`
	// Paths are files: every reason for approval that concerns one of them is approved.
	Paths []string `json:"paths"`
}

// Rules are the configured limits and labels.
type Rules struct {
	Allowed   []string `json:"allowed"`
	Protected []string `json:"protected"`
	Files     int      `json:"files"`
	Deletions int      `json:"deletions"`
	Lines     int      `json:"lines"`
	FileBytes int64    `json:"file_bytes"`
	Bytes     int64    `json:"bytes"`
	Labels    Labels   `json:"labels"`
	// MinAge is how long a version of a dependency must have been published, in seconds; 0: any time.
	MinAge int64 `json:"min_age_seconds"`
}

// Labels are the configured meanings of labels.
type Labels struct {
	// Allowed are those that a run may have; empty: any.
	Allowed []string `json:"allowed"`
	// Automerge are those with which a release may be merged without a person.
	Automerge []string `json:"automerge"`
	// Blocked are those with which nothing is released.
	Blocked []string `json:"blocked"`
	// Review are those with which a person must approve a release.
	Review []string `json:"review"`
}

// NewInput describes a change and what guards found in it. The caller adds the run, the labels'
// rules and the approvals.
func NewInput(stage Stage, c change.Change, found []change.Finding) Input {
	in := Input{
		Version: InputVersion, Stage: stage, Author: c.Author,
		Change:   Change{Files: make([]File, len(c.Files)), Unread: c.Unread},
		Findings: make([]Finding, len(found)),
		Labels:   c.Labels,
		Rules: Rules{
			Allowed: c.Limits.Allowed, Protected: c.Limits.Protected, Files: c.Limits.Files, Deletions: c.Limits.Deletions,
			Lines: c.Limits.Lines, FileBytes: c.Limits.FileBytes, Bytes: c.Limits.Bytes, MinAge: int64(c.Limits.MinAge / time.Second),
		},
		Dependencies: make([]Dependency, len(c.Dependencies)),
	}
	for i, d := range c.Dependencies {
		in.Dependencies[i] = describeDependency(d, c.Asked)
	}
	versions := make(map[string]string, len(c.Files))
	for i, f := range c.Files {
		in.Change.Files[i] = describe(f)
		in.Change.Totals.add(in.Change.Files[i])
		versions[f.Path] = f.Before.Digest + ".." + f.After.Digest
	}
	in.Change.Totals.Files = len(c.Files) + c.Unread
	for i, f := range found {
		in.Findings[i] = Finding{
			ID: identify(f.Guard, f.Rule, f.Path, f.Line, f.Message, versions[f.Path]), Guard: f.Guard, Rule: f.Rule,
			Path: f.Path, Line: f.Line, Severity: f.Severity, Message: f.Message,
		}
	}
	return in
}

// Files describes changed files as the input does.
func Files(changed []change.File) []File {
	out := make([]File, len(changed))
	for i, f := range changed {
		out[i] = describe(f)
	}
	return out
}

func describe(f change.File) File {
	added, removed := f.Lines()
	return File{
		Path: f.Path, From: f.From, Status: statusOf(f), OldMode: string(f.Before.Mode), NewMode: string(f.After.Mode),
		Added: len(added), Removed: len(removed), Binary: f.Before.Binary() || f.After.Binary(),
		OldSize: f.Before.Size, Size: f.After.Size,
	}
}

// describeDependency describes what was known about a dependency at a time.
func describeDependency(d change.Dependency, at time.Time) Dependency {
	out := Dependency{
		Path: d.Path, Ecosystem: d.Ecosystem, Name: change.Clean(d.Name), Version: change.Clean(d.Version), Exact: d.Exact, Status: d.Status, Reason: change.Clean(d.Reason),
	}
	out.Published, out.Age = moment(d.Published, at)
	out.First, out.PackageAge = moment(d.First, at)
	return out
}

// moment returns a time as text and its age in seconds; nothing if it is not known.
func moment(t, now time.Time) (text string, age *int64) {
	if t.IsZero() {
		return "", nil
	}
	seconds := int64(now.Sub(t) / time.Second)
	return t.UTC().Format(time.RFC3339), &seconds
}

func statusOf(f change.File) Status {
	switch {
	case f.Added():
		return StatusAdded
	case f.Deleted():
		return StatusDeleted
	case f.From != "" && f.From != f.Path:
		return StatusRenamed
	case f.Before.Digest == f.After.Digest:
		return StatusModeOnly
	default:
		return StatusChanged
	}
}

func (t *Totals) add(f File) {
	switch f.Status {
	case StatusAdded:
		t.Created++
	case StatusDeleted:
		t.Deleted++
	case StatusRenamed:
		t.Renamed++
	case StatusChanged, StatusModeOnly:
	}
	t.Added += f.Added
	t.Removed += f.Removed
	t.Bytes += f.Size
}

// identify returns a short digest of values.
func identify(values ...any) string {
	h := sha256.New()
	for _, v := range values {
		s := fmt.Sprint(v)
		fmt.Fprintf(h, "%d:%s", len(s), s)
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// complete replaces missing lists by empty ones.
func (in Input) complete() Input {
	in.Version = InputVersion
	in.Review.Mode = cmp.Or(in.Review.Mode, contract.ReviewOff)
	in.Change.Files = list(in.Change.Files)
	in.Findings = list(in.Findings)
	in.Dependencies = list(in.Dependencies)
	in.Labels = list(in.Labels)
	in.Approvals = list(in.Approvals)
	for i := range in.Approvals {
		in.Approvals[i].Reasons, in.Approvals[i].Paths = list(in.Approvals[i].Reasons), list(in.Approvals[i].Paths)
	}
	r := &in.Rules
	for _, l := range []*[]string{&r.Allowed, &r.Protected, &r.Labels.Allowed, &r.Labels.Automerge, &r.Labels.Blocked, &r.Labels.Review} {
		*l = list(*l)
	}
	return in
}

// Redacted returns the input with redact applied to all texts that a repository or a person wrote.
// The findings keep their IDs.
func (in Input) Redacted(redact func(string) string) Input {
	in = in.complete()
	for i := range in.Change.Files {
		f := &in.Change.Files[i]
		f.Path, f.From = redact(f.Path), redact(f.From)
	}
	for i := range in.Findings {
		f := &in.Findings[i]
		f.Path, f.Message = redact(f.Path), redact(f.Message)
	}
	for i := range in.Labels {
		in.Labels[i] = redact(in.Labels[i])
	}
	for i := range in.Dependencies {
		d := &in.Dependencies[i]
		d.Path, d.Name, d.Version = redact(d.Path), redact(d.Name), redact(d.Version)
	}
	return in
}

// list returns a copy that is not nil.
func list[T any](values []T) []T { return append(make([]T, 0, len(values)), values...) }

// encode returns the document that policies read.
func (in Input) encode() ([]byte, error) {
	text, err := json.Marshal(in.complete())
	if err != nil {
		return nil, fmt.Errorf("encode the input of the policies: %w", err)
	}
	return text, nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}
