package workspace

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// Update is how a branch gets the commits of its base.
type Update struct {
	Head   string // commit of the branch
	Base   string // commit of the base
	Remote string // an additional push target, as in PublishOptions, which has both; empty: the repository has
	// Owned are lines that each commit of the branch must have so that the commits are put on top of the
	// base: it is merged if one does not. Empty: it is merged.
	Owned   []string
	Message CommitMessage // of a merge; its author must be that of the owned commits
}

// Updated is a branch with the commits of its base.
type Updated struct {
	Commit    string             // that has them; empty: the branch conflicts with its base
	Workspace contract.Workspace // the content, as a change of the run's base commit; with markers of conflicts
	Conflicts []string           // paths that conflict
	Rebased   bool
}

// Tips returns the newest commits of a branch and of the branch that it is to be merged into, at the push
// target if there is one, and whether the former lacks the latter. The error has code branch_conflict if one of
// them does not exist there.
func (m *Manager) Tips(ctx context.Context, repo contract.Repo, c Continued) (head, base string, behind bool, err error) {
	r, at, lock, err := m.pushTarget(ctx, repo, c.Remote)
	if err != nil {
		return "", "", false, err
	}
	defer lock.release()
	var tips [2]string
	for i, branch := range []string{c.Branch, c.Into} {
		ref, err := m.branchRef(ctx, branch)
		if err != nil {
			return "", "", false, err
		}
		if tips[i], err = r.refAt(ctx, at, ref); err != nil {
			return "", "", false, err
		}
		if tips[i] == "" {
			return "", "", false, movedBranch("the branch %s no longer exists in %s", branch, at)
		}
	}
	if err := r.fetchWhole(ctx, at, "update", tips[:]); err != nil {
		return "", "", false, err
	}
	has, err := r.isAncestor(ctx, tips[1], tips[0])
	return tips[0], tips[1], !has, err
}

// pushTarget returns the mirror of a repository, locked against Prune, and where its branches are pushed.
// The caller releases the lock.
func (m *Manager) pushTarget(ctx context.Context, repo contract.Repo, remote string) (*mirror, source, *heldLock, error) {
	r, _, lock, err := m.use(ctx, repo.URL, repo.Base)
	if err != nil {
		return nil, source{}, nil, err
	}
	targets, err := m.targets(ctx, r.source, PublishOptions{Remote: remote})
	if err != nil {
		lock.release()
		return nil, source{}, nil, err
	}
	return r, targets[len(targets)-1], lock, nil
}

// Update brings the base of a branch into it, without pushing anything: as a merge, or by putting the
// commits of the branch on top of the base. No code of the repository runs. The same input makes the same
// result on every host.
func (m *Manager) Update(ctx context.Context, repo contract.Repo, u Update) (Updated, error) {
	r, at, lock, err := m.pushTarget(ctx, repo, u.Remote)
	if err != nil {
		return Updated{}, err
	}
	defer lock.release()
	if err := r.fetchWhole(ctx, at, "update", []string{u.Head, u.Base}); err != nil {
		return Updated{}, err
	}
	baseTree, _ := r.base(repo.Base)
	out, tree, err := r.update(ctx, u)
	if err != nil {
		return Updated{}, err
	}
	out.Workspace, err = r.based(ctx, contract.Workspace{Repo: repo.URL, Base: repo.Base}, baseTree, tree)
	return out, err
}

func (r *mirror) update(ctx context.Context, u Update) (out Updated, tree string, err error) {
	if len(u.Owned) > 0 {
		commit, tree, err := r.rebase(ctx, u)
		if err != nil || commit != "" {
			return Updated{Commit: commit, Rebased: true}, tree, err
		}
	}
	tree, out.Conflicts, err = r.mergeCommits(ctx, u.Head, u.Base)
	switch {
	case err != nil:
		return out, "", err
	case tree == "":
		return out, "", movedBranch("the commits %.12s and %.12s have no common history, so they cannot be merged", u.Head, u.Base)
	case len(out.Conflicts) > 0:
		return out, tree, nil
	}
	c := u.Message.commit(tree, u.Head)
	c.second = u.Base
	out.Commit, err = r.writeCommit(c)
	return out, tree, err
}

