package workspace

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// updating is a repository whose branch rgpt/run-1 a run released, at a remote to which people push.
type updating struct {
	t      *testing.T
	m      *Manager
	dir    string // of the repository
	remote string
	clone  string // of a person
	repo   contract.Repo
	start  contract.Workspace
	head   string
}

const ownLine = "RGPT-Run: 1"

func ownMessage(subject string) CommitMessage {
	return CommitMessage{Subject: subject, AuthorName: "Bot", AuthorEmail: "bot@example.com", Date: time.Unix(1700000100, 0), Trailers: [][2]string{{"RGPT-Run", "1"}}}
}

func newUpdating(t *testing.T, change func(dir string)) *updating {
	t.Helper()
	u := &updating{t: t, m: newManager(t), remote: filepath.Join(t.TempDir(), "remote.git"), clone: filepath.Join(t.TempDir(), "person")}
	u.dir = newRepo(t, map[string]string{"a.txt": "one\ntwo\nthree\n", "b.txt": "b\n"})
	userGit(t, u.dir, "init", "-q", "--bare", "-b", "main", u.remote)
	userGit(t, u.dir, "remote", "add", "origin", u.remote)
	userGit(t, u.dir, "push", "-q", "origin", "main")
	u.repo, u.start = start(t, u.m, u.dir)
	mine := edit(t, u.m, u.start, "run", change)
	var err error
	u.head, err = u.m.Commits(t.Context(), u.repo, []contract.Workspace{mine.Slim()}, []CommitMessage{ownMessage("Change")})
	require.NoError(t, err)
	require.NoError(t, u.m.Publish(t.Context(), u.repo, u.head, "rgpt/run-1", PublishOptions{Remote: "origin"}))
	userGit(t, u.dir, "clone", "-q", u.remote, u.clone)
	return u
}

// pushes adds a commit of a person to a branch of the remote.
func (u *updating) pushes(branch, path, content string) string {
	u.t.Helper()
	userGit(u.t, u.clone, "fetch", "-q")
	userGit(u.t, u.clone, "checkout", "-q", "-B", branch, "origin/"+branch)
	write(u.t, u.clone, path, content)
	userGit(u.t, u.clone, "add", "-A")
	userGit(u.t, u.clone, "commit", "-q", "-m", "By hand")
	userGit(u.t, u.clone, "push", "-q", "origin", branch)
	return userGit(u.t, u.clone, "rev-parse", "HEAD")
}

func (u *updating) tips() (head, base string, behind bool) {
	u.t.Helper()
	head, base, behind, err := u.m.Tips(u.t.Context(), u.repo, Continued{Branch: "rgpt/run-1", Into: "main", Remote: "origin"})
	require.NoError(u.t, err)
	return head, base, behind
}

func (u *updating) show(rev string) string { return userGit(u.t, u.remote, "show", rev) }

func TestABranchGetsItsBaseAsAMergeThatEveryHostMakesAlike(t *testing.T) {
	t.Parallel()
	u := newUpdating(t, func(dir string) { write(t, dir, "b.txt", "mine\n") })
	_, _, behind := u.tips()
	require.False(t, behind)
	theirs := u.pushes("main", "a.txt", "ONE\ntwo\nthree\n")
	head, base, behind := u.tips()
	require.True(t, behind)
	require.Equal(t, []string{u.head, theirs}, []string{head, base})

	request := Update{Head: head, Base: base, Remote: "origin", Message: ownMessage("Merge main")}
	made, err := u.m.Update(t.Context(), u.repo, request)
	require.NoError(t, err)
	require.Empty(t, made.Conflicts)
	require.Equal(t, u.repo.Base, made.Workspace.Base)
	content, err := u.m.ContentOf(t.Context(), u.repo, base)
	require.NoError(t, err)
	stat, err := u.m.DiffStatBetween(t.Context(), content, made.Workspace)
	require.NoError(t, err)
	require.Equal(t, []string{"b.txt"}, stat.Paths(), "what differs from the base is the change of the run")

	fixed := edit(t, u.m, made.Workspace, "fix", func(dir string) { write(t, dir, "c.txt", "fix\n") })
	other := anotherHost(t, u.m)
	point := contract.BranchPoint{Commit: made.Commit, Workspace: made.Workspace.Slim()}
	last, err := other.UpdateCommits(t.Context(), u.repo, request, point, []contract.Workspace{fixed.Slim()}, []CommitMessage{ownMessage("Fix")})
	require.NoError(t, err)
	publish := func() error {
		return other.Publish(t.Context(), u.repo, last, "rgpt/run-1", PublishOptions{Remote: "origin", Replaces: u.head})
	}
	require.NoError(t, publish())
	require.NoError(t, publish(), "a repeat changes nothing")
	require.Equal(t, made.Commit, userGit(t, u.remote, "rev-parse", "rgpt/run-1^"))
	require.Equal(t, u.head+" "+base, userGit(t, u.remote, "log", "-1", "--format=%P", made.Commit))
	require.Equal(t, "ONE\ntwo\nthree", u.show("rgpt/run-1:a.txt"))
	require.Equal(t, last, userGit(t, u.dir, "rev-parse", "rgpt/run-1"), "the repository has it too")
	_, _, behind = u.tips()
	require.False(t, behind)

	wrong := point
	wrong.Workspace = u.start.Slim()
	_, err = u.m.UpdateCommits(t.Context(), u.repo, request, wrong, nil, nil)
	require.Error(t, err, "what was verified must be what is released")
}

