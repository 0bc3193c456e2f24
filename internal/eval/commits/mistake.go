package commits

import (
	"context"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/tool"
)

// Mistake is a commit whose change has a mistake, and the commit that corrects it.
type Mistake struct {
	Wrong, Fix string // commits; Fix is the child of Wrong, and has the tree of the original commit
}

// MakeMistake returns the commits of a mistake in a change of a base: only its tests are there, and
// all else is missing. So the tests that the change makes pass fail, whatever else they test; a part
// of a change that is missing is often not noticed. For a change without tests, or with nothing else,
// the error is an *Unplayable.
func MakeMistake(ctx context.Context, repo, base, commit, tests string) (Mistake, error) {
	wrong, err := Lay(ctx, repo, base, base, tests)
	if err != nil {
		return Mistake{}, err
	}
	for _, same := range []struct{ of, why string }{{base, "it has no tests that could show a mistake"}, {commit, "it changes only tests, so no mistake can be made"}} {
		changes, err := changesOf(ctx, repo, same.of, wrong)
		if err != nil {
			return Mistake{}, err
		}
		if len(changes) == 0 {
			return Mistake{}, &Unplayable{Commit: commit, Why: same.why}
		}
	}
	tree, err := Git(ctx, repo, "rev-parse", commit+"^{tree}")
	if err != nil {
		return Mistake{}, err
	}
	fix, err := commitTree(ctx, repo, strings.TrimSpace(tree), wrong)
	return Mistake{Wrong: wrong, Fix: fix}, err
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
