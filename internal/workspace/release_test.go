package workspace

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/proc/proctest"
)

// release is a repository with two stages of work on it.
func release(t *testing.T) (m *Manager, repo string, r contract.Repo, stages []contract.Workspace, messages []CommitMessage) {
	t.Helper()
	repo = newRepo(t, map[string]string{"a.txt": "a\n"})
	m = newManager(t)
	r, ws := start(t, m, repo)
	one := edit(t, m, ws, "1", func(dir string) { write(t, dir, "one.txt", "1\n") })
	two := edit(t, m, one, "1", func(dir string) { write(t, dir, "two.txt", "2\n") })
	date := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	return m, repo, r, []contract.Workspace{one.Slim(), one.Slim(), two.Slim()}, []CommitMessage{
		{Subject: "Add one", Body: "Because.\r\n\r\nReally.", Trailers: [][2]string{{"RGPT-Run", "1"}, {"RGPT-Step", "step-001"}}, AuthorName: "Ada", AuthorEmail: "ada@example.com", Date: date},
		{Subject: "nothing"},
		{Subject: "Add\ntwo", Trailers: [][2]string{{"RGPT-Run", "1"}, {"Empty", ""}}, AuthorName: " <>\n", Date: date},
	}
}

func TestCommitsAreLinearSkipEmptyStagesAndRepeatExactly(t *testing.T) {
	t.Parallel()
	m, repo, r, stages, messages := release(t)
	commit, err := m.Commits(t.Context(), r, stages, messages)
	require.NoError(t, err)
	again, err := anotherHost(t, m).Commits(t.Context(), r, stages, messages)
	require.NoError(t, err)
	require.Equal(t, commit, again)
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
	log := userGit(t, repo, "log", "--format=%an <%ae> %aI %cn%n%B", "--reverse", r.Base+".."+commit)
	require.Equal(t, "Ada <ada@example.com> 2026-01-02T03:04:05+00:00 Ada\nAdd one\n\nBecause.\n\nReally.\n\nRGPT-Run: 1\nRGPT-Step: step-001\n\n"+
		"RocketGPT <rgpt@localhost> 2026-01-02T03:04:05+00:00 RocketGPT\nAdd two\n\nRGPT-Run: 1", log)
	require.Equal(t, "1", userGit(t, repo, "log", "-1", "--format=%(trailers:key=RGPT-Run,valueonly,separator=)", commit))
	userGit(t, repo, "fsck", "--strict")
	_, err = m.Commits(t.Context(), r, stages[:1], nil)
	require.Error(t, err)
}

func TestNothingToReleaseIsAnEmptyChange(t *testing.T) {
	t.Parallel()
	m, repo, r, _, messages := release(t)
	_, ws := start(t, m, repo)
	_, err := m.Commits(t.Context(), r, []contract.Workspace{ws, ws}, messages[:2])
	require.True(t, fault.Is(err, contract.CodeEmptyChange))
}

func TestPublishIsIdempotentAndNeverMovesABranch(t *testing.T) {
	t.Parallel()
	m, repo, r, stages, messages := release(t)
	commit, err := m.Commits(t.Context(), r, stages, messages)
	require.NoError(t, err)
	first, err := m.Commits(t.Context(), r, stages[:1], messages[:1])
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
	}
	userGit(t, repo, "branch", "ahead", "main")
	userGit(t, repo, "branch", "rgpt/run-2", first)
	userGit(t, repo, "branch", "taken")
	for branch, to := range map[string]string{"rgpt/run-1": first, "rgpt/run-2": commit, "ahead": commit, "main": commit, "taken/below": commit} {
		err = m.Publish(t.Context(), r, to, branch, PublishOptions{})
		require.True(t, fault.Is(err, contract.CodeBranchConflict), "%s: %v", branch, err)
		require.Equal(t, contract.ClassLogic, fault.Of(err).Class)
		require.Contains(t, err.Error(), "rename or delete")
	}
	require.Equal(t, r.Base, userGit(t, repo, "rev-parse", "ahead"))
	for _, bad := range []string{"", "a..b", "-x", "a b", "x.lock", "@{", "/x"} {
		err = m.Publish(t.Context(), r, commit, bad, PublishOptions{})
		require.True(t, fault.Is(err, contract.CodeInvalidConfig), "%q: %v", bad, err)
	}
}

