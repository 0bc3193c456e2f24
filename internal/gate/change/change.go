// Package change describes a change of a repository as the guards of the policy gate read it, and
// what they found wrong with it.
//
// All of it is hostile: paths, contents and texts come from models, repositories and tests. Package
// gate limits their number and size.
package change

import (
	"bytes"
	"context"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// Change is what a guard judges: the difference between two trees of a repository, and the texts
// that will be published with it.
type Change struct {
	// Files are the entries that differ, sorted by path.
	Files []File
	// Base and Tree are the whole trees before and after the change.
	Base, Tree Tree
	// Author is the role that made the change.
	Author Role
	// Texts are published with the change: commit messages, the report.
	Texts []Text
	// Plan is what the run's plan says about the change. Its zero value says nothing.
	Plan Plan
	// Labels are those of the run.
	Labels []string
	// Carried are commits of others that a pull request of the change merges too; nil: none are known.
	Carried *Carried
	// Limits are the configured limits.
	Limits Limits
	// Earlier read the changes from Base to states before Tree that are published as well, as commits.
	// They are functions, because all of them together may not fit into memory.
	Earlier []func(ctx context.Context) (Change, error)
	// Unread is the number of changed entries that are not in Files because there are too many.
	Unread int
	// Dependencies are the versions of packages that the change adds, with what their registries said
	// at Asked. They are empty if registries are not asked.
	Dependencies []Dependency
	Asked        time.Time
}

// Tree reads a whole tree.
type Tree interface {
	// Read returns the content of a regular file. ok is false if no regular file has that path, or if
	// it has more than most bytes.
	Read(ctx context.Context, path string, most int64) (content []byte, ok bool, err error)
	// Paths returns the paths of all regular files, sorted.
	Paths(ctx context.Context) ([]string, error)
}

// Role is the author of a change.
type Role string

// The authors of changes.
const (
	RoleBuilder     Role = "builder"
	RoleRepair      Role = "repair"
	RolePlanner     Role = "planner"
	RoleEnvironment Role = "environment"
	RolePerson      Role = "person"
	RoleRun         Role = "run" // several of them: the whole change of a run
)

// Text is published with a change.
type Text struct {
	// Name says what it is, such as "commit message of step-001".
	Name    string
	Content string
}

// Carried are commits that are merged with a change although they are not part of it: the branch from which it
// began has them, and the branch into which it is merged does not.
type Carried struct {
	From, Into string // branches; From may be empty
	Total      int
	Commits    []Commit // the newest of them
}

// Commit names a commit.
type Commit struct {
	ID, Subject string
}

// Plan is what a run's plan says about its change.
type Plan struct {
	// Files are those that it names.
	Files []string
	// Text is all that it says: goal, summary, steps and their criteria.
	Text string
}

// Limits are the configured limits of a change. Zero: no limit.
type Limits struct {
	// Files and Deletions are numbers of files, Lines of added and removed lines.
	Files, Deletions, Lines int
	// FileBytes is the size of one new or changed file, Bytes that of all.
	FileBytes, Bytes int64
	// Allowed and Protected are patterns of paths. Without Allowed, all that are not protected are
	// allowed.
	Allowed, Protected []string
	// Labels are labels of runs that mean the same as RocketGPT's own.
	Labels Labels
	// MinAge is how long a version of a dependency, and its package, must have been published.
	MinAge time.Duration `json:",omitempty"` // gates without it keep their digest
}

// Labels are names of labels by what they mean.
type Labels struct {
	// Blocked forbid that a change is applied, NeedsApproval ask for a person's approval, and Automerge
	// want it merged without a person.
	Blocked, NeedsApproval, Automerge []string
}

// File is an entry that differs between two trees.
type File struct {
	// Path is that after the change, or before it if the entry was deleted: relative to the
	// repository, with slashes.
	Path string
	// From is the path before the change, if git takes it for a rename; otherwise "".
	From string
	// Before and After are its versions. A version that does not exist is zero.
	Before, After Version
}

// Version is one side of an entry.
type Version struct {
	Mode Mode
	// Digest is git's id of the content.
	Digest string
	Size   int64
	// Content is that of a file, or the target of a link. It is nil if it was not read: a larger file,
	// or a submodule.
	Content []byte
	// Unread says that the content is larger than what is read.
	Unread bool
}

// Mode is git's mode of an entry; "": it does not exist.
type Mode string

// The modes of entries.
const (
	ModeFile       Mode = "100644"
	ModeExecutable Mode = "100755"
	ModeLink       Mode = "120000"
	ModeSubmodule  Mode = "160000"
)

// Exists reports whether there is such a version.
func (v Version) Exists() bool { return v.Mode != "" }

// Regular reports whether it is a file, executable or not.
func (v Version) Regular() bool { return v.Mode == ModeFile || v.Mode == ModeExecutable }

// Binary reports whether it is a file with content that is not text, by git's rule: a zero byte in
// the first 8,000. Unread content counts as binary.
func (v Version) Binary() bool {
	return v.Regular() && (v.Unread || bytes.IndexByte(v.Content[:min(len(v.Content), 8000)], 0) >= 0)
}

// Added reports whether the change creates the entry; a rename creates none.
func (f File) Added() bool { return !f.Before.Exists() }

// Deleted reports whether the change deletes the entry.
func (f File) Deleted() bool { return !f.After.Exists() }

// OldPath is the path before the change.
func (f File) OldPath() string {
	if f.From != "" {
		return f.From
	}
	return f.Path
}

// Paths are the paths before and after the change: one, or two for a rename.
func (f File) Paths() []string {
	if f.From != "" && f.From != f.Path {
		return []string{f.From, f.Path}
	}
	return []string{f.Path}
}

// Finding is something that a guard found in a change. Its message says what was found and what to do
// about it, and contains no secret. What follows from it is the policy's decision.
type Finding = contract.GateFinding

// Guard looks for one kind of danger in a change. It is pure: it reads only the change, and the same
// change has the same findings. It stops with the context's error.
type Guard interface {
	// Name is the value of Finding.Guard.
	Name() string
	// Judge returns what it found, in order of path and line.
	Judge(ctx context.Context, c Change) ([]Finding, error)
}
