package commits

import (
	"context"
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/tool"
)

// Mistake is a commit whose change has a mistake, and the commit that corrects it.
type Mistake struct {
	Wrong, Fix string // commits; Fix is the child of Wrong, and has the tree of the original commit
	Path       string // where the mistake is
}

// part is a part of a change that can be left out.
type part struct {
	versions
	hunk
	code int // number of lines with code that it adds or removes
}

// MakeMistake returns the commits of a mistake in a commit's change: the part of the change with the
// most code, outside tests, is missing. For a change without code, the error is an *Unplayable.
func MakeMistake(ctx context.Context, repo, commit string) (Mistake, error) {
	parent, err := Git(ctx, repo, "rev-parse", "--verify", "--end-of-options", commit+"^")
	if err != nil {
		return Mistake{}, err
	}
	parent = strings.TrimSpace(parent)
	best, err := largestPart(ctx, repo, parent, commit)
	if err != nil {
		return Mistake{}, err
	}
	if best.code == 0 {
		return Mistake{}, &Unplayable{Commit: commit, Why: "it changes no code in which a mistake could be made"}
	}
	wrong, err := without(ctx, repo, parent, commit, best)
	if err != nil {
		return Mistake{}, err
	}
	tree, err := Git(ctx, repo, "rev-parse", commit+"^{tree}")
	if err != nil {
		return Mistake{}, err
	}
	fix, err := commitTree(ctx, repo, strings.TrimSpace(tree), wrong)
	return Mistake{Wrong: wrong, Fix: fix, Path: best.path}, err
}

// largestPart returns the part of a change with the most code outside tests.
func largestPart(ctx context.Context, repo, parent, commit string) (best part, err error) {
	changes, err := changesOf(ctx, repo, parent, commit)
	if err != nil {
		return best, err
	}
	s := &Script{Source: repo, Commit: Commit{ID: commit}}
	for _, c := range changes {
		if IsTest(c.path) || !isSource(c.path) || c.newMode != modeFile {
			continue
		}
		v, err := s.versions(ctx, c)
		if err != nil {
			return best, err
		}
		if v.added() {
			v.hunks = []hunk{{newTo: len(linesOf(v.after))}}
		}
		for _, h := range v.hunks {
			code := codeLines(linesOf(v.after)[h.newFrom:h.newTo]) + codeLines(linesOf(v.before)[h.oldFrom:h.oldTo])
			if code > best.code {
				best = part{v, h, code}
			}
		}
	}
	return best, nil
}

// codeLines counts the lines that are neither empty nor look like comments.
func codeLines(lines []string) int {
	n := 0
	for _, line := range lines {
		line = strings.TrimSpace(line)
		comment := false
		for _, start := range []string{"#", "//", "/*", "*", `"""`, "'''", "--"} {
			comment = comment || strings.HasPrefix(line, start)
		}
		if line != "" && !comment {
			n++
		}
	}
	return n
}

// without commits a change without one of its parts.
func without(ctx context.Context, repo, parent, commit string, p part) (string, error) {
	before, after := linesOf(p.before), linesOf(p.after)
	text := strings.Join(after[:p.newFrom], "") + strings.Join(before[p.oldFrom:p.oldTo], "") + strings.Join(after[p.newTo:], "")
	entry := fmt.Sprintf("0 %s\t%s\x00", strings.Repeat("0", len(p.newBlob)), p.path)
	if !p.added() {
		id, err := GitInput(ctx, repo, text, "hash-object", "-w", "--stdin")
		if err != nil {
			return "", err
		}
		entry = fmt.Sprintf("%s %s\t%s\x00", modeFile, strings.TrimSpace(id), p.path)
	}
	var tree string
	err := withIndex(ctx, repo, commit, func(env []string) error {
		if _, err := gitWith(ctx, repo, entry, env, "update-index", "-z", "--index-info"); err != nil {
			return err
		}
		out, err := gitWith(ctx, repo, "", env, "write-tree")
		tree = strings.TrimSpace(out)
		return err
	})
	if err != nil {
		return "", err
	}
	return commitTree(ctx, repo, tree, parent)
}

// Rewrites returns calls that make the files of a commit's change, whatever state they are in: files
// are deleted and created again. Calls for files that do not exist fail without effect.
func (s *Script) Rewrites(ctx context.Context) ([]Call, error) {
	changes, err := changesOf(ctx, s.Source, s.Parent, s.ID)
	if err != nil {
		return nil, err
	}
	var calls []Call
	for _, c := range changes {
		calls = append(calls, Call{tool.DeleteFile, map[string]string{"path": c.path}})
		if c.deleted() {
			continue
		}
		v, err := s.versions(ctx, c)
		if err != nil {
			return nil, err
		}
		calls = append(calls, Call{tool.CreateFile, map[string]string{"path": c.path, "content": v.after}})
	}
	return calls, nil
}