// UpdateCommits makes the commits of a release that brings the base into a branch, and returns the last one.
// point is what Update made. If it has conflicts, the last stage resolves them, and is the content of the
// merge; otherwise, each stage becomes a commit after it.
func (m *Manager) UpdateCommits(ctx context.Context, repo contract.Repo, u Update, point contract.BranchPoint, stages []contract.Workspace, messages []CommitMessage) (string, error) {
	made, err := m.Update(ctx, repo, u)
	if err != nil {
		return "", err
	}
	if made.Commit != point.Commit || made.Workspace.Tree != point.Workspace.Tree {
		return "", runtimeFault("bringing %.12s into %.12s has another result than before; nothing was released", u.Base, u.Head)
	}
	r, baseTree, lock, err := m.use(ctx, repo.URL, repo.Base)
	if err != nil {
		return "", err
	}
	defer lock.release()
	if made.Commit != "" {
		return r.commitStages(ctx, repo, baseTree, made.Commit, made.Workspace.Tree, stages, messages)
	}
	if len(stages) == 0 {
		return "", runtimeFault("nothing resolves the conflicts of %.12s with %.12s; nothing was released", u.Head, u.Base)
	}
	last := stages[len(stages)-1]
	if err := r.ensure(ctx, last.Of(contract.Workspace{Repo: repo.URL, Base: repo.Base}), baseTree); err != nil {
		return "", err
	}
	c := u.Message.commit(last.Tree, u.Head)
	c.second = u.Base
	return r.writeCommit(c)
}

// ContentOf returns a commit that Tips or Update has fetched as a change of the run's base commit.
func (m *Manager) ContentOf(ctx context.Context, repo contract.Repo, commit string) (contract.Workspace, error) {
	r, baseTree, lock, err := m.use(ctx, repo.URL, repo.Base)
	if err != nil {
		return contract.Workspace{}, err
	}
	defer lock.release()
	tree, err := r.treeOfCommit(ctx, commit)
	if err != nil {
		return contract.Workspace{}, err
	}
	return r.based(ctx, contract.Workspace{Repo: repo.URL, Base: repo.Base}, baseTree, tree)
}

// rebase puts the commits of a branch on top of its base. It returns no commit if one of them is not owned, or
// does not apply without a conflict.
func (r *mirror) rebase(ctx context.Context, u Update) (commit, tree string, err error) {
	list, err := r.git(ctx, "rev-list", "--reverse", "--topo-order", fmt.Sprintf("--max-count=%d", maxRebased+1), u.Head, "^"+u.Base, "--")
	if err != nil {
		return "", "", localFault(err, "could not list the commits of %.12s", u.Head)
	}
	commits := strings.Fields(list)
	if len(commits) == 0 || len(commits) > maxRebased {
		return "", "", nil
	}
	commit = u.Base
	if tree, err = r.treeOfCommit(ctx, u.Base); err != nil {
		return "", "", err
	}
	for _, id := range commits {
		text, err := r.git(ctx, "cat-file", "commit", id)
		if err != nil {
			return "", "", localFault(err, "could not read commit %.12s", id)
		}
		old, owned := u.owned(text)
		if !owned {
			return "", "", nil
		}
		before, err := r.treeOfCommit(ctx, old.parent)
		if err != nil {
			return "", "", err
		}
		next, conflicts, err := r.mergeTrees(ctx, before, tree, old.tree)
		if err != nil || len(conflicts) > 0 {
			return "", "", err
		}
		if next == tree {
			continue // the base has the change already
		}
		head, body, _ := strings.Cut(text, "\n\n")
		fields := strings.Split(head, "\n")
		fields[0], fields[1] = "tree "+next, "parent "+commit
		if commit, err = r.writeObject(kindCommit, len(next), []byte(strings.Join(fields, "\n")+"\n\n"+body)); err != nil {
			return "", "", wrapf(err, "could not store a commit")
		}
		tree = next
	}
	if commit == u.Base {
		return "", "", nil // nothing would be left to review
	}
	return commit, tree, nil
}

