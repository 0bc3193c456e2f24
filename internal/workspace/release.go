package workspace

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// CommitMessage is all of a commit but its content.
type CommitMessage struct {
	Subject     string
	Body        string
	Trailers    [][2]string // key and value, in order
	AuthorName  string
	AuthorEmail string
	Date        time.Time
}

// text lays the message out as git does: subject, body, trailers, with an empty
// line between.
func (c CommitMessage) text() string {
	parts := []string{oneLine(c.Subject)}
	if parts[0] == "" {
		parts[0] = "Change"
	}
	if body := strings.TrimSpace(cleanText(c.Body)); body != "" {
		parts = append(parts, body)
	}
	var trailers []string
	for _, t := range c.Trailers {
		if value := oneLine(t[1]); value != "" {
			trailers = append(trailers, oneLine(t[0])+": "+value)
		}
	}
	if len(trailers) > 0 {
		parts = append(parts, strings.Join(trailers, "\n"))
	}
	return strings.Join(parts, "\n\n") + "\n"
}

func oneLine(s string) string { return strings.Join(strings.Fields(cleanText(s)), " ") }

func cleanText(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", ""), "\r\n", "\n")
}

// Commits makes a commit for each stage on top of the base and returns the last
// one. Stages that change nothing get none; when none changes anything the
// error has code empty_change. The same input makes the same commits on every
// host. Stages may be slim; messages belong to them one by one.
func (m *Manager) Commits(ctx context.Context, repo contract.Repo, stages []contract.Workspace, messages []CommitMessage) (string, error) {
	if len(stages) != len(messages) {
		return "", runtimeFault("%d stages have %d commit messages", len(stages), len(messages))
	}
	r, tree, lock, err := m.use(ctx, repo.URL, repo.Base)
	if err != nil {
		return "", err
	}
	defer lock.release()
	head, baseTree := repo.Base, tree
	for i, stage := range stages {
		if stage.Tree == tree {
			continue
		}
		if err := r.ensure(ctx, stage.Of(contract.Workspace{Repo: repo.URL, Base: repo.Base}), baseTree); err != nil {
			return "", err
		}
		msg := messages[i]
		head, err = r.writeCommit(commitObject{
			tree: stage.Tree, parent: head, name: msg.AuthorName, email: msg.AuthorEmail, date: msg.Date, message: msg.text(),
		})
		if err != nil {
			return "", err
		}
		tree = stage.Tree
	}
	if head == repo.Base {
		return "", fault.New(contract.ClassLogic, contract.CodeEmptyChange, "there is nothing to release: no step changed anything")
	}
	return head, nil
}

// PublishOptions say where else a branch goes.
type PublishOptions struct {
	// Remote is the name of a remote of the repository, or a URL or path, to
	// push the branch to as well. "" pushes nowhere else.
	Remote string
}

// Publish creates a branch at a commit that Commits made on this host: in the
// user's repository when it is a path, else at its URL; and at a remote when
// asked. A branch that is at this commit already is fine; one that is somewhere
// else is left alone, and the error has code branch_conflict. Nothing is ever
// forced.
//
// In a repository on this host only the branch and its objects are new: work
// tree, index, checked-out branch and other references stay, and no hook runs.
func (m *Manager) Publish(ctx context.Context, repo contract.Repo, commit, branch string, options PublishOptions) error {
	r, _, lock, err := m.use(ctx, repo.URL, repo.Base)
	if err != nil {
		return err
	}
	defer lock.release()
	ref := "refs/heads/" + branch
	if _, err := r.run(ctx, call{args: []string{"check-ref-format", ref}}); err != nil || strings.HasPrefix(branch, "-") {
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "%q cannot be the name of a branch", branch)
	}
	if err := r.checkSource(); err != nil {
		return err
	}
	if err := r.push(ctx, r.source, commit, ref); err != nil {
		return err
	}
	if options.Remote == "" {
		return nil
	}
	remote, err := m.remote(ctx, r.source, options.Remote)
	if err != nil || remote == r.source {
		return err
	}
	return r.push(ctx, remote, commit, ref)
}

// remote finds what a user calls a remote: a name in the repository's
// configuration, a URL or a path.
func (m *Manager) remote(ctx context.Context, repo source, name string) (source, error) {
	if strings.HasPrefix(name, "-") {
		return source{}, unknownRemote(name, repo)
	}
	if filepath.IsAbs(name) || strings.Contains(name, ":") {
		return parseSource(name)
	}
	if !repo.local {
		if name == "origin" {
			return repo, nil
		}
		return source{}, unknownRemote(name, repo)
	}
	address, err := m.local(ctx, repo.address, nil, "remote", "get-url", "--push", name)
	if err != nil {
		return source{}, unknownRemote(name, repo)
	}
	if !strings.Contains(address, ":") && !filepath.IsAbs(address) {
		address = filepath.Join(repo.address, address)
	}
	return parseSource(address)
}

