package workspace

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/fault"
)

// MergeHead is a commit to be merged.
type MergeHead struct {
	Commit  string
	Message string // of the commit that merges it
}

// MergedHead is what became of a commit to be merged.
type MergedHead struct {
	// Conflicts are the paths that conflict; then it was left out.
	Conflicts []string
	// Alone says that it conflicts with the base itself, not only with the heads before it.
	Alone bool
	Tree  string // of the base with this and the earlier heads
}

// Candidate is a base with several commits merged into it.
type Candidate struct {
	Commit string // the base, if nothing was merged
	Tree   string
	Heads  []MergedHead // in the order of the heads
}

// Candidate merges commits of a repository on a forge into a base commit, in order, without those that
// conflict. It has the history of all of them, so that the result is that of git on the forge. No code
// of the repository runs: no hooks, filters or merge drivers. The same input makes the same commit.
// joined says that the heads become parents; otherwise each commit has only the one before it.
func (m *Manager) Candidate(ctx context.Context, remote, base string, heads []MergeHead, joined bool, at time.Time) (Candidate, error) {
	r, lock, err := m.history(ctx, remote, append([]string{base}, commitsOf(heads)...))
	if err != nil {
		return Candidate{}, err
	}
	defer lock.release()
	out := Candidate{Commit: base}
	if out.Tree, err = r.treeOfCommit(ctx, base); err != nil {
		return Candidate{}, err
	}
	for _, h := range heads {
		merged, err := r.mergeHead(ctx, base, &out, h, joined, at)
		if err != nil {
			return Candidate{}, err
		}
		out.Heads = append(out.Heads, merged)
	}
	return out, nil
}

func commitsOf(heads []MergeHead) []string {
	out := make([]string, len(heads))
	for i, h := range heads {
		out[i] = h.Commit
	}
	return out
}

// mergeHead merges a head into a candidate, unless it conflicts.
func (r *mirror) mergeHead(ctx context.Context, base string, onto *Candidate, h MergeHead, joined bool, at time.Time) (MergedHead, error) {
	tree, conflicts, err := r.mergeCommits(ctx, onto.Commit, h.Commit)
	if err != nil {
		return MergedHead{}, err
	}
	if len(conflicts) > 0 {
		alone := onto.Commit == base
		if !alone {
			var own []string
			if _, own, err = r.mergeCommits(ctx, base, h.Commit); err != nil {
				return MergedHead{}, err
			}
			if alone = len(own) > 0; alone {
				conflicts = own
			}
		}
		return MergedHead{Conflicts: conflicts, Alone: alone}, nil
	}
	c := commitObject{tree: tree, parent: onto.Commit, date: at, message: h.Message + "\n"}
	if joined {
		c.second = h.Commit
	}
	if onto.Commit, err = r.writeCommit(c); err != nil {
		return MergedHead{}, err
	}
	onto.Tree = tree
	return MergedHead{Tree: tree}, nil
}

// mergeCommits merges two commits. It returns the paths that conflict, if any do: then the tree has
// conflict markers, with the ids of the commits. Without a tree, the commits have no common history.
func (r *mirror) mergeCommits(ctx context.Context, ours, theirs string) (tree string, conflicts []string, err error) {
	out, err := r.run(ctx, call{args: []string{"merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", ours, theirs}})
	var ge *gitError
	if err == nil || errors.As(err, &ge) && ge.code == 1 {
		fields := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
		if err == nil {
			return fields[0], nil, nil
		}
		return fields[0], conflictPaths(fields[1:]), nil
	}
	if ge != nil && strings.Contains(ge.stderr, "unrelated histories") {
		return "", []string{"."}, nil
	}
	return "", nil, localFault(err, "could not merge %.12s into %.12s", theirs, ours)
}

// treeOfCommit returns the tree of a commit that the mirror has.
func (r *mirror) treeOfCommit(ctx context.Context, commit string) (string, error) {
	tree, err := r.commitTree(commit)
	if !errors.Is(err, errNeedsGit) {
		return tree, err
	}
	out, err := r.run(ctx, call{args: []string{"rev-parse", "--verify", "-q", commit + "^{tree}"}})
	if err != nil {
		return "", repoFault("%s has no commit %s", r.source, commit)
	}
	return strings.TrimSpace(string(out)), nil
}

// history returns the mirror of a repository with the whole history of commits, locked against Prune. The
// caller releases the lock.
func (m *Manager) history(ctx context.Context, remote string, commits []string) (r *mirror, lock *heldLock, err error) {
	if r, err = m.mirrorOf(remote); err != nil {
		return nil, nil, err
	}
	for _, c := range commits {
		if !commitID.MatchString(c) {
			return nil, nil, repoFault("%q is not a full commit id of %s", fault.Clip(c, sha1Length), r.source)
		}
	}
	if lock, err = m.locks.shared(ctx, r.useLock()); err != nil {
		return nil, nil, err
	}
	if err = r.fetchWhole(ctx, r.source, "queue", commits); err == nil {
		err = r.makeBootDir()
	}
	if err != nil {
		lock.release()
		return nil, nil, err
	}
	return r, lock, nil
}

// fetchWhole fetches commits of a repository with their whole history, for a purpose.
func (r *mirror) fetchWhole(ctx context.Context, from source, purpose string, commits []string) error {
	lock, err := r.m.locks.exclusive(ctx, r.fetchLock())
	if err != nil {
		return err
	}
	defer lock.release()
	there := *r
	there.source = from
	if err := there.checkSource(ctx); err != nil {
		return err
	}
	if err := r.init(ctx, len(commits[0])); err != nil {
		return err
	}
	removeStaleLocks(r.gitDir())
	removeStalePacks(r.gitDir())
	option := "--force"
	if len(r.shallow()) > 0 {
		option = "--unshallow"
	}
	var specs []string
	for i, c := range commits { // the references of the last time are replaced
		specs = append(specs, "+"+c+":refs/rgpt/"+purpose+"/"+strconv.Itoa(i))
	}
	err = there.runFetch(ctx, lock, option, specs...)
	var ge *gitError
	if errors.As(err, &ge) && strings.Contains(ge.stderr, "not our ref") {
		return repoFault("%s does not have all of the commits %s", from, strings.Join(commits, ", "))
	}
	if err != nil {
		return remoteFault(err, "could not fetch the history of %s", escapePercent(from.String()))
	}
	return nil
}

// TreeOf returns the tree of a commit of a repository, which is fetched if necessary.
func (m *Manager) TreeOf(ctx context.Context, remote, commit string) (string, error) {
	r, lock, err := m.history(ctx, remote, []string{commit})
	if err != nil {
		return "", err
	}
	defer lock.release()
	return r.treeOfCommit(ctx, commit)
}

// PushCandidate creates a branch of a repository at a commit that Candidate made on this host. A branch that is at this commit already is accepted; one at another commit is left unchanged,
// and the error has code branch_conflict.
func (m *Manager) PushCandidate(ctx context.Context, remote string, commit, branch string) error {
	r, err := m.mirrorOf(remote)
	if err != nil {
		return err
	}
	ref, err := m.branchRef(ctx, branch)
	if err != nil {
		return err
	}
	lock, err := m.locks.shared(ctx, r.useLock())
	if err != nil {
		return err
	}
	defer lock.release()
	if err := r.checkSource(ctx); err != nil {
		return err
	}
	return r.push(ctx, r.source, commit, ref, "")
}

// QueueMessage is the message of the commit that merges a pull request into a candidate.
func QueueMessage(number int64) string {
	return fmt.Sprintf("Merge pull request %d for a test of the merge queue", number)
}