// owned reads a commit, and reports whether it is one that a run made: with one parent, its author as
// author and committer, no other headers, and the owned lines in its message.
func (u Update) owned(text string) (commitObject, bool) {
	head, body, _ := strings.Cut(text, "\n\n")
	fields := strings.Split(head, "\n")
	const headers = 4
	if len(fields) != headers {
		return commitObject{}, false
	}
	c := commitObject{}
	var is [headers]bool
	c.tree, is[0] = strings.CutPrefix(fields[0], "tree ")
	c.parent, is[1] = strings.CutPrefix(fields[1], "parent ")
	who := fmt.Sprintf(" %s <%s> ", identity(u.Message.AuthorName, defaultAuthor), identity(u.Message.AuthorEmail, defaultEmail))
	is[2], is[3] = strings.HasPrefix(fields[2], "author"+who), strings.HasPrefix(fields[3], "committer"+who)
	if slices.Contains(is[:], false) {
		return c, false
	}
	lines := strings.Split(body, "\n")
	return c, !slices.ContainsFunc(u.Owned, func(line string) bool { return !slices.Contains(lines, line) })
}

// maxMarked is the size of the largest file in which markers of conflicts are looked for.
const maxMarked = 16 << 20

// Markers returns the conflicting files of an automatic merge in which a later state has markers of conflicts: those
// with the commits of the merge, and lines between the two sides beyond those that were there before.
func (m *Manager) Markers(ctx context.Context, merged, resolved contract.Workspace, head, base string, paths []string) (left []string, err error) {
	for _, path := range paths {
		after, found, err := m.File(ctx, resolved, path, maxMarked)
		if err != nil {
			return nil, err
		}
		if !found {
			continue
		}
		before, _, err := m.File(ctx, merged, path, maxMarked)
		if err != nil {
			return nil, err
		}
		if hasMarkers(before, after, head, base) {
			left = append(left, path)
		}
	}
	return left, nil
}

// The lines that git writes around conflicting changes, before the name of the side.
const (
	markOurs   = "<<<<<<< "
	markMiddle = "======="
	markTheirs = ">>>>>>> "
)

func hasMarkers(before, after []byte, head, base string) bool {
	was, is := markers(before, head, base), markers(after, head, base)
	return is.sides > 0 || is.middles > max(was.middles-was.ours, 0)
}

// marks counts the lines of a file that may be markers.
type marks struct {
	ours, sides, middles int
}

func markers(content []byte, head, base string) (out marks) {
	for line := range bytes.Lines(content) {
		text := string(bytes.TrimRight(line, "\r\n"))
		switch {
		case strings.HasPrefix(text, markOurs+head):
			out.ours++
			out.sides++
		case strings.HasPrefix(text, markTheirs+base):
			out.sides++
		case text == markMiddle:
			out.middles++
		}
	}
	return out
}

// Conflicts returns the conflicting parts of files with markers, the files in order, at most most bytes.
func (m *Manager) Conflicts(ctx context.Context, ws contract.Workspace, paths []string, most int) (string, error) {
	const around = 5 // lines
	var out strings.Builder
	for _, path := range paths {
		content, found, err := m.File(ctx, ws, path, maxMarked)
		switch {
		case err != nil:
			return "", err
		case !found:
			fmt.Fprintf(&out, "%s: not a regular file any longer, or deleted\n", path)
			continue
		case bytes.IndexByte(content, 0) >= 0:
			fmt.Fprintf(&out, "%s: a binary file, as it is on the branch\n", path)
			continue
		}
		lines, until, inside := strings.SplitAfter(string(content), "\n"), 0, false
		shown := false
		for i, line := range lines {
			if strings.HasPrefix(line, markOurs) {
				fmt.Fprintf(&out, "%s, from line %d:\n", path, max(i-around, 0)+1)
				out.WriteString(strings.Join(lines[min(max(i-around, until), i):i], ""))
				inside, shown = true, true
			}
			if inside || i < until {
				out.WriteString(line)
			}
			if strings.HasPrefix(line, markTheirs) {
				inside, until = false, i+1+around
			}
			if out.Len() > most {
				return strings.ToValidUTF8(out.String()[:most], "") + "\n… (cut)", nil
			}
		}
		if !shown {
			fmt.Fprintf(&out, "%s: no markers, because one side deleted, moved or replaced it\n", path)
		}
	}
	return out.String(), nil
}