// Reading the commits of all other branches would also make each push more expensive than the one before.
func TestPublishDoesNotReadTheBranchesOfOtherRuns(t *testing.T) {
	t.Parallel()
	m, repo, r, stages, messages := release(t)
	commit, err := m.Commits(t.Context(), r, stages, messages)
	require.NoError(t, err)
	damaged := userGit(t, repo, "commit-tree", "-m", "damaged", "HEAD^{tree}")
	userGit(t, repo, "branch", "rgpt/run-1", damaged)
	require.NoError(t, os.Remove(filepath.Join(repo, ".git", "objects", damaged[:2], damaged[2:])))
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-2", PublishOptions{}))
	require.Equal(t, commit, userGit(t, repo, "rev-parse", "rgpt/run-2"))
	err = m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{})
	require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
}

func TestPublishSendsOnlyNewObjectsForABranchThatContinuesAnother(t *testing.T) {
	t.Parallel()
	m, repo, r, stages, messages := release(t)
	commit, err := m.Commits(t.Context(), r, stages, messages)
	require.NoError(t, err)
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
	for i, base := range []string{"rgpt/run-1", "refs/heads/rgpt/run-1", commit, commit[:12], "rgpt/run-1~1"} {
		next, _, err := m.Resolve(t.Context(), repo, base)
		require.NoError(t, err)
		require.Nil(t, hiddenRefs(update{ref: "refs/heads/rgpt/x", from: namedRef(next.Branch)}), next.Branch)
		ws, err := m.Start(t.Context(), next)
		require.NoError(t, err)
		after := edit(t, m, ws, fmt.Sprint(i), func(dir string) { write(t, dir, "next.txt", fmt.Sprint(i)) })
		top, err := m.Commits(t.Context(), next, []contract.Workspace{after}, messages[:1])
		require.NoError(t, err)
		require.NoError(t, m.Publish(t.Context(), next, top, fmt.Sprintf("rgpt/next-%d", i), PublishOptions{}))
	}
	userGit(t, repo, "fsck", "--strict")
}

func TestPublishFindsABaseThatOnlyHiddenBranchesHave(t *testing.T) {
	t.Parallel()
	m, repo, _, _, messages := release(t)
	userGit(t, repo, "switch", "-q", "-c", "rgpt/work")
	write(t, repo, "a.txt", "work")
	userGit(t, repo, "commit", "-qam", "work")
	r, ws := start(t, m, repo)
	r.Branch = "main" // as if the branch had been reset meanwhile
	after := edit(t, m, ws, "1", func(dir string) { write(t, dir, "b.txt", "b") })
	commit, err := m.Commits(t.Context(), r, []contract.Workspace{after}, messages[:1])
	require.NoError(t, err)
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
	require.Equal(t, commit, userGit(t, repo, "rev-parse", "rgpt/run-1"))

	write(t, repo, "a.txt", "people's work")
	userGit(t, repo, "commit", "-qam", "no branch is at the base of the run now")
	userGit(t, repo, "branch", "-q", "-D", "rgpt/run-1")
	require.NoError(t, m.Publish(t.Context(), r, commit, "run-2", PublishOptions{}))
	require.Equal(t, commit, userGit(t, repo, "rev-parse", "run-2"))
	require.NoFileExists(t, filepath.Join(repo, ".git", "shallow"))
	userGit(t, repo, "fsck", "--strict")
}

