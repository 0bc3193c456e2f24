package workspace

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// Merge merges the changes of two workspaces since base. All three have the same repository and
// base commit; ours and theirs may be slim. Conflicting changes are returned as a Conflict, without
// a step, which only the caller knows.
func (m *Manager) Merge(ctx context.Context, base, ours, theirs contract.Workspace) (contract.Workspace, *contract.Conflict, error) {
	repo, baseTree, lock, err := m.use(ctx, base.Repo, base.Base)
	if err != nil {
		return contract.Workspace{}, nil, err
	}
	defer lock.release()
	return repo.merge(ctx, baseTree, base, ours.Of(base), theirs.Of(base))
}

// Fold integrates changes into a workspace, in order. A change that starts where the previous one
// ended is applied unchanged; any other is merged, with the state that its step started from as the
// common ancestor. Fold returns the workspace after all changes and after each one; on a Conflict,
// up to the last successful change.
func (m *Manager) Fold(ctx context.Context, start contract.Workspace, changes []contract.Change) (final contract.Workspace, stages []contract.Workspace, conflict *contract.Conflict, err error) {
	final = start
	for len(changes) > 0 {
		_, rest := contract.FastForward(final, changes)
		for _, c := range changes[:len(changes)-len(rest)] {
			final = c.To.Of(start)
			stages = append(stages, final)
		}
		if len(rest) == 0 {
			break
		}
		c := rest[0]
		final, conflict, err = m.Merge(ctx, c.From.Of(start), final, c.To)
		if conflict != nil {
			conflict.Step = c.Step
		}
		if err != nil || conflict != nil {
			return lastOr(stages, start), stages, conflict, err
		}
		stages = append(stages, final)
		changes = rest[1:]
	}
	return final, stages, nil, nil
}

func lastOr(stages []contract.Workspace, start contract.Workspace) contract.Workspace {
	if len(stages) == 0 {
		return start
	}
	return stages[len(stages)-1]
}

func (r *mirror) merge(ctx context.Context, baseTree string, base, ours, theirs contract.Workspace) (contract.Workspace, *contract.Conflict, error) {
	switch {
	case ours.Tree == base.Tree || ours.Tree == theirs.Tree:
		return theirs, nil, nil
	case theirs.Tree == base.Tree:
		return ours, nil, nil
	}
	for _, ws := range []contract.Workspace{base, ours, theirs} {
		if err := r.ensure(ctx, ws, baseTree); err != nil {
			return contract.Workspace{}, nil, err
		}
	}
	tree, err := r.mergeApart(base.Tree, ours.Tree, theirs.Tree)
	var paths []string
	if errors.Is(err, errNeedsGit) {
		tree, paths, err = r.mergeTrees(ctx, base.Tree, ours.Tree, theirs.Tree)
	}
	if err != nil {
		return contract.Workspace{}, nil, err
	}
	if len(paths) > 0 {
		return contract.Workspace{}, &contract.Conflict{Paths: paths}, nil
	}
	// File sizes were checked when each side was saved.
	change, err := r.change(ctx, baseTree, tree, limits{files: 2 * r.m.options.MaxChangedFiles, patch: r.m.options.MaxPatchBytes})
	if err != nil {
		return contract.Workspace{}, nil, err
	}
	ws, err := r.state(ctx, base, tree, change)
	return ws, nil, err
}

// mergeApart merges trees that differ from the base in different files, so no conflict is possible:
// git, which also follows renames, produces the same result. A file that both sides changed, even
// identically, and a name that one side turned into a directory are left to git.
func (r *mirror) mergeApart(base, ours, theirs string) (string, error) {
	tree, err := r.mergeEntries(base, ours, theirs)
	if err == nil && tree == "" {
		tree, err = r.writeTreeObject(nil)
	}
	return tree, err
}

func (r *mirror) mergeEntries(base, ours, theirs string) (string, error) {
	mine, err := r.pairUp(base, ours)
	if err != nil {
		return "", err
	}
	other, err := r.pairUp(base, theirs)
	if err != nil {
		return "", err
	}
	changed := make(map[string]pair, len(mine))
	for _, p := range mine {
		changed[p.name()] = p
	}
	list, err := r.entries(ours)
	if err != nil {
		return "", err
	}
	for _, p := range other {
		merged := p.new
		if m, both := changed[p.name()]; both {
			if merged, err = r.mergeDirectory(m.old, m.new, p.new); err != nil {
				return "", err
			}
		}
		list = slices.DeleteFunc(list, func(e treeEntry) bool { return e.name == p.name() })
		if merged.mode != "" {
			list = append(list, merged)
		}
	}
	return r.writeEntries(list)
}

// mergeDirectory merges both sides' changes below a name.
func (r *mirror) mergeDirectory(base, ours, theirs treeEntry) (treeEntry, error) {
	if base.mode != "" && !base.isTree() || !ours.isTree() || !theirs.isTree() {
		return treeEntry{}, errNeedsGit
	}
	id, err := r.mergeEntries(base.id, ours.id, theirs.id)
	if err != nil || id == "" {
		return treeEntry{}, err
	}
	return treeEntry{mode: modeDirectory, name: ours.name, id: id}, nil
}

// mergeTrees merges trees. Git needs commits, so each tree gets one.
func (r *mirror) mergeTrees(ctx context.Context, base, ours, theirs string) (tree string, conflicts []string, err error) {
	parent, err := r.writeCommit(commitObject{tree: base, message: "base\n"})
	if err != nil {
		return "", nil, err
	}
	var sides []string
	for i, tree := range []string{ours, theirs} {
		side, err := r.writeCommit(commitObject{tree: tree, parent: parent, message: []string{"ours\n", "theirs\n"}[i]})
		if err != nil {
			return "", nil, err
		}
		sides = append(sides, side)
	}
	out, err := r.run(ctx, call{args: []string{"merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", sides[0], sides[1]}})
	var ge *gitError
	if err != nil && (!errors.As(err, &ge) || ge.code != 1) {
		return "", nil, localFault(err, "could not merge two changes")
	}
	fields := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	if err == nil {
		return fields[0], nil, nil
	}
	return "", conflictPaths(fields[1:]), nil
}

// sideSuffix matches the commit that git appends to a path when a file and a directory have the
// same name.
var sideSuffix = regexp.MustCompile(`~[0-9a-f]{40,64}(_[0-9]+)?$`)

func conflictPaths(fields []string) []string {
	var paths []string
	for _, path := range fields {
		if path != "" {
			paths = append(paths, sideSuffix.ReplaceAllString(path, ""))
		}
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	if len(paths) == 0 {
		return []string{"."} // git reports a conflict without a path
	}
	return paths
}