func TestAPersonsCommitIsNeverOverwrittenByAnUpdate(t *testing.T) {
	t.Parallel()
	for _, owned := range [][]string{nil, {ownLine}} {
		u := newUpdating(t, func(dir string) { write(t, dir, "b.txt", "mine\n") })
		u.pushes("main", "a.txt", "ONE\ntwo\nthree\n")
		head, base, _ := u.tips()
		made, err := u.m.Update(t.Context(), u.repo, Update{Head: head, Base: base, Remote: "origin", Owned: owned, Message: ownMessage("Merge main")})
		require.NoError(t, err)
		require.Equal(t, owned != nil, made.Rebased)
		theirs := u.pushes("rgpt/run-1", "person.txt", "by hand\n")
		err = u.m.Publish(t.Context(), u.repo, made.Commit, "rgpt/run-1", PublishOptions{Remote: "origin", Replaces: head})
		require.True(t, fault.Is(err, contract.CodeBranchConflict), "%v", err)
		require.Equal(t, theirs, userGit(t, u.remote, "rev-parse", "rgpt/run-1"))
		require.Equal(t, head, userGit(t, u.dir, "rev-parse", "rgpt/run-1"))
	}
}

func TestConflictsComeBackWithMarkersAndTheResolutionIsTheMerge(t *testing.T) {
	t.Parallel()
	u := newUpdating(t, func(dir string) { write(t, dir, "a.txt", "one\nmine\nthree\n") })
	u.pushes("main", "new.txt", "theirs\n")
	u.pushes("main", "a.txt", "one\ntheirs\nthree\n")
	head, base, _ := u.tips()
	request := Update{Head: head, Base: base, Remote: "origin", Owned: []string{ownLine}, Message: ownMessage("Merge main")}
	made, err := u.m.Update(t.Context(), u.repo, request)
	require.NoError(t, err)
	require.Empty(t, made.Commit)
	require.False(t, made.Rebased, "a rebase that conflicts is a merge")
	require.Equal(t, []string{"a.txt"}, made.Conflicts)
	text, err := u.m.Conflicts(t.Context(), made.Workspace, made.Conflicts, 10_000)
	require.NoError(t, err)
	require.Contains(t, text, "a.txt, from line 1:\none\n<<<<<<< "+head+"\nmine\n=======\ntheirs\n>>>>>>> "+base+"\nthree\n")
	cut, err := u.m.Conflicts(t.Context(), made.Workspace, made.Conflicts, 20)
	require.NoError(t, err)
	require.Less(t, len(cut), 40)

	marked := func(content string) []string {
		t.Helper()
		after := edit(t, u.m, made.Workspace, "try", func(dir string) { write(t, dir, "a.txt", content) })
		left, err := u.m.Markers(t.Context(), made.Workspace, after, head, base, made.Conflicts)
		require.NoError(t, err)
		return left
	}
	require.Equal(t, []string{"a.txt"}, marked("one\n<<<<<<< "+head+"\nboth\nthree\n"))
	require.Equal(t, []string{"a.txt"}, marked("one\nmine\n=======\r\ntheirs\nthree\n"))
	require.Equal(t, []string{"a.txt"}, marked("one\nmine\n>>>>>>> "+base+"\nthree\n"))
	require.Empty(t, marked("one\nboth\nthree\n"))

	point := contract.BranchPoint{Workspace: made.Workspace.Slim()}
	_, err = u.m.UpdateCommits(t.Context(), u.repo, request, point, nil, nil)
	require.Error(t, err, "nothing resolved the conflict")
	first := edit(t, u.m, made.Workspace, "resolve", func(dir string) { write(t, dir, "a.txt", "one\nboth\n=======\n") })
	last := edit(t, u.m, first, "resolve", func(dir string) { write(t, dir, "a.txt", "one\nboth\nthree\n") })
	commit, err := anotherHost(t, u.m).UpdateCommits(t.Context(), u.repo, request, point, []contract.Workspace{first.Slim(), last.Slim()}, []CommitMessage{ownMessage("x"), ownMessage("y")})
	require.NoError(t, err)
	again, err := u.m.UpdateCommits(t.Context(), u.repo, request, point, []contract.Workspace{first.Slim(), last.Slim()}, []CommitMessage{ownMessage("x"), ownMessage("y")})
	require.NoError(t, err)
	require.Equal(t, commit, again)
	require.NoError(t, u.m.Publish(t.Context(), u.repo, commit, "rgpt/run-1", PublishOptions{Remote: "origin", Replaces: head}))
	require.Equal(t, head+" "+base, userGit(t, u.remote, "log", "-1", "--format=%P", "rgpt/run-1"))
	require.Equal(t, "one\nboth\nthree", u.show("rgpt/run-1:a.txt"))
	require.Equal(t, "theirs", u.show("rgpt/run-1:new.txt"), "the base is in it")
}

