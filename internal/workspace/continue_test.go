package workspace

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// released is a repository with a released branch.
func released(t *testing.T) (m *Manager, repo, commit string, c Continued) {
	t.Helper()
	m, repo, r, stages, messages := release(t)
	commit, err := m.Commits(t.Context(), r, stages, messages)
	require.NoError(t, err)
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
	return m, repo, commit, Continued{Branch: "rgpt/run-1", Released: commit, Into: "main"}
}

// commitOn adds a commit of a person to a branch.
func commitOn(t *testing.T, repo, branch, file string) string {
	t.Helper()
	userGit(t, repo, "checkout", "-q", branch)
	write(t, repo, file, "by hand\n")
	userGit(t, repo, "add", "-A")
	userGit(t, repo, "commit", "-qm", "By hand")
	userGit(t, repo, "checkout", "-q", "main")
	return userGit(t, repo, "rev-parse", branch)
}

func TestABranchIsContinuedFromWherePeopleLeftIt(t *testing.T) {
	t.Parallel()
	m, repo, commit, c := released(t)
	head, err := m.Head(t.Context(), repo, c)
	require.NoError(t, err)
	require.Equal(t, commit, head)
	mine := commitOn(t, repo, "rgpt/run-1", "person.txt")
	for _, of := range []string{repo, "file://" + repo} {
		head, err = m.Head(t.Context(), of, c)
		require.NoError(t, err, of)
		require.Equal(t, mine, head, of)
	}
	r, _ := start(t, m, repo)
	r.Base = mine
	ws, err := m.Start(t.Context(), r)
	require.NoError(t, err)
	next := edit(t, m, ws, "2", func(dir string) { write(t, dir, "three.txt", "3\n") })
	more, err := m.Commits(t.Context(), r, []contract.Workspace{next}, []CommitMessage{{Subject: "Add three"}})
	require.NoError(t, err)
	require.NoError(t, m.CheckContinued(t.Context(), r, "rgpt/run-1", ""))
	require.NoError(t, m.Publish(t.Context(), r, more, "rgpt/run-1", PublishOptions{Replaces: mine}))
	require.Equal(t, "Add three\nBy hand\nAdd two\nAdd one\nfirst", userGit(t, repo, "log", "--format=%s", "rgpt/run-1"))
	err = m.CheckContinued(t.Context(), r, "rgpt/run-1", "")
	require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
}

func TestABranchThatCannotBeContinuedIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(t *testing.T, repo string, c *Continued)
		says   string
	}{
		"deleted":     {func(t *testing.T, repo string, _ *Continued) { userGit(t, repo, "branch", "-D", "rgpt/run-1") }, "no longer exists"},
		"rewritten":   {func(t *testing.T, repo string, _ *Continued) { userGit(t, repo, "branch", "-f", "rgpt/run-1", "main") }, "does not contain the released commit"},
		"merged":      {func(t *testing.T, repo string, _ *Continued) { userGit(t, repo, "merge", "-q", "rgpt/run-1") }, "already merged into main"},
		"checked out": {func(t *testing.T, repo string, _ *Continued) { userGit(t, repo, "checkout", "-q", "rgpt/run-1") }, "is checked out in"},
		"ahead at the remote": {func(t *testing.T, repo string, c *Continued) {
			c.Remote = filepath.Join(t.TempDir(), "origin.git")
			userGit(t, repo, "clone", "-q", "--bare", repo, c.Remote)
			commitOn(t, repo, "rgpt/run-1", "more.txt")
			userGit(t, repo, "push", "-q", c.Remote, "rgpt/run-1")
			userGit(t, repo, "branch", "-f", "rgpt/run-1", c.Released)
		}, "make both equal"},
		"gone at the remote": {func(t *testing.T, repo string, c *Continued) {
			c.Remote = filepath.Join(t.TempDir(), "origin.git")
			userGit(t, repo, "clone", "-q", "--bare", repo, c.Remote)
			userGit(t, c.Remote, "branch", "-D", "rgpt/run-1")
		}, "no longer exists at"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, repo, _, c := released(t)
			test.change(t, repo, &c)
			_, err := m.Head(t.Context(), repo, c)
			require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
			require.ErrorContains(t, err, test.says)
		})
	}
}

// pushed is a released branch to which people push: in the repository, or at a remote.
func pushed(t *testing.T, remote bool) (m *Manager, repo, at string, r contract.Repo, c Continued) {
	t.Helper()
	m, repo, released, c := released(t)
	require.Equal(t, released, c.Released)
	r, _ = start(t, m, repo)
	at = repo
	if remote {
		at = filepath.Join(t.TempDir(), "origin.git")
		userGit(t, repo, "clone", "-q", "--bare", repo, at)
		userGit(t, repo, "remote", "add", "origin", at)
		c.Remote = "origin"
	}
	return m, repo, at, r, c
}

