package commits

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/internal/tool"
)

const (
	// TurnCalls is the maximum number of calls of the scripted builder in one turn.
	TurnCalls = 20
	// maxTurns is the maximum number of turns of a script, excluding the last one, which finishes:
	// a step has 40 by default (execution.step.turns).
	maxTurns = 39
)

// Commit is a commit of a table and its properties.
type Commit struct {
	Repo      string `json:"repo" yaml:"-"`          // owner/name, path or URL, as in the table
	ID        string `json:"commit" yaml:"commit"`   // the full id
	Subject   string `json:"subject" yaml:"subject"` // the goal
	Parent    string `json:"parent" yaml:"-"`        // where the run starts
	Ecosystem string `json:"ecosystem" yaml:"-"`     // detected from the files of the parent; empty if unknown
}

// Call is one call of a tool.
type Call struct {
	Name      string
	Arguments map[string]string
}

// Script is a commit as the turns of a builder.
type Script struct {
	Commit
	Source string   // the git directory that contains the commit
	Files  []string // files that the commit changes, sorted
	Calls  []Call   // in order of execution
	Lines  int      // number of added and removed lines, without deleted files
	Tests  []Test   // tests that the commit added or changed, if their names are recognized in the source
}

// Unplayable is the error that a commit cannot be expressed as calls of the product's tools.
type Unplayable struct {
	Commit, Path, Why string
}

// Error implements error.
func (u *Unplayable) Error() string {
	if u.Path == "" {
		return fmt.Sprintf("the commit %.12s cannot be played: %s", u.Commit, u.Why)
	}
	return fmt.Sprintf("the commit %.12s cannot be played: %q %s", u.Commit, u.Path, u.Why)
}

// Write writes and rehearses the script of one commit: on the parent's files, its calls produce the
// commit's files, byte for byte.
func Write(ctx context.Context, repoDir, commit string) (*Script, error) {
	out, err := Git(ctx, repoDir, "log", "-1", "--no-show-signature", "--format=%H%x00%P%x00%s", commit+"^{commit}", "--")
	if err != nil {
		return nil, err
	}
	fields := strings.SplitN(strings.TrimSuffix(out, "\n"), "\x00", 3)
	if len(fields) != 3 {
		return nil, fmt.Errorf("git log of %s printed %q, which is not a commit", commit, out)
	}
	s := &Script{Source: repoDir}
	s.ID, s.Parent, s.Subject = fields[0], fields[1], strings.ToValidUTF8(fields[2], "\uFFFD")
	if s.Parent == "" || strings.Contains(s.Parent, " ") {
		return nil, &Unplayable{Commit: s.ID, Why: "it is a merge or the first commit; only a commit with one parent can be played"}
	}
	if strings.TrimSpace(s.Subject) == "" {
		return nil, &Unplayable{Commit: s.ID, Why: "it has no subject to use as the goal"}
	}
	missing, err := Git(ctx, repoDir, "rev-list", "--objects", "--no-walk", "--missing=print", s.Parent)
	if err != nil {
		return nil, err
	}
	if n := strings.Count("\n"+missing, "\n?"); n > 0 {
		return nil, &Unplayable{Commit: s.ID, Why: fmt.Sprintf("the repository %s lacks the content of %d files of its parent, so a clone would be incomplete; "+
			"clone the repository again", repoDir, n)}
	}
	if s.Ecosystem, err = ecosystem(ctx, repoDir, s.Parent); err != nil {
		return nil, err
	}
	changes, err := changesOf(ctx, repoDir, s.Parent, s.ID)
	if err != nil {
		return nil, err
	}
	if len(changes) == 0 {
		return nil, &Unplayable{Commit: s.ID, Why: "it does not change any file"}
	}
	return s, s.write(ctx, changes)
}

// write writes the calls and rehearses them.
func (s *Script) write(ctx context.Context, changes []change) error {
	var deletions, others []Call
	var pairs []versions
	for _, c := range changes {
		v, err := s.versions(ctx, c)
		if err != nil {
			return err
		}
		calls, err := s.callsOf(ctx, v)
		if err != nil {
			return err
		}
		s.Files, pairs = append(s.Files, c.path), append(pairs, v)
		s.Tests = append(s.Tests, testsOf(v)...)
		s.Lines += v.lines()
		if c.deleted() {
			deletions = append(deletions, calls...) // first, because a directory may replace a file
			continue
		}
		others = append(others, calls...)
	}
	s.Calls = slices.Concat(deletions, others)
	if n := len(s.Calls); n > TurnCalls*maxTurns {
		return &Unplayable{Commit: s.ID, Why: fmt.Sprintf("it requires %d calls, but a step allows at most %d", n, TurnCalls*maxTurns)}
	}
	if path, why, err := replayLocally(ctx, pairs, s.Calls); err != nil || why != "" {
		if err != nil {
			return err
		}
		return &Unplayable{Commit: s.ID, Path: path, Why: why}
	}
	return nil
}