func TestPublishPushesToARemoteThatLacksTheBase(t *testing.T) {
	t.Parallel()
	m, repo, _, _, messages := release(t)
	origin := filepath.Join(t.TempDir(), "origin.git")
	userGit(t, repo, "clone", "-q", "--bare", repo, origin)
	userGit(t, repo, "remote", "add", "origin", origin)
	for i := range 3 { // the remote is behind
		write(t, repo, "a.txt", fmt.Sprint(i))
		userGit(t, repo, "commit", "-qam", fmt.Sprint(i))
	}
	r, ws := start(t, m, repo)
	after := edit(t, m, ws, "2", func(dir string) { write(t, dir, "b.txt", "b") })
	commit, err := m.Commits(t.Context(), r, []contract.Workspace{after}, messages[:1])
	require.NoError(t, err)
	relative, err := filepath.Rel(repo, origin)
	require.NoError(t, err)
	userGit(t, repo, "remote", "add", "near", relative)
	for range 2 {
		require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{Remote: "origin"}))
	}
	require.Equal(t, commit, userGit(t, origin, "rev-parse", "rgpt/run-1"))
	userGit(t, origin, "fsck", "--strict")
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-2", PublishOptions{Remote: "file://" + origin}))
	require.Equal(t, commit, userGit(t, origin, "rev-parse", "rgpt/run-2"))
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-3", PublishOptions{Remote: "near"}))
	require.Equal(t, commit, userGit(t, origin, "rev-parse", "rgpt/run-3"))
	for _, remote := range []string{"nowhere", "-x", "--mirror"} {
		err = m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{Remote: remote})
		require.True(t, fault.Is(err, contract.CodeInvalidConfig), "%v", err)
	}
	edit(t, m, ws, "2", func(string) {}) // the mirror with history still works
}

func TestPublishPushesToTheURLThatARunStartedFrom(t *testing.T) {
	t.Parallel()
	source := newRepo(t, map[string]string{"a.txt": "a\n"})
	write(t, source, "a.txt", "b\n")
	userGit(t, source, "commit", "-qam", "second")
	bare := filepath.Join(t.TempDir(), "bare.git")
	userGit(t, source, "clone", "-q", "--bare", source, bare)
	m := newManager(t)
	r, ws := start(t, m, "file://"+bare)
	after := edit(t, m, ws, "1", func(dir string) { write(t, dir, "b.txt", "b") })
	commit, err := m.Commits(t.Context(), r, []contract.Workspace{after}, []CommitMessage{{Subject: "b"}})
	require.NoError(t, err)
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{Remote: "origin"}))
	require.Equal(t, commit, userGit(t, bare, "rev-parse", "rgpt/run-1"))
	userGit(t, bare, "branch", "other", "rgpt/run-1~1")
	err = m.Publish(t.Context(), r, commit, "other", PublishOptions{})
	require.True(t, fault.Is(err, contract.CodeBranchConflict))
	require.NoError(t, os.RemoveAll(bare))
	requireRepoFault(t, m.Publish(t.Context(), r, commit, "rgpt/run-3", PublishOptions{}), "does not exist")
}

// The ssh that git gets here runs the command on this host.
func TestSSHURLsAreFetchedAndPushedTo(t *testing.T) {
	t.Parallel()
	source := newRepo(t, map[string]string{"a.txt": "a\n"})
	bare := filepath.Join(t.TempDir(), "bare.git")
	userGit(t, source, "clone", "-q", "--bare", source, bare)
	ssh := filepath.Join(t.TempDir(), "ssh")
	proctest.WriteProgram(t, ssh, "#!/bin/sh\ncase \"$*\" in *-G*) exit 0;; esac\nfor last; do :; done\nexec sh -c \"$last\"\n")
	m := newManager(t, func(o *Options) { o.NetworkEnv = []string{"GIT_SSH_COMMAND=" + ssh} })
	for i, address := range []string{"ssh://git@host.example" + bare, "git@host.example:" + bare} {
		r, ws := start(t, m, address)
		after := edit(t, m, ws, "1", func(dir string) { write(t, dir, "b.txt", address) })
		commit, err := m.Commits(t.Context(), r, []contract.Workspace{after}, []CommitMessage{{Subject: "b"}})
		require.NoError(t, err)
		branch := fmt.Sprintf("rgpt/run-%d", i)
		require.NoError(t, m.Publish(t.Context(), r, commit, branch, PublishOptions{}))
		require.Equal(t, commit, userGit(t, bare, "rev-parse", branch))
		userGit(t, bare, "branch", fmt.Sprint("conflict-", i), "main")
		err = m.Publish(t.Context(), r, commit, fmt.Sprint("conflict-", i), PublishOptions{})
		require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
	}
	failing := newManager(t, func(o *Options) {
		o.NetworkEnv = []string{"GIT_SSH_COMMAND=echo 'git@h: Permission denied (publickey).' >&2; false"}
	})
	_, _, err := failing.Resolve(t.Context(), "git@host.example:x", "")
	require.True(t, fault.Is(err, contract.CodeUnauthorized), "%v", err)
	require.Equal(t, contract.ClassConfig, fault.Of(err).Class)
}