// pushes adds a commit of a person to a branch of a repository, in a clone of it.
func pushes(t *testing.T, at, branch, file, content string, options ...string) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	userGit(t, at, "clone", "-q", "--branch", branch, at, clone)
	write(t, clone, file, content)
	userGit(t, clone, "add", "-A")
	userGit(t, clone, append([]string{"commit", "-qm", "By hand", "--author", "Ann <12+ann@users.noreply.example.com>"}, options...)...)
	userGit(t, clone, "push", "-q", "--force", "origin", branch)
	return userGit(t, clone, "rev-parse", "HEAD")
}

func TestWhatPeoplePushIsTakenWithTheirNamesAndTheReleaseIsMadeOnTopOfIt(t *testing.T) {
	t.Parallel()
	for name, remote := range map[string]bool{"in the repository": false, "at its remote": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, repo, at, r, c := pushed(t, remote)
			same, err := m.Pushed(t.Context(), r, c)
			require.NoError(t, err)
			require.Equal(t, Pushed{Commit: c.Released}, same)

			theirs := pushes(t, at, "rgpt/run-1", "person.txt", "by hand\n")
			for _, host := range []*Manager{m, anotherHost(t, m)} {
				got, err := host.Pushed(t.Context(), r, c)
				require.NoError(t, err)
				require.Equal(t, theirs, got.Commit)
				require.Equal(t, 1, got.Commits)
				require.False(t, got.Rewritten)
				require.Equal(t, []string{"Ann", "12+ann@users.noreply.example.com", "ann", "User", "user@example.com"}, got.People)
				require.Equal(t, r.Base, got.Workspace.Base)
				stat, err := host.DiffStat(t.Context(), got.Workspace)
				require.NoError(t, err)
				require.Equal(t, []string{"one.txt", "person.txt", "two.txt"}, stat.Paths())
			}
			require.Equal(t, theirs, userGit(t, repo, "rev-parse", "rgpt/run-1"), "the repository has it too")

			got, err := m.Pushed(t.Context(), r, c)
			require.NoError(t, err)
			next := edit(t, m, got.Workspace, "2", func(dir string) { write(t, dir, "three.txt", "3\n") })
			stat, err := m.DiffStatBetween(t.Context(), got.Workspace, next)
			require.NoError(t, err)
			require.Equal(t, []string{"three.txt"}, stat.Paths())
			message := []CommitMessage{{Subject: "Add three"}}
			more, err := anotherHost(t, m).CommitsOnto(t.Context(), r, theirs, []contract.Workspace{next.Slim()}, message)
			require.NoError(t, err)
			again, err := m.CommitsOnto(t.Context(), r, theirs, []contract.Workspace{next.Slim()}, message)
			require.NoError(t, err)
			require.Equal(t, more, again)
			require.NoError(t, m.Publish(t.Context(), r, again, "rgpt/run-1", PublishOptions{Replaces: theirs, Remote: c.Remote}))
			for _, dir := range []string{repo, at} {
				require.Equal(t, "Add three\nBy hand\nAdd two\nAdd one\nfirst", userGit(t, dir, "log", "--format=%s", "rgpt/run-1"), dir)
				userGit(t, dir, "fsck", "--strict")
			}
			nothing, err := m.CommitsOnto(t.Context(), r, theirs, []contract.Workspace{got.Workspace.Slim()}, message)
			require.NoError(t, err)
			require.Equal(t, theirs, nothing, "a run may have nothing to add")
		})
	}
}

func TestAMergeOfThePersonBringsTheHistoryThatTheRepositoryLacks(t *testing.T) {
	t.Parallel()
	m, repo, at, r, c := pushed(t, true)
	pushes(t, at, "main", "later.txt", "later\n")
	clone := filepath.Join(t.TempDir(), "clone")
	userGit(t, at, "clone", "-q", "--branch", "rgpt/run-1", at, clone)
	userGit(t, clone, "merge", "-q", "-m", "Merge main", "origin/main")
	userGit(t, clone, "push", "-q", "origin", "rgpt/run-1")
	got, err := m.Pushed(t.Context(), r, c)
	require.NoError(t, err)
	require.Equal(t, 1, got.Commits, "the commits that the merge brought are not the person's")
	require.NotContains(t, got.People, "ann")
	require.Equal(t, got.Commit, userGit(t, repo, "rev-parse", "rgpt/run-1"))
	userGit(t, repo, "fsck", "--strict")
}