// versions has the content of a file before and after a commit.
type versions struct {
	change
	before, after string
	hunks         []hunk // of a changed file
}

// lines returns the number of added and removed lines.
func (v versions) lines() int {
	if v.added() {
		return len(linesOf(v.after))
	}
	n := 0
	for _, h := range v.hunks {
		n += h.oldTo - h.oldFrom + h.newTo - h.newFrom
	}
	return n
}

// versions reads both versions of a file, and rejects a change that the tools cannot reproduce.
func (s *Script) versions(ctx context.Context, c change) (v versions, err error) {
	refuse := func(format string, args ...any) (versions, error) {
		return v, &Unplayable{Commit: s.ID, Path: c.path, Why: fmt.Sprintf(format, args...)}
	}
	v.change = c
	switch {
	case !utf8.ValidString(c.path):
		return refuse("has a name that is not UTF-8")
	case c.oldMode == modeGitlink || c.newMode == modeGitlink:
		return refuse("is a submodule")
	case c.deleted():
		return v, nil // of any type, because delete_file does not read it
	case c.newMode == modeLink:
		return refuse("is a symbolic link")
	case c.added() && c.newMode != modeFile:
		return refuse("is created with mode %s, but create_file uses %s", c.newMode, modeFile)
	case !c.added() && c.oldMode != c.newMode:
		return refuse("changes mode from %s to %s", c.oldMode, c.newMode)
	}
	if v.after, err = blob(ctx, s.Source, c.newBlob, tool.DefaultLimits.WriteBytes); err != nil {
		return refuse("cannot be read: %v", err)
	}
	if !c.added() {
		if v.before, err = blob(ctx, s.Source, c.oldBlob, tool.DefaultLimits.WriteBytes); err != nil {
			return refuse("cannot be read: %v", err)
		}
		if v.hunks, err = hunksOf(ctx, s.Source, c.oldBlob, c.newBlob); err != nil {
			return v, err
		}
	}
	for _, text := range []string{v.before, v.after} {
		if !utf8.ValidString(text) || strings.ContainsRune(text, 0) {
			return refuse("is binary or not UTF-8")
		}
	}
	return v, nil
}

// callsOf returns the calls that reproduce the commit's change to one file.
func (s *Script) callsOf(ctx context.Context, v versions) ([]Call, error) {
	remove := Call{tool.DeleteFile, map[string]string{"path": v.path}}
	create := Call{tool.CreateFile, map[string]string{"path": v.path, "content": v.after}}
	switch {
	case v.deleted():
		return []Call{remove}, nil
	case v.added():
		return []Call{create}, nil
	}
	edits, ok := editsOf(v)
	if ok {
		_, why, err := replayLocally(ctx, []versions{v}, edits)
		if err != nil || why == "" {
			return edits, err
		}
	}
	// edit_file cannot do this: the file is empty, or its line endings change.
	if v.newMode != modeFile {
		return nil, &Unplayable{Commit: s.ID, Path: v.path, Why: "cannot be reproduced with edits, and creating it again would lose its mode " + v.newMode}
	}
	return []Call{remove, create}, nil
}

// editsOf converts the hunks of a file to edits, in order, each with a text that is unique in the
// file at that point. It reports false if there is no such text.
func editsOf(v versions) ([]Call, bool) {
	lines, after := linesOf(v.before), linesOf(v.after)
	var calls []Call
	moved := 0 // number of lines by which the file has grown so far
	for _, h := range v.hunks {
		from, to := h.oldFrom+moved, h.oldTo+moved
		fresh := after[h.newFrom:h.newTo]
		top, bottom, ok := unique(lines, from, to)
		if !ok {
			return nil, false
		}
		calls = append(calls, Call{tool.EditFile, map[string]string{
			"path":     v.path,
			"old_text": strings.Join(lines[top:bottom], ""),
			"new_text": strings.Join(lines[top:from], "") + strings.Join(fresh, "") + strings.Join(lines[to:bottom], ""),
		}})
		next := make([]string, 0, len(lines)+len(fresh))
		next = append(append(append(next, lines[:from]...), fresh...), lines[to:]...)
		lines, moved = next, moved+len(fresh)-(to-from)
	}
	return calls, len(calls) > 0
}

// unique extends lines[from:to] until its text occurs only once in the file, as the whole text of a
// non-empty file does.
func unique(lines []string, from, to int) (top, bottom int, ok bool) {
	whole := strings.Join(lines, "")
	for around := 0; ; around = max(1, 2*around) {
		top, bottom = max(0, from-around), min(len(lines), to+around)
		text := strings.Join(lines[top:bottom], "")
		if text != "" && strings.Index(whole, text) == strings.LastIndex(whole, text) {
			return top, bottom, true
		}
		if top == 0 && bottom == len(lines) {
			return 0, 0, false
		}
	}
}
