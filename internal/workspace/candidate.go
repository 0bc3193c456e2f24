package workspace

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
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

// Ahead are the commits in the history of a commit that a branch does not have.
type Ahead struct {
	Total   int
	Commits []MergeHead // the newest of them, with the first lines of their messages
}

// Ahead returns the commits up to the base of a repository that a branch of one of its remotes does not have: they
// would be merged into the branch with every change of the base. At most so many are named.
func (m *Manager) Ahead(ctx context.Context, repo contract.Repo, remote, branch string, most int) (Ahead, error) {
	ref, err := m.branchRef(ctx, branch)
	if err != nil {
		return Ahead{}, err
	}
	src, err := parseSource(repo.URL)
	if err != nil {
		return Ahead{}, err
	}
	at, err := m.remote(ctx, src, remote)
	if err != nil {
		return Ahead{}, err
	}
	refs, err := m.remoteIDs(ctx, m.options.CacheDir, at, ref)
	if err != nil {
		return Ahead{}, err
	}
	tip := refs[ref]
	if tip == "" {
		return Ahead{}, repoFault("%s has no branch %s", at, branch)
	}
	wanted := []string{repo.Base}
	if at == src {
		wanted = append(wanted, tip)
	}
	r, lock, err := m.history(ctx, repo.URL, wanted)
	if err != nil {
		return Ahead{}, err
	}
	defer lock.release()
	if at != src {
		if _, err := r.fetchFrom(ctx, at, tip); err != nil {
			return Ahead{}, err
		}
	}
	count, err := r.git(ctx, "rev-list", "--count", tip+".."+repo.Base)
	if err != nil {
		return Ahead{}, localFault(err, "could not count the commits that %s does not have", branch)
	}
	out := Ahead{}
	if out.Total, err = strconv.Atoi(strings.TrimSpace(count)); err != nil || out.Total == 0 {
		return out, err
	}
	list, err := r.git(ctx, "log", "-z", "--max-count="+strconv.Itoa(most), "--format=%H %s", tip+".."+repo.Base)
	if err != nil {
		return Ahead{}, localFault(err, "could not list the commits that %s does not have", branch)
	}
	for entry := range strings.SplitSeq(strings.Trim(list, "\x00"), "\x00") {
		commit, subject, _ := strings.Cut(entry, " ")
		out.Commits = append(out.Commits, MergeHead{commit, oneLine(subject)})
	}
	return out, nil
}

// maxRebased is the maximum number of commits of a rebase, made here or compared by Rebased.
const maxRebased = 200

// Rebased reports whether one commit is nothing but a rebase of another one onto a branch, whose newest commit is
// tip: the commits before them that are not on the branch have the same authors and messages, and each has
// exactly the files that the other one gives when it is merged into the commit of the branch where the rebase
// begins. That commit has everything of the branch that the other one has: a rebase onto an older one would
// bring back what the branch has reverted. It is false if there are too many commits to compare.
func (m *Manager) Rebased(ctx context.Context, remote, tip, from, to string) (bool, error) {
	r, lock, err := m.history(ctx, remote, []string{tip, from, to})
	if err != nil {
		return false, err
	}
	defer lock.release()
	begins, err := r.mergeBases(ctx, tip, to)
	if err != nil || len(begins) == 0 {
		return false, err // without one, the histories are unrelated
	}
	base := begins[0]
	begins, err = r.mergeBases(ctx, tip, from)
	if err != nil {
		return false, err
	}
	for _, commit := range begins {
		if has, err := r.isAncestor(ctx, commit, base); err != nil || !has {
			return false, err
		}
	}
	before, err := r.written(ctx, tip, from)
	if err != nil {
		return false, err
	}
	after, err := r.written(ctx, tip, to)
	if err != nil || len(before) == 0 || len(before) != len(after) || len(before) > maxRebased {
		return false, err
	}
	for i, b := range before {
		if b.said != after[i].said {
			return false, nil
		}
		merged, conflicts, err := r.mergeCommits(ctx, base, b.commit)
		if err != nil || len(conflicts) > 0 {
			return false, err
		}
		tree, err := r.treeOfCommit(ctx, after[i].commit)
		if err != nil || tree != merged {
			return false, err
		}
	}
	return true, nil
}

// mergeBases returns the best common ancestors of two commits, none if their histories are unrelated.
func (r *mirror) mergeBases(ctx context.Context, a, b string) ([]string, error) {
	out, err := r.run(ctx, call{args: []string{"merge-base", "--all", a, b}})
	var ge *gitError
	if errors.As(err, &ge) && ge.code == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, localFault(err, "could not find the common ancestors of %.12s and %.12s", a, b)
	}
	return strings.Fields(string(out)), nil
}

// Contains reports whether a commit of a repository is another one or has it in its history.
func (m *Manager) Contains(ctx context.Context, remote, commit, earlier string) (bool, error) {
	if !commitID.MatchString(earlier) {
		return false, repoFault("%q is not a full commit id of %s", fault.Clip(earlier, sha1Length), remote)
	}
	r, lock, err := m.history(ctx, remote, []string{commit})
	if err != nil {
		return false, err
	}
	defer lock.release()
	return r.isAncestor(ctx, earlier, commit)
}

// writtenCommit is a commit with what its author says.
type writtenCommit struct {
	commit, said string
}

// written returns the commits up to one that are not on a branch, the oldest first, at most one more than
// maxRebased.
func (r *mirror) written(ctx context.Context, tip, commit string) ([]writtenCommit, error) {
	out, err := r.run(ctx, call{args: []string{
		"log", "-z", "--reverse", "--topo-order", "--max-count=" + strconv.Itoa(maxRebased+1), "--date=raw", "--format=%H%n%an%n%ae%n%ad%n%P%n%B", tip + ".." + commit,
	}})
	if err != nil {
		return nil, localFault(err, "could not list the commits of %.12s", commit)
	}
	var all []writtenCommit
	for entry := range strings.SplitSeq(strings.Trim(string(out), "\x00"), "\x00") {
		if entry == "" {
			continue
		}
		lines := strings.SplitN(entry, "\n", 6)
		if len(lines) < 6 {
			continue
		}
		merges := strings.Count(lines[4], " ")
		all = append(all, writtenCommit{lines[0], strings.Join(append(lines[1:4], strings.TrimRight(lines[5], "\n"), strconv.Itoa(merges)), "\n")})
	}
	return all, nil
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
	return r.push(ctx, r.source, update{commit: commit, ref: ref})
}

// QueueMessage is the message of the commit that merges a pull request into a candidate.
func QueueMessage(number int64) string {
	return fmt.Sprintf("Merge pull request %d for a test of the merge queue", number)
}