func TestDiffStatAndFilesListWhatChanged(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "1\n2\n", "b.bin": "\x00", "old.txt": strings.Repeat("same\n", 20)})
	m := newManager(t)
	_, ws := start(t, m, repo)
	empty, err := m.Diff(t.Context(), ws, 0)
	require.NoError(t, err)
	require.Empty(t, empty)
	after := edit(t, m, ws, "1", func(dir string) {
		write(t, dir, "a.txt", "1\nzwei \xff\n3\n")
		write(t, dir, "b.bin", "\x00\x01")
		write(t, dir, "tab\there", "x\n")
		require.NoError(t, os.Rename(filepath.Join(dir, "old.txt"), filepath.Join(dir, "new.txt")))
	})
	other := anotherHost(t, m)
	diff, err := other.Diff(t.Context(), after, 0)
	require.NoError(t, err)
	require.Contains(t, diff, "-2\n+zwei \uFFFD\n+3\n")
	require.Contains(t, diff, "rename from old.txt")
	require.Contains(t, diff, "Binary files")
	cut, err := m.Diff(t.Context(), after, 200)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(diff, strings.Split(cut, "[diff truncated")[0]))
	require.Contains(t, cut, "longer than 200 bytes")
	stat, err := m.DiffStat(t.Context(), after)
	require.NoError(t, err)
	require.Equal(t, Stat{Added: 23, Deleted: 21, Files: []FileStat{
		{Path: "a.txt", Added: 2, Deleted: 1}, {Path: "b.bin", Binary: true}, {Path: "new.txt", Added: 20}, {Path: "old.txt", Deleted: 20}, {Path: "tab\there", Added: 1},
	}}, stat)
	require.Equal(t, "5 files changed, 23 lines added, 21 removed", stat.String())
	between, err := m.DiffBetween(t.Context(), after, ws.Slim(), 0)
	require.NoError(t, err)
	require.Contains(t, between, "+2\n")
}

func TestAFileOfTheBaseIsReadWithoutACheckout(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	repo := newRepo(t, map[string]string{"rgpt.yaml": "findings: {max_major: 1}\n", "big.txt": strings.Repeat("x", 2000), "folder/file": "x"})
	resolved, _, err := m.Resolve(t.Context(), repo, "")
	require.NoError(t, err)
	ws, err := m.Start(t.Context(), resolved)
	require.NoError(t, err)
	content, found, err := m.BaseFile(t.Context(), ws, "rgpt.yaml", 1000)
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "findings: {max_major: 1}\n", string(content))
	for _, name := range []string{"missing", "folder", "big.txt"} {
		_, found, err := m.BaseFile(t.Context(), ws, name, 1000)
		require.NoError(t, err)
		require.False(t, found, name)
	}
}

