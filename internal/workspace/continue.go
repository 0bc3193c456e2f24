package workspace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// ancestryDepth is how many generations of a remote repository's history are searched for a commit.
const ancestryDepth = 1000

// Continued is a branch that a run released and another one continues.
type Continued struct {
	Branch   string
	Released string // the commit that was released to it
	Into     string // the branch that it is to be merged into; empty: unknown
	Remote   string // an additional push target, as in PublishOptions; empty: none
}

// Head returns the commit from which a run can continue a branch: its current one, which may contain
// commits that people added. The error has code branch_conflict and says what to do if the branch was
// deleted, lost the released commit or was merged, if its copies in the repository and at the push
// target differ, or if it is checked out, so that a push could not update it.
func (m *Manager) Head(ctx context.Context, repo string, c Continued) (string, error) {
	ref, err := m.branchRef(ctx, c.Branch)
	if err != nil {
		return "", err
	}
	r, err := m.mirrorOf(repo)
	if err != nil {
		return "", err
	}
	refs, err := m.remoteIDs(ctx, m.options.CacheDir, r.source, ref, "refs/heads/"+cmp.Or(c.Into, c.Branch))
	if err != nil {
		return "", err
	}
	head := refs[ref]
	if head == "" {
		return "", goneBranch(r.source, c)
	}
	if err := m.sameAtRemote(ctx, r.source, c, ref, head); err != nil {
		return "", err
	}
	kept, err := m.contains(ctx, r, head, c.Released)
	if err != nil {
		return "", err
	}
	if !kept {
		return "", movedBranch("the branch %s in %s is at %.12s, which does not contain the released commit %.12s: it was reset or rewritten; "+
			"restore the commit (git branch -f %[1]s %.12[4]s) and follow up again, or start a new run from the branch: rgpt run create --base %[1]s",
			c.Branch, r.source, head, c.Released)
	}
	into := refs["refs/heads/"+c.Into]
	if c.Into == "" || c.Into == c.Branch || into == "" {
		return head, m.notCheckedOut(ctx, r.source, c.Branch)
	}
	merged, err := m.contains(ctx, r, into, head)
	if err != nil {
		return "", err
	}
	if merged {
		return "", movedBranch("the branch %s is already merged into %s of %s, so nothing is left to continue; start a new run from there: rgpt run create --base %[2]s",
			c.Branch, c.Into, r.source)
	}
	return head, m.notCheckedOut(ctx, r.source, c.Branch)
}

// CheckContinued checks in advance whether Publish could move a branch from a commit, at which the
// repository and the push target must have it. Otherwise, the error has code branch_conflict.
func (m *Manager) CheckContinued(ctx context.Context, repo contract.Repo, branch, remote string) error {
	ref, err := m.branchRef(ctx, branch)
	if err != nil {
		return err
	}
	r, err := m.mirrorOf(repo.URL)
	if err != nil {
		return err
	}
	refs, err := m.remoteIDs(ctx, m.options.CacheDir, r.source, ref)
	if err != nil {
		return err
	}
	if there := refs[ref]; there != repo.Base {
		return movedBranch("the branch %s in %s %s, but this run started from its commit %.12s; stop this run and follow up on the branch again",
			branch, r.source, whereItIs(there), repo.Base)
	}
	if err := m.sameAtRemote(ctx, r.source, Continued{Branch: branch, Remote: remote}, ref, repo.Base); err != nil {
		return err
	}
	return m.notCheckedOut(ctx, r.source, branch)
}

// Pushed is what people pushed to a branch that a run released.
type Pushed struct {
	Commit    string             // at which the branch is
	Workspace contract.Workspace // its content, as a change of the run's base commit; empty if the branch has not moved
	Rewritten bool               // it does not contain the commit at which the run knew it
	Commits   int                // that are new, without those that merges brought in; at most MaxPushed
	People    []string           // names and addresses in these commits
}

// MaxPushed is the number of pushed commits whose people are named.
const MaxPushed = 200

