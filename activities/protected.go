package activities

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/glob"
)

// mostProtected is how many protected files are named one by one.
const mostProtected = 20

// Protected names the files that a run may push only with an approval: those that differ
// from the base in the workspace, or in any commit on the way to it. What a later commit
// takes back reaches the remote all the same.
func (a *Activities) Protected(ctx context.Context, in contract.ProtectedInput) (contract.ProtectedFiles, error) {
	found, seen := map[string]bool{}, map[string]bool{}
	for _, stage := range append(slices.Clone(in.Stages), in.Workspace) {
		if seen[stage.Tree] {
			continue
		}
		seen[stage.Tree] = true
		stat, err := a.Workspaces.DiffStat(ctx, stage.Of(in.Workspace))
		if err != nil {
			return contract.ProtectedFiles{}, err
		}
		for _, f := range stat.Files {
			if matches(in.Patterns, f.Path) {
				found[f.Path] = true
			}
		}
	}
	paths := slices.Sorted(maps.Keys(found))
	return contract.ProtectedFiles{Paths: paths[:min(len(paths), mostProtected)], Total: len(paths)}, nil
}

// approved refuses to push protected files that nobody has approved, whatever
// the workflow did.
func (a *Activities) approved(ctx context.Context, in contract.ReleaseInput) error {
	if !contract.Pushes(in.Repo, in.Release) || len(in.Release.Protected) == 0 || in.ApprovedBy != "" {
		return nil
	}
	files, err := a.Protected(ctx, contract.ProtectedInput{Workspace: in.Workspace, Stages: in.Stages, Patterns: in.Release.Protected})
	if err != nil || files.Total == 0 {
		return err
	}
	return fault.New(contract.ClassHuman, contract.CodeRejected,
		"run %d changes protected files (%s) and nobody has approved that; nothing was released", in.Execution.RunID, files.Words())
}

// protects reports whether a path belongs to what no repair may touch: what is
// protected by default stays so here, whatever the worker's configuration says.
func (a *Activities) protects(name string) bool {
	return matches(config.ProtectedFiles(), name) || matches(a.Config.Git.Protected, name)
}

// matches reports whether one of the patterns matches a path. Capital and small
// letters are the same: so they are for some of the programs that read these files.
func matches(patterns []string, name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(patterns, func(p string) bool { return glob.Match(strings.ToLower(p), name) })
}