func TestABranchInTheWayIsSeenBeforeAnyWork(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	bare := filepath.Join(t.TempDir(), "bare.git")
	userGit(t, repo, "clone", "-q", "--bare", repo, bare)
	userGit(t, repo, "remote", "add", "origin", bare)
	m := newManager(t)
	r, _, err := m.Resolve(t.Context(), repo, "")
	require.NoError(t, err)
	check := func(branch, remote string) error {
		return m.CheckBranch(t.Context(), r, branch, PublishOptions{Remote: remote})
	}
	require.NoError(t, check("rgpt/run-1", "origin"))
	userGit(t, repo, "branch", "rgpt/run-1")
	userGit(t, repo, "branch", "rgpt/run-12")
	userGit(t, repo, "branch", "rgpt/run-3/x")
	userGit(t, repo, "branch", "other/refs/heads/rgpt/run-5")
	userGit(t, bare, "branch", "rgpt/run-2")
	for branch, remote := range map[string]string{"rgpt/run-1": "", "rgpt/run-1/below": "", "rgpt/run-3": "", "rgpt/run-2": "origin"} {
		err := check(branch, remote)
		require.True(t, fault.Is(err, contract.CodeBranchConflict), "%s: %v", branch, err)
		require.Contains(t, err.Error(), branch)
	}
	for branch, remote := range map[string]string{"rgpt/run-2": "", "rgpt/run-4": "origin", "rgpt/run-5": "", "rgpt/run": "", "dotted.name": ""} {
		require.NoError(t, check(branch, remote), branch)
	}
	require.True(t, fault.Is(check("bad..name", ""), contract.CodeInvalidConfig))
	require.True(t, fault.Is(check("-x", ""), contract.CodeInvalidConfig))
	require.NoError(t, os.Mkdir(filepath.Join(repo, "folder"), 0o755))
	require.Error(t, check("rgpt/run-9", filepath.Join(repo, "folder")), "a folder of a repository is none")
	linked := filepath.Join(t.TempDir(), "linked")
	userGit(t, repo, "worktree", "add", "-q", "--detach", linked)
	require.True(t, fault.Is(check("rgpt/run-1", linked), contract.CodeBranchConflict))
	require.NoError(t, os.RemoveAll(repo))
	require.Error(t, check("rgpt/run-9", ""))
}

func TestABranchIsFreeExactlyIfGitCanCreateIt(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	for _, name := range []string{
		"rgpt/run-1", "rgpt/run-3/x", "rgptx", "rgp", "alone", "end!", "end]", "ende", "é", "x/deep/er", "team/app", "refs/heads/shadow", "packed/one", "packed/two/x",
	} {
		userGit(t, repo, "branch", name)
		if name == "packed/two/x" {
			userGit(t, repo, "pack-refs", "--all")
		}
	}
	userGit(t, repo, "branch", "loose/one")
	userGit(t, repo, "update-ref", "refs/tags/tagged", "HEAD")
	userGit(t, repo, "symbolic-ref", "refs/heads/link", "refs/heads/main")
	m := newManager(t)
	r, _, err := m.Resolve(t.Context(), repo, "")
	require.NoError(t, err)
	free := 0
	for _, branch := range []string{
		"rgpt", "rgpt/run-1", "rgpt/run-2", "rgpt/run-1/x", "rgpt/run-3", "rgpt/run-3/y", "rgp/x", "rgptx/run-1", "rgpty/run-1", "alone/x", "alon/x", "alone/x/y/z",
		"end!/x", "end]/x", "end/x", "end/!", "é/x", "è/x", "x", "x/deep", "x/deep/er", "x/deep/er/still", "x/deep/est", "x/y", "team/app/x", "team/ap/x", "team/apps/x/y",
		"shadow", "shadow/x", "refs/heads/shadow/x", "packed/one/x", "packed/two", "packed/two/y", "packed", "loose/one/x", "loose/on/x", "tagged", "tagged/x", "link", "link/x", "main/x",
	} {
		cmd := exec.Command("git", "branch", branch)
		cmd.Dir = repo
		out, created := cmd.CombinedOutput()
		if created == nil {
			userGit(t, repo, "branch", "-D", branch)
			free++
		}
		err := m.CheckBranch(t.Context(), r, branch, PublishOptions{})
		if created == nil {
			require.NoError(t, err, branch)
		} else {
			require.Error(t, err, "%s: %s", branch, out)
		}
	}
	require.Equal(t, 17, free)
}

// TestABranchBelowABrokenOneIsJudgedByWhetherGitNamesThat: what cannot be read is in nobody's way, but a branch whose commit
// is lost is still there.
func TestABranchBelowABrokenOneIsJudgedByWhetherGitNamesThat(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	m := newManager(t)
	r, _, err := m.Resolve(t.Context(), repo, "")
	require.NoError(t, err)
	for content, conflict := range map[string]bool{strings.Repeat("12", 20): true, "ref: refs/heads/nowhere": false, "junk": false} {
		write(t, repo, ".git/refs/heads/rgpt", content+"\n")
		err := m.CheckBranch(t.Context(), r, "rgpt/run-1", PublishOptions{})
		require.Equal(t, conflict, fault.Is(err, contract.CodeBranchConflict), "%s: %v", content, err)
		require.Equal(t, conflict, err != nil, "%s: %v", content, err)
	}
}