func unknownRemote(name string, repo source) error {
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "%s has no remote %q; give the name of one it has (git remote -v) or a URL", repo, name)
}

// push creates a reference in a repository, unless it is there already.
func (r *mirror) push(ctx context.Context, to source, commit, ref string) error {
	there, err := r.refAt(ctx, to, ref)
	if err != nil {
		return err
	}
	if there == commit {
		return nil
	}
	if there != "" {
		return branchConflict(to, ref, "is at commit "+there+" already")
	}
	err = r.runPush(ctx, to, commit, ref)
	if needsHistory(err) {
		// The other side lacks commits below the base. The mirror has none.
		if err = r.deepen(ctx); err == nil {
			err = r.runPush(ctx, to, commit, ref)
		}
	}
	return r.explainPush(ctx, err, to, commit, ref)
}

// refAt returns the commit of a reference in another repository, "" for none.
func (r *mirror) refAt(ctx context.Context, to source, ref string) (string, error) {
	args := []string{"ls-remote"}
	if !to.remote() {
		args = append(args, "--upload-pack="+r.m.server("upload-pack"))
	}
	out, err := r.m.git(ctx, call{args: append(args, "--", to.address, ref), dir: r.root, allow: to.allow, net: to.remote()})
	if err != nil {
		return "", remoteFault(err, "the repository %s cannot be read", escapePercent(to.String()))
	}
	for line := range strings.Lines(string(out)) {
		// The pattern matches the end of names, refs/heads/x/refs/heads/y too.
		if id, name, _ := strings.Cut(strings.TrimSpace(line), "\t"); name == ref {
			return id, nil
		}
	}
	return "", nil
}

func (r *mirror) runPush(ctx context.Context, to source, commit, ref string) error {
	// The lease, on a reference that does not exist, only narrows what the push
	// may do: it never updates one that somebody made meanwhile, which a plain
	// push would when it can be fast-forwarded.
	args := []string{"push", "-q", "--no-verify", "--no-signed", "--recurse-submodules=no", "--force-with-lease=" + ref + ":"}
	if !to.remote() {
		args = append(args, "--receive-pack="+r.m.server("receive-pack"))
	}
	args = append(args, "--", to.address, commit+":"+ref)
	_, err := r.run(ctx, call{args: args, allow: to.allow, net: to.remote()})
	return err
}

// needsHistory tells the ways in which a push fails because the mirror holds
// no history.
func needsHistory(err error) bool {
	var ge *gitError
	if !errors.As(err, &ge) {
		return false
	}
	for _, text := range []string{"shallow update not allowed", "did not receive expected object", "missing necessary objects", "unresolved deltas", "Could not read", "bad object"} {
		if strings.Contains(ge.stderr, text) {
			return true
		}
	}
	return false
}

// explainPush says why a push failed. Somebody else who made the same branch
// meanwhile, perhaps an earlier try of ours, is seen by looking again.
func (r *mirror) explainPush(ctx context.Context, err error, to source, commit, ref string) error {
	var ge *gitError
	if !errors.As(err, &ge) {
		return err
	}
	if there, lookErr := r.refAt(ctx, to, ref); lookErr == nil && there != "" {
		if there == commit {
			return nil
		}
		return branchConflict(to, ref, "is at commit "+there+" already")
	}
	if strings.Contains(ge.stderr, "cannot lock ref") || strings.Contains(ge.stderr, "exists; cannot create") || strings.Contains(ge.stderr, "refname conflict") {
		return branchConflict(to, ref, "cannot be created beside the branches that are there ("+ge.stderr+")")
	}
	return remoteFault(err, "the branch %s could not be created in %s", escapePercent(strings.TrimPrefix(ref, "refs/heads/")), escapePercent(to.String()))
}

func branchConflict(to source, ref, why string) error {
	branch := strings.TrimPrefix(ref, "refs/heads/")
	return fault.New(contract.ClassLogic, contract.CodeBranchConflict,
		"the branch %s in %s %s, and this run does not overwrite it; rename or delete that branch (git branch -m %s <other name>) or choose another branch for the run",
		branch, to, why, branch)
}
