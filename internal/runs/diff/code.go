package diff

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// MaxPatch is the maximum size in bytes of the patch in a comparison, from the left's code to the
// right's. The list of files is always complete.
const MaxPatch = 256 << 10

// CodeDiff compares the final files of both sides.
type CodeDiff struct {
	LeftRecorded  bool       `json:"left_recorded"` // false: its notes say why
	RightRecorded bool       `json:"right_recorded"`
	Same          bool       `json:"same"`      // all files are identical
	SameBase      bool       `json:"same_base"` // the runs started from the same commit of the same repository
	Files         []FileDiff `json:"files"`     // in the order of paths
	Added         int64      `json:"added"`     // lines, of all files
	Removed       int64      `json:"removed"`
	Patch         string     `json:"patch"` // unified, from the left's code to the right's
	PatchCut      bool       `json:"patch_cut"`
}

// FileStatus is how a file changed from the left to the right.
type FileStatus string

// The statuses of files.
const (
	FileAdded    FileStatus = "added"
	FileRemoved  FileStatus = "removed"
	FileModified FileStatus = "modified"
)

// FileDiff is one file that differs between the sides.
type FileDiff struct {
	Path    string     `json:"path"`
	Status  FileStatus `json:"status"`
	Added   int64      `json:"added"` // lines
	Removed int64      `json:"removed"`
	Binary  bool       `json:"binary"` // lines are not counted
	// Unsure is set if the runs started from different commits and the file may have differed
	// before either changed it. The line counts then cover only the changes of one run, and are 0
	// if both changed the file.
	Unsure bool `json:"unsure"`
}

// compareCode compares the changes of both runs, file by file. The notes list what could not be
// compared.
func compareCode(a, b Side) (CodeDiff, []string) {
	d := CodeDiff{
		LeftRecorded: a.Code.known(), RightRecorded: b.Code.known(), SameBase: a.Repo == b.Repo && a.Base == b.Base, Files: []FileDiff{},
		Same: a.Code.Tree != "" && a.Code.Tree == b.Code.Tree, // a tree's ID depends only on its content
	}
	var notes []string
	for _, s := range []Side{a, b} {
		if s.Code.Why != "" {
			notes = append(notes, fmt.Sprintf("%s: %s", s.Ref, s.Code.Why))
		}
	}
	switch {
	case a.Repo != b.Repo:
		notes = append(notes, "the runs use different repositories: only the changes made by each run are compared")
	case !d.SameBase:
		notes = append(notes, fmt.Sprintf("the runs started from different commits (%.12s and %.12s): only the changes made by each run are compared", a.Base, b.Base))
	}
	if d.Same || !d.LeftRecorded || !d.RightRecorded {
		return d, notes
	}
	left, err := parsePatch(a.Code.Patch)
	if err != nil {
		d.LeftRecorded = false
		return d, append(notes, fmt.Sprintf("%s: the recorded patch cannot be parsed: %v", a.Ref, err))
	}
	right, err := parsePatch(b.Code.Patch)
	if err != nil {
		d.RightRecorded = false
		return d, append(notes, fmt.Sprintf("%s: the recorded patch cannot be parsed: %v", b.Ref, err))
	}
	d.compareFiles(left, right)
	return d, notes
}

func (d *CodeDiff) compareFiles(left, right map[string]*touch) {
	var patch strings.Builder
	for _, path := range keysOf(left, right, cmp.Compare[string]) {
		file, diff := compareFile(left[path], right[path], d.SameBase)
		if diff == nil {
			continue
		}
		d.Files = append(d.Files, file)
		d.Added += file.Added
		d.Removed += file.Removed
		if !d.PatchCut {
			patch.WriteString(diff.String())
			d.PatchCut = patch.Len() > MaxPatch
		}
	}
	text := strings.ToValidUTF8(patch.String(), "\uFFFD")
	if d.PatchCut && len(text) > MaxPatch {
		text = text[:strings.LastIndexByte(text[:MaxPatch], '\n')+1]
	}
	d.Patch = telemetry.Redact(text) // last, because a redacted patch may not be parseable
}

// compareFile compares the changes of two runs to a file; nil means no change. The second result is
// nil if the file is the same on both sides.
func compareFile(left, right *touch, sameBase bool) (FileDiff, *gitdiff.File) {
	l, r := after(left, right), after(right, left)
	if l == r {
		return FileDiff{}, nil
	}
	path := cmp.Or(left, right).path
	file := FileDiff{Path: path, Status: FileModified, Binary: binary(left) || binary(right)}
	diff := &gitdiff.File{OldName: path, NewName: path, IsBinary: file.Binary}
	switch {
	case !l.there:
		file.Status, diff.IsNew, diff.OldName, diff.NewMode = FileAdded, true, "", r.mode
	case !r.there:
		file.Status, diff.IsDelete, diff.NewName, diff.OldMode = FileRemoved, true, "", l.mode
	case l.mode != r.mode:
		diff.OldMode, diff.NewMode = l.mode, r.mode
	}
	both := left != nil && right != nil
	file.Unsure = !sameBase && (!both || left.old != right.old)
	switch {
	case file.Binary:
	case !both && right != nil:
		diff.TextFragments = right.fragments
	case !both:
		diff.TextFragments = inverse(left.fragments)
	case !file.Unsure:
		diff.TextFragments = interdiff(left, right)
	}
	for _, f := range diff.TextFragments {
		file.Added += f.LinesAdded
		file.Removed += f.LinesDeleted
	}
	return file, diff
}

// after returns the final version of a file in one run or, if that run did not touch the file, the
// version from which the other run started.
func after(t, other *touch) version {
	if t == nil {
		return other.old
	}
	return t.now
}

func binary(t *touch) bool { return t != nil && t.binary }

// inverse returns fragments for the opposite direction.
func inverse(fragments []*gitdiff.TextFragment) []*gitdiff.TextFragment {
	out := make([]*gitdiff.TextFragment, len(fragments))
	for i, f := range fragments {
		g := *f
		g.OldPosition, g.OldLines, g.NewPosition, g.NewLines = f.NewPosition, f.NewLines, f.OldPosition, f.OldLines
		g.LinesAdded, g.LinesDeleted = f.LinesDeleted, f.LinesAdded
		g.Lines = slices.Clone(f.Lines)
		from := 0 // start of the changed lines to sort, removed lines first
		for k := range g.Lines {
			switch line := &g.Lines[k]; line.Op {
			case gitdiff.OpContext:
				from = k + 1
			case gitdiff.OpAdd:
				line.Op = gitdiff.OpDelete
			case gitdiff.OpDelete:
				line.Op = gitdiff.OpAdd
			}
			slices.SortStableFunc(g.Lines[from:k+1], func(x, y gitdiff.Line) int { return cmp.Compare(x.Op, y.Op) })
		}
		out[i] = &g
	}
	return out
}

// parsePatch returns the changes of a patch to each file.
func parsePatch(patch []byte) (map[string]*touch, error) {
	files, _, err := gitdiff.Parse(bytes.NewReader(patch))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 && len(bytes.TrimSpace(patch)) > 0 {
		return nil, fmt.Errorf("no files found")
	}
	out := make(map[string]*touch, len(files))
	for _, f := range files {
		t := touchOf(f)
		if before := out[t.path]; before != nil { // git represents a change of the file type as a removal and an addition
			t.old, t.gone = before.old, before.fragments
			t.binary = t.binary || before.binary
			t.fragments = append(slices.Clone(before.fragments), t.fragments...)
		}
		out[t.path] = t
	}
	return out, nil
}