func TestOneGitProcessReadsWhatIsInTheWayOfABranch(t *testing.T) {
	t.Parallel()
	repo := newRepo(t, map[string]string{"a.txt": "a\n"})
	program, log := filepath.Join(t.TempDir(), "git"), filepath.Join(t.TempDir(), "log")
	git, err := exec.LookPath("git")
	require.NoError(t, err)
	proctest.WriteProgram(t, program, "#!/bin/sh\necho \"$*\" >> "+log+"\nexec "+git+" \"$@\"\n")
	m := newManager(t, func(o *Options) { o.Git = program })
	r, _, err := m.Resolve(t.Context(), repo, "")
	require.NoError(t, err)
	require.NoError(t, m.CheckBranch(t.Context(), r, "rgpt/run-1", PublishOptions{}))
	processes, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(processes), "refs/heads/rgpt"), "%s", processes)
}

func TestPublishReplacesWhatTheRunReleasedAndNothingElse(t *testing.T) {
	t.Parallel()
	m, repo, r, stages, messages := release(t)
	other := filepath.Join(t.TempDir(), "other.git")
	userGit(t, repo, "init", "--quiet", "--bare", other)
	commit, err := m.Commits(t.Context(), r, stages, messages)
	require.NoError(t, err)
	messages[0].Subject = "Add one otherwise"
	better, err := m.Commits(t.Context(), r, stages, messages)
	require.NoError(t, err)
	require.NotEqual(t, commit, better)
	publish := func(to, replaces string) error {
		return m.Publish(t.Context(), r, to, "rgpt/run-1", PublishOptions{Remote: other, Replaces: replaces})
	}
	at := func(dir string) string { return userGit(t, dir, "rev-parse", "rgpt/run-1") }
	require.NoError(t, publish(commit, ""))
	require.True(t, fault.Is(publish(better, ""), contract.CodeBranchConflict))
	require.True(t, fault.Is(publish(better, r.Base), contract.CodeBranchConflict), "it was never there")
	require.NoError(t, publish(better, commit))
	require.NoError(t, publish(better, commit), "a repeat finds it there")
	require.Equal(t, []string{better, better}, []string{at(repo), at(other)})

	userGit(t, repo, "update-ref", "refs/heads/rgpt/run-1", r.Base)
	require.True(t, fault.Is(publish(commit, better), contract.CodeBranchConflict), "somebody moved it")
	require.Equal(t, r.Base, at(repo))
	userGit(t, repo, "update-ref", "refs/heads/rgpt/run-1", better)
	userGit(t, repo, "checkout", "--quiet", "rgpt/run-1")
	err = publish(commit, better)
	require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
	require.Contains(t, err.Error(), "checked out")
	require.Equal(t, better, at(repo))
	userGit(t, repo, "checkout", "--quiet", "main")
	userGit(t, repo, "branch", "--quiet", "-D", "rgpt/run-1")
	require.NoError(t, publish(commit, better), "one that is gone is made anew")
	require.Equal(t, []string{commit, commit}, []string{at(repo), at(other)})
}

func TestPublishRespectsThatARepositoryHidesItsBranches(t *testing.T) {
	t.Parallel()
	m, repo, r, stages, messages := release(t)
	commit, err := m.Commits(t.Context(), r, stages, messages)
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "other.conf")
	userGit(t, repo, "config", "--file", other, "receive.hideRefs", "refs/heads/rgpt")
	for key, value := range map[string]string{"receive.hideRefs": "refs/heads/rgpt", "transfer.hideRefs": "refs/heads", "include.path": other} {
		userGit(t, repo, "config", key, value)
		err = m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{})
		require.ErrorContains(t, err, "hidden ref", key)
		userGit(t, repo, "config", "--unset", key)
	}
	require.NoError(t, m.Publish(t.Context(), r, commit, "rgpt/run-1", PublishOptions{}))
}