// Pushed returns what people pushed to a branch since it was at c.Released. If they pushed to the
// remote, the repository gets their commits as well. The error has code branch_conflict if the branch
// was deleted or no longer contains the base commit, if both copies were moved differently, or if the
// repository lacks commits of the remote and has the branch checked out, so that a push could not update it.
func (m *Manager) Pushed(ctx context.Context, repo contract.Repo, c Continued) (Pushed, error) {
	ref, err := m.branchRef(ctx, c.Branch)
	if err != nil {
		return Pushed{}, err
	}
	r, _, lock, err := m.use(ctx, repo.URL, repo.Base)
	if err != nil {
		return Pushed{}, err
	}
	defer lock.release()
	targets, err := m.targets(ctx, r.source, PublishOptions{Remote: c.Remote})
	if err != nil {
		return Pushed{}, err
	}
	here, err := r.refAt(ctx, r.source, ref)
	if err != nil {
		return Pushed{}, err
	}
	at, there := targets[len(targets)-1], here
	apart := at != r.source
	if apart {
		if there, err = r.refAt(ctx, at, ref); err != nil {
			return Pushed{}, err
		}
	}
	switch {
	case there == "":
		return Pushed{}, movedBranch("the branch %s no longer exists in %s, so the run cannot add to it; restore it (git branch %[1]s %.12[3]s), or stop the run", c.Branch, at, c.Released)
	case there == c.Released && here == c.Released:
		return Pushed{Commit: there}, nil
	case here != there && here != c.Released:
		return Pushed{}, movedBranch("the branch %s %s in %s, but %s at %s, where its commits are pushed; make both equal, or stop the run",
			c.Branch, whereItIs(here), r.source, whereItIs(there), at)
	}
	if here != there {
		if err := m.notCheckedOut(ctx, r.source, c.Branch); err != nil {
			return Pushed{}, err
		}
	}
	out, err := m.takePushed(ctx, r, at, repo, c, there)
	if err == nil && here != there {
		err = r.push(ctx, r.source, update{commit: there, ref: ref, replaces: c.Released, from: ref})
	}
	return out, err
}

// takePushed describes a commit that people pushed to a branch of a repository, which may be another one
// than that of the mirror.
func (m *Manager) takePushed(ctx context.Context, r *mirror, at source, repo contract.Repo, c Continued, head string) (Pushed, error) {
	out := Pushed{Commit: head}
	git, contains := r.git, m.contains
	if at != r.source {
		contains = func(ctx context.Context, r *mirror, head, commit string) (bool, error) {
			return r.isAncestor(ctx, commit, head)
		}
		if _, err := r.fetchFrom(ctx, at, head); err != nil {
			return out, err
		}
	} else if r.source.local {
		git = func(ctx context.Context, args ...string) (string, error) {
			return m.local(ctx, r.source.address, nil, args...)
		}
	}
	_, tree, lock, err := m.use(ctx, repo.URL, head)
	if err != nil {
		return out, err
	}
	defer lock.release()
	descends, err := contains(ctx, r, head, repo.Base)
	if err != nil {
		return out, err
	}
	if !descends {
		return out, movedBranch("the branch %s in %s is at %.12s, which does not contain the commit %.12s that the run started from: it was rewritten; "+
			"restore it (git branch -f %[1]s %.12[5]s), or stop the run", c.Branch, at, head, repo.Base, c.Released)
	}
	kept, err := contains(ctx, r, head, c.Released)
	if err != nil {
		return out, err
	}
	args := []string{
		"log", "--first-parent", "--no-show-signature", "--no-mailmap", "--no-color", "-n", strconv.Itoa(MaxPushed),
		"--format=%x00%an%x00%ae%x00%cn%x00%ce", head,
	}
	if out.Rewritten = !kept; out.Rewritten {
		into, err := m.tipOfInto(ctx, r, at, c)
		if err != nil {
			return out, err
		}
		args = append(args, "^"+repo.Base)
		if into != "" {
			args = append(args, "^"+into)
		}
	} else {
		args = append(args, "^"+c.Released)
	}
	text, err := git(ctx, append(args, "--")...)
	if err != nil {
		return out, localFault(err, "could not read who pushed to %s", c.Branch)
	}
	out.Commits, out.People = peopleOf(text)
	out.Workspace, err = m.Onto(ctx, contract.Workspace{Repo: repo.URL, Base: head, Tree: tree}, repo.Base)
	return out, err
}

// tipOfInto returns the newest commit of the branch that a branch is to be merged into, and makes its
// history available; "" if it is unknown. A branch that was rebased has commits of others from there.
func (m *Manager) tipOfInto(ctx context.Context, r *mirror, at source, c Continued) (string, error) {
	if c.Into == "" || c.Into == c.Branch {
		return "", nil
	}
	tip, err := r.refAt(ctx, at, "refs/heads/"+c.Into)
	switch {
	case err != nil || tip == "":
		return "", err
	case at != r.source:
		_, err = r.fetchFrom(ctx, at, tip)
		return tip, err
	case r.source.local:
		return tip, nil
	}
	_, _, lock, err := m.use(ctx, r.source.address, tip)
	if err != nil {
		return "", err
	}
	defer lock.release()
	return tip, r.fetchCommits(ctx, tip, ancestryDepth)
}

// git runs git on the mirror, and returns its output as text.
func (r *mirror) git(ctx context.Context, args ...string) (string, error) {
	out, err := r.run(ctx, call{args: args})
	return string(out), err
}