func TestOwnCommitsAreRebasedUntilAnotherPersonHasOneOnTheBranch(t *testing.T) {
	t.Parallel()
	u := newUpdating(t, func(dir string) { write(t, dir, "b.txt", "mine\n") })
	u.pushes("main", "a.txt", "ONE\ntwo\nthree\n")
	head, base, _ := u.tips()
	request := Update{Head: head, Base: base, Remote: "origin", Owned: []string{ownLine}, Message: ownMessage("Merge main")}
	made, err := u.m.Update(t.Context(), u.repo, request)
	require.NoError(t, err)
	require.True(t, made.Rebased)
	commit, err := u.m.UpdateCommits(t.Context(), u.repo, request, contract.BranchPoint{Commit: made.Commit, Workspace: made.Workspace.Slim()}, nil, nil)
	require.NoError(t, err)
	require.Equal(t, made.Commit, commit)
	require.NoError(t, u.m.Publish(t.Context(), u.repo, commit, "rgpt/run-1", PublishOptions{Remote: "origin", Replaces: head}))
	require.Equal(t, base, userGit(t, u.remote, "log", "-1", "--format=%P", "rgpt/run-1"))
	require.Equal(t, userGit(t, u.remote, "log", "-1", "--format=%an %ae %at %B", head), userGit(t, u.remote, "log", "-1", "--format=%an %ae %at %B", commit))
	require.Equal(t, "mine", u.show("rgpt/run-1:b.txt"))

	u.pushes("rgpt/run-1", "person.txt", "by hand\n")
	_, err = u.m.Pushed(t.Context(), u.repo, Continued{Branch: "rgpt/run-1", Released: commit, Into: "main", Remote: "origin"})
	require.NoError(t, err)
	u.pushes("main", "a.txt", "ONE\nTWO\nthree\n")
	head, base, _ = u.tips()
	made, err = u.m.Update(t.Context(), u.repo, Update{Head: head, Base: base, Remote: "origin", Owned: []string{ownLine}, Message: ownMessage("Merge main")})
	require.NoError(t, err)
	require.False(t, made.Rebased)
	require.NoError(t, u.m.Publish(t.Context(), u.repo, made.Commit, "rgpt/run-1", PublishOptions{Remote: "origin", Replaces: head}))
	require.Equal(t, head+" "+base, userGit(t, u.remote, "log", "-1", "--format=%P", "rgpt/run-1"))
	require.Contains(t, userGit(t, u.remote, "log", "--format=%s", "rgpt/run-1"), "By hand")
}