func TestARebaseMakesNobodyAnAuthorWhoseCommitsWereMergedBefore(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]func(repo, at string) (repository, remote string){
		"in the repository": func(repo, _ string) (string, string) { return repo, "" },
		"in a remote one":   func(repo, _ string) (string, string) { return "file://" + repo, "" },
		"at its remote":     func(repo, _ string) (string, string) { return repo, "origin" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, repo, at, r, c := pushed(t, name == "at its remote")
			r.URL, c.Remote = of(repo, at)
			if name != "at its remote" {
				userGit(t, repo, "checkout", "-q", "--detach")
			}
			pushes(t, at, "main", "colleague.txt", "by Ann\n")
			clone := filepath.Join(t.TempDir(), "clone")
			userGit(t, at, "clone", "-q", "--branch", "rgpt/run-1", at, clone)
			userGit(t, clone, "rebase", "-q", "origin/main")
			userGit(t, clone, "push", "-q", "--force", "origin", "rgpt/run-1")
			pushes(t, at, "main", "later.txt", "by Ann\n")
			got, err := m.Pushed(t.Context(), r, c)
			require.NoError(t, err)
			require.True(t, got.Rewritten)
			require.Equal(t, 2, got.Commits, "those of the run")
			require.NotContains(t, got.People, "ann")
			require.Contains(t, got.People, "user@example.com")
		})
	}
}

func TestABranchThatWasRewrittenIsTakenOnlyIfItDescendsFromTheBase(t *testing.T) {
	t.Parallel()
	for name, remote := range map[string]bool{"in the repository": false, "at its remote": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, repo, at, r, c := pushed(t, remote)
			theirs := pushes(t, at, "rgpt/run-1", "person.txt", "by hand\n", "--amend")
			got, err := m.Pushed(t.Context(), r, c)
			require.NoError(t, err)
			require.True(t, got.Rewritten)
			require.Equal(t, theirs, got.Commit)
			require.Contains(t, got.People, "ann")
			require.Equal(t, theirs, userGit(t, repo, "rev-parse", "rgpt/run-1"))

			userGit(t, at, "branch", "-f", "rgpt/run-1", userGit(t, at, "commit-tree", "-m", "unrelated", theirs+"^{tree}"))
			c.Released = theirs
			_, err = m.Pushed(t.Context(), r, c)
			require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
			require.ErrorContains(t, err, "does not contain the commit")
		})
	}
}

func TestWhatAPersonCommitsWhereTheBranchIsCheckedOutIsTaken(t *testing.T) {
	t.Parallel()
	m, repo, _, r, c := pushed(t, false)
	theirs := commitOn(t, repo, "rgpt/run-1", "person.txt")
	userGit(t, repo, "checkout", "-q", "rgpt/run-1")
	got, err := m.Pushed(t.Context(), r, c)
	require.NoError(t, err)
	require.Equal(t, theirs, got.Commit)
	require.Equal(t, 1, got.Commits)
}

func TestAMovedBranchThatCannotBeAddedToIsRefusedWithWhatToDo(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(t *testing.T, repo, at string)
		says   string
	}{
		"deleted": {func(t *testing.T, _, at string) { userGit(t, at, "branch", "-D", "rgpt/run-1") }, "no longer exists"},
		"moved in both": {func(t *testing.T, repo, at string) {
			pushes(t, at, "rgpt/run-1", "theirs.txt", "1")
			pushes(t, repo, "rgpt/run-1", "mine.txt", "2")
		}, "make both equal"},
		"checked out": {func(t *testing.T, repo, at string) {
			pushes(t, at, "rgpt/run-1", "theirs.txt", "1")
			userGit(t, repo, "checkout", "-q", "rgpt/run-1")
		}, "is checked out in"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, repo, at, r, c := pushed(t, true)
			test.change(t, repo, at)
			before := userGit(t, repo, "rev-parse", "rgpt/run-1")
			_, err := m.Pushed(t.Context(), r, c)
			require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
			require.ErrorContains(t, err, test.says)
			require.Equal(t, before, userGit(t, repo, "rev-parse", "rgpt/run-1"))
		})
	}
}

func TestAReleaseThatTheRemoteRefusesMovesNothing(t *testing.T) {
	t.Parallel()
	m, repo, at, r, c := pushed(t, true)
	theirs := pushes(t, at, "rgpt/run-1", "person.txt", "by hand\n")
	_, ws := start(t, m, repo)
	next := edit(t, m, ws, "2", func(dir string) { write(t, dir, "three.txt", "3\n") })
	mine, err := m.Commits(t.Context(), r, []contract.Workspace{next.Slim()}, []CommitMessage{{Subject: "Mine"}})
	require.NoError(t, err)
	err = m.Publish(t.Context(), r, mine, "rgpt/run-1", PublishOptions{Replaces: c.Released, Remote: "origin"})
	require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
	require.Equal(t, theirs, userGit(t, at, "rev-parse", "rgpt/run-1"))
	require.Equal(t, c.Released, userGit(t, repo, "rev-parse", "rgpt/run-1"))
}