// peopleOf reads the authors and committers of commits.
func peopleOf(log string) (commits int, people []string) {
	const each = 4 // names and addresses of a commit
	fields := strings.Split(strings.TrimPrefix(log, "\x00"), "\x00")
	for i, field := range fields {
		if i%each == each-1 {
			commits++
		}
		for _, name := range []string{oneLine(field), loginOf(oneLine(field))} {
			if name != "" && !slices.Contains(people, name) {
				people = append(people, name)
			}
		}
	}
	return commits, people
}

// loginOf returns the name on a forge in an address that hides the real one, such as
// 123+ann@users.noreply.example.com; empty: it is another address.
func loginOf(address string) string {
	local, host, _ := strings.Cut(address, "@")
	if !strings.Contains(host, "noreply") {
		return ""
	}
	_, login, numbered := strings.Cut(local, "+")
	if !numbered {
		return local
	}
	return login
}

// isAncestor reports whether a commit is in the history of another one, as far as the mirror has it.
func (r *mirror) isAncestor(ctx context.Context, commit, head string) (bool, error) {
	_, err := r.run(ctx, call{args: []string{"merge-base", "--is-ancestor", commit, head}})
	return isAncestor(err)
}

// isAncestor reads the answer of git merge-base --is-ancestor from its error. A commit that is not there
// is in no history.
func isAncestor(err error) (bool, error) {
	var ge *gitError
	if errors.As(err, &ge) {
		return false, nil
	}
	return err == nil, err
}

func whereItIs(commit string) string {
	if commit == "" {
		return "was deleted"
	}
	return fmt.Sprintf("is now at %.12s", commit)
}

func movedBranch(format string, args ...any) error {
	return fault.New(contract.ClassLogic, contract.CodeBranchConflict, format, args...)
}

func goneBranch(repo source, c Continued) error {
	return movedBranch("the branch %s no longer exists in %s; if it was merged, start a new run from where it was merged into (rgpt run create), "+
		"otherwise restore it (git branch %[1]s %.12[3]s) and follow up again", c.Branch, repo, c.Released)
}

// sameAtRemote checks that the push target has a branch at the same commit as the repository. If a
// person pushed commits there, the repository must have them first: a run starts from it.
func (m *Manager) sameAtRemote(ctx context.Context, repo source, c Continued, ref, head string) error {
	if c.Remote == "" {
		return nil
	}
	remote, err := m.remote(ctx, repo, c.Remote)
	if err != nil || remote == repo {
		return err
	}
	refs, err := m.remoteIDs(ctx, m.options.CacheDir, remote, ref)
	if err != nil {
		return err
	}
	switch there := refs[ref]; there {
	case head:
		return nil
	case "":
		return movedBranch("the branch %s no longer exists at %s, where its commits are pushed; if it was merged, start a new run (rgpt run create), otherwise push it there again", c.Branch, remote)
	default:
		return movedBranch("the branch %s is at %.12s in %s, but at %.12s at %s, where its commits are pushed; make both equal "+
			"(in the repository: git fetch %s %[1]s:%[1]s) and follow up again", c.Branch, head, repo, there, remote, c.Remote)
	}
}

// contains reports whether a commit is in the history of another one. Of a remote repository, only
// the newest part of the history is searched.
func (m *Manager) contains(ctx context.Context, r *mirror, head, commit string) (bool, error) {
	if head == commit {
		return true, nil
	}
	if !commitID.MatchString(head) || !commitID.MatchString(commit) {
		return false, runtimeFault("invalid commits %q and %q", head, commit)
	}
	if r.source.local {
		_, err := m.local(ctx, r.source.address, nil, "merge-base", "--is-ancestor", commit, head)
		return isAncestor(err)
	}
	_, _, lock, err := m.use(ctx, r.source.address, head)
	if err != nil {
		return false, err
	}
	defer lock.release()
	if err := r.fetchCommits(ctx, head, ancestryDepth); err != nil {
		return false, err
	}
	return r.isAncestor(ctx, commit, head)
}

// notCheckedOut checks that no work tree of a repository on this host has a branch checked out: a
// push does not change a work tree, so it cannot update such a branch.
func (m *Manager) notCheckedOut(ctx context.Context, repo source, branch string) error {
	if !repo.local {
		return nil
	}
	out, err := m.local(ctx, repo.address, nil, "worktree", "list", "--porcelain")
	if err != nil {
		return localFault(err, "could not list the work trees of %s", repo)
	}
	var path string
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if p, ok := strings.CutPrefix(line, "worktree "); ok {
			path = p
		}
		if line == "branch refs/heads/"+branch {
			return movedBranch("the branch %s is checked out in %s, and commits cannot be added to it there; check out another branch (git -C %s switch --detach) and follow up again",
				branch, path, path)
		}
	}
	return nil
}
