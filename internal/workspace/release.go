package workspace

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// CommitMessage is everything in a commit except its content.
type CommitMessage struct {
	Subject     string
	Body        string
	Trailers    [][2]string // key and value, in order
	AuthorName  string
	AuthorEmail string
	Date        time.Time
}

// text formats the message as git does: subject, body, trailers, with an empty line in between.
func (c CommitMessage) text() string {
	parts := []string{oneLine(c.Subject)}
	parts[0] = cmp.Or(parts[0], "Change")
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

// Commits creates a commit for each stage on top of the base and returns the last one. A stage that
// changes nothing gets no commit; if no stage changes anything, the error has code empty_change.
// The same input produces the same commits on every host. Stages may be slim; each stage has one
// message.
func (m *Manager) Commits(ctx context.Context, repo contract.Repo, stages []contract.Workspace, messages []CommitMessage) (string, error) {
	commit, err := m.CommitsOnto(ctx, repo, repo.Base, stages, messages)
	if err == nil && commit == repo.Base {
		err = fault.New(contract.ClassLogic, contract.CodeEmptyChange, "nothing to release: no step changed anything")
	}
	return commit, err
}

// CommitsOnto is Commits on top of another commit than the base, which the repository has. The stages are
// nevertheless changes of the base. It returns that commit if no stage changes anything.
func (m *Manager) CommitsOnto(ctx context.Context, repo contract.Repo, parent string, stages []contract.Workspace, messages []CommitMessage) (string, error) {
	if len(stages) != len(messages) {
		return "", runtimeFault("there are %d stages but %d commit messages", len(stages), len(messages))
	}
	r, baseTree, lock, err := m.use(ctx, repo.URL, repo.Base)
	if err != nil {
		return "", err
	}
	defer lock.release()
	head, tree := parent, baseTree
	if parent != repo.Base {
		_, at, held, err := m.use(ctx, repo.URL, parent)
		if err != nil {
			return "", err
		}
		defer held.release()
		tree = at
	}
	return r.commitStages(ctx, repo, baseTree, head, tree, stages, messages)
}

// commitStages makes a commit for each stage that changes something, on top of a commit with a tree, and
// returns the last one.
func (r *mirror) commitStages(ctx context.Context, repo contract.Repo, baseTree, head, tree string, stages []contract.Workspace, messages []CommitMessage) (string, error) {
	for i, stage := range stages {
		if stage.Tree == tree {
			continue
		}
		err := r.ensure(ctx, stage.Of(contract.Workspace{Repo: repo.URL, Base: repo.Base}), baseTree)
		if err != nil {
			return "", err
		}
		c := messages[i].commit(stage.Tree, head)
		if head, err = r.writeCommit(c); err != nil {
			return "", err
		}
		tree = stage.Tree
	}
	return head, nil
}

// commit returns a commit with this message.
func (c CommitMessage) commit(tree, parent string) commitObject {
	return commitObject{tree: tree, parent: parent, name: c.AuthorName, email: c.AuthorEmail, date: c.Date, message: c.text()}
}

// PublishOptions specify an additional push target and the commit to replace.
type PublishOptions struct {
	// Remote is an additional push target: the name of a remote of the repository, a URL or a path.
	// "" means none.
	Remote string
	// Replaces is the commit that this run released to the branch before, which may be replaced. ""
	// means that the branch is new.
	Replaces string
}

// Publish creates a branch at a commit that Commits created on this host: in the user's repository
// if it is a path, otherwise at its URL; and at a remote if requested. A branch that is already at
// this commit is accepted; a branch at another commit is left unchanged, and the error has code
// branch_conflict. A branch is moved only if it is exactly where this run released it before.
//
// In a repository on this host, only the branch and its objects are added: the work tree, index,
// checked-out branch and other references do not change, and no hook runs.
func (m *Manager) Publish(ctx context.Context, repo contract.Repo, commit, branch string, options PublishOptions) error {
	r, _, lock, err := m.use(ctx, repo.URL, repo.Base)
	if err != nil {
		return err
	}
	defer lock.release()
	ref, err := m.branchRef(ctx, branch)
	if err != nil {
		return err
	}
	if err := r.checkSource(ctx); err != nil {
		return err
	}
	targets, err := m.targets(ctx, r.source, options)
	if err != nil {
		return err
	}
	for _, to := range targets {
		if err := r.push(ctx, to, update{commit: commit, ref: ref, replaces: options.Replaces, from: namedRef(repo.Branch), base: repo.Base}); err != nil {
			return err
		}
	}
	return nil
}

// targets returns where a branch is pushed, in that order. People push to the remote, so a branch that
// they may have moved is pushed there first: if it is refused, it is nowhere.
func (m *Manager) targets(ctx context.Context, repo source, options PublishOptions) ([]source, error) {
	if options.Remote == "" {
		return []source{repo}, nil
	}
	remote, err := m.remote(ctx, repo, options.Remote)
	switch {
	case err != nil:
		return nil, err
	case remote == repo:
		return []source{repo}, nil
	case options.Replaces != "":
		return []source{remote, repo}, nil
	default:
		return []source{repo, remote}, nil
	}
}

// plainBranch matches branch names that git is known to accept.
var plainBranch = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]*(/[A-Za-z0-9_][A-Za-z0-9_-]*)*$`)

// branchRef returns the full name of a branch.
func (m *Manager) branchRef(ctx context.Context, branch string) (string, error) {
	ref := "refs/heads/" + branch
	if plainBranch.MatchString(branch) {
		return ref, nil
	}
	_, err := m.git(ctx, call{args: []string{"check-ref-format", ref}, dir: m.options.CacheDir})
	var ge *gitError
	if errors.As(err, &ge) || strings.HasPrefix(branch, "-") {
		return "", fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "%q is not a valid branch name", branch)
	}
	return ref, err
}

// CheckBranch checks in advance whether Publish could create a new branch: if the repository, or
// the remote of the options, already has a branch with that name or a conflicting one, the error
// has code branch_conflict. Publish detects branches created in between. An unreachable repository
// is also an error, with its own class.
func (m *Manager) CheckBranch(ctx context.Context, repo contract.Repo, branch string, options PublishOptions) error {
	ref, err := m.branchRef(ctx, branch)
	if err != nil {
		return err
	}
	r, err := m.mirrorOf(repo.URL)
	if err != nil {
		return err
	}
	targets := []source{r.source}
	if options.Remote != "" {
		remote, err := m.remote(ctx, r.source, options.Remote)
		if err != nil {
			return err
		}
		if remote != r.source {
			targets = append(targets, remote)
		}
	}
	for _, target := range targets {
		if err := m.checkFree(ctx, target, ref); err != nil {
			return err
		}
	}
	return nil
}

// checkFree returns an error if a repository has a reference, or one below or above it.
func (m *Manager) checkFree(ctx context.Context, target source, ref string) error {
	var dirs []string
	for dir := path.Dir(ref); dir != "refs/heads"; dir = path.Dir(dir) {
		dirs = append(dirs, dir)
	}
	var refs map[string]string
	var err error
	if !target.remote() {
		refs, err = m.localIDs(ctx, target, ref, dirs)
	}
	if target.remote() || err != nil { // git ls-remote explains what is wrong
		refs, err = m.remoteIDs(ctx, m.options.CacheDir, target, append(dirs, ref, ref+"/*")...)
	}
	if err != nil {
		return err
	}
	if id := refs[ref]; id != "" {
		return branchConflict(target, ref, "is already at commit "+id)
	}
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if strings.HasPrefix(name, ref+"/") || strings.HasPrefix(ref, name+"/") {
			return branchConflict(target, ref, "conflicts with the existing branch "+strings.TrimPrefix(name, "refs/heads/"))
		}
	}
	return nil
}

// localIDs returns a reference of a repository on this host and those below it, with their commits. It adds those of
// the references above it, nearest first, that exist, with any value. Unlike git ls-remote, it reads no other references
// than those beside it.
func (m *Manager) localIDs(ctx context.Context, target source, ref string, above []string) (map[string]string, error) {
	dir, err := m.gitDirOf(ctx, strings.TrimPrefix(target.address, "file://"))
	if err != nil {
		return nil, err
	}
	// Otherwise, git would look for a repository in the directories above.
	const here = "--git-dir=."
	// The reference one level above costs no process of its own: git reads what is below that anyway. For a reference
	// further above, git would read everything below it.
	patterns, others := []string{ref}, above
	if len(above) > 0 {
		patterns, others = append(patterns, onlyRef(above[0])), above[1:]
	}
	out, err := m.local(ctx, dir, nil, append([]string{here, "for-each-ref", "--format=%(objectname)%09%(refname)"}, patterns...)...)
	if err != nil {
		return nil, err
	}
	ids := parseRemoteRefs([]byte(out)).ids
	for _, name := range others {
		_, err := m.local(ctx, dir, nil, here, "show-ref", "--verify", "--quiet", name)
		var failed *gitError
		switch {
		case err == nil:
			ids[name] = ""
		case !errors.As(err, &failed) || failed.code != 1: // 1: there is none
			return nil, err
		}
	}
	return ids, nil
}

// onlyRef returns the pattern of git for-each-ref for a reference without those below it. A name matches those below it,
// too, but a glob matches only whole names, and a backslash makes one. No name contains characters that are special in globs.
func onlyRef(name string) string {
	last := len(name) - 1
	return name[:last] + `\` + name[last:]
}

// remote resolves a remote specified by a user: a name in the repository's configuration, a URL or
// a path.
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

// RemoteAddress returns the address of a remote of a repository, which is a name in the repository's
// configuration, a URL or a path. It may contain credentials.
func (m *Manager) RemoteAddress(ctx context.Context, repo contract.Repo, name string) (string, error) {
	src, err := parseSource(repo.URL)
	if err != nil {
		return "", err
	}
	remote, err := m.remote(ctx, src, name)
	return remote.address, err
}

// HasRemoteBranch reports whether a remote of a repository has a branch.
func (m *Manager) HasRemoteBranch(ctx context.Context, repo contract.Repo, name, branch string) (bool, error) {
	src, err := parseSource(repo.URL)
	if err != nil {
		return false, err
	}
	remote, err := m.remote(ctx, src, name)
	if err != nil {
		return false, err
	}
	ref := "refs/heads/" + branch
	refs, err := m.remoteIDs(ctx, m.options.CacheDir, remote, ref)
	return refs[ref] != "", err
}

func unknownRemote(name string, repo source) error {
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "%s has no remote %q; specify an existing remote (git remote -v) or a URL", repo, name)
}

// update sets a reference of another repository to a commit.
type update struct {
	commit, ref string
	// replaces is the commit that the reference may be at; empty: it must not exist.
	replaces string
	// from is a reference, which may be ref itself, with commits on which this one is based; empty: unknown.
	from string
	// base is a commit that the repository is likely to have, on which this one is based; empty: unknown.
	base string
}

// push updates a reference of a repository if it does not exist or is at the commit to replace. The push
// itself determines which.
func (r *mirror) push(ctx context.Context, to source, u update) error {
	again := u.replaces != "" && u.replaces != u.commit
	replaces := u.replaces
	u.replaces = ""
	err := r.tryPush(ctx, to, u)
	if !again || err == nil {
		return err
	}
	if there, lookErr := r.refAt(ctx, to, u.ref); lookErr != nil || there != replaces {
		return err // it describes the conflict
	}
	u.replaces = replaces
	return r.tryPush(ctx, to, u)
}

func (r *mirror) tryPush(ctx context.Context, to source, u update) error {
	quick := !to.remote()
	err := r.create(ctx, to, u)
	if errors.Is(err, errNeedsGit) {
		err = r.runPush(ctx, to, u, quick)
	}
	var failed *gitError
	if quick && errors.As(err, &failed) && !failed.refused() {
		err = r.runPush(ctx, to, u, false)
	}
	if needsHistory(err) {
		// The other side lacks commits below the base, and the mirror does not have them.
		if err = r.deepen(ctx); err == nil {
			err = r.runPush(ctx, to, u, false)
		}
	}
	return r.explainPush(ctx, err, to, u)
}

// refused reports whether a push failed because of where its branch is, or where it is checked out.
func (e *gitError) refused() bool {
	return strings.Contains(e.stderr, "stale info") || strings.Contains(e.stderr, "checked out")
}

// hiddenRefs are settings with which a repository on this host does not offer the branches next to the
// pushed one, such as those of all earlier runs, as commits that both sides may have in common. With 2,000
// branches, reading them takes three times as long as the rest of a push. Git still refuses a name that
// conflicts with one of them.
func hiddenRefs(u update) [][2]string {
	name, isBranch := strings.CutPrefix(u.ref, "refs/heads/")
	first, _, below := strings.Cut(name, "/")
	dir := "refs/heads/" + first
	if !isBranch || !below || u.from == "" || u.from != u.ref && strings.HasPrefix(u.from, dir+"/") {
		return nil
	}
	return [][2]string{{"receive.hideRefs", dir}, {"receive.hideRefs", "!" + u.ref}}
}

// refAt returns the commit of a reference in another repository, "" if it does not exist.
func (r *mirror) refAt(ctx context.Context, to source, ref string) (string, error) {
	refs, err := r.m.remoteIDs(ctx, r.root, to, ref)
	return refs[ref], err
}

// remoteIDs returns the references of another repository that match the patterns, and possibly
// others: a pattern matches the end of a name, so also refs/heads/x/refs/heads/y.
func (m *Manager) remoteIDs(ctx context.Context, dir string, to source, patterns ...string) (map[string]string, error) {
	args := []string{"ls-remote"}
	if !to.remote() {
		args = append(args, "--upload-pack="+m.server("upload-pack"))
	}
	args = append(append(args, "--", to.address), patterns...)
	out, err := m.git(ctx, call{args: args, dir: dir, allow: to.allow, address: to.contacted()})
	if err != nil {
		return nil, remoteFault(err, "cannot read the repository %s", escapePercent(to.String()))
	}
	return parseRemoteRefs(out).ids, nil
}

// unnamed matches revisions whose commits need not be on a branch with this name: abbreviated ids, and
// relations to other revisions.
var unnamed = regexp.MustCompile(`^(HEAD|[0-9a-f]{4,64})$|[~^:@]`)

// namedRef returns the branch that a revision names, or "" if it may be something else. For the name of a
// tag it returns a branch that does not exist.
func namedRef(rev string) string {
	if rev == "" || unnamed.MatchString(rev) {
		return ""
	}
	return "refs/heads/" + strings.TrimPrefix(rev, "refs/heads/")
}

// gitDirsOf returns the git directory of a repository on this host, and the one with its objects and
// branches, which is another one in a linked worktree.
func (m *Manager) gitDirsOf(ctx context.Context, to source) (dir, common string, err error) {
	top := strings.TrimPrefix(to.address, "file://")
	if dir, err = m.gitDirOf(ctx, top); err == nil {
		common, err = m.commonDir(top, dir)
	}
	return dir, common, err
}

// hidesRefs reports whether the configuration of a repository on this host may hide references. Git refuses
// pushes to hidden references. A configuration that includes other files counts as one that does.
func hidesRefs(dir, common string) bool {
	for _, name := range []string{filepath.Join(common, "config"), filepath.Join(dir, "config.worktree")} {
		content, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return true
		}
		if text := strings.ToLower(string(content)); strings.Contains(text, "hiderefs") || strings.Contains(text, "include") {
			return true
		}
	}
	return false
}

// runPush updates a reference that is at the commit to replace or, for "", does not exist. In a repository
// on this host, there is a quick way, which works if the commit is based on one that this repository
// offers. It ignores the branches next to the pushed one, and does not say that the mirror is shallow;
// otherwise, the other side would walk through all commits since the base.
func (r *mirror) runPush(ctx context.Context, to source, u update, quick bool) error {
	// The lease only restricts what the push may do: it never updates a reference that someone
	// created or moved meanwhile, which a plain push would do if it could be fast-forwarded.
	args := []string{"push", "-q", "--no-verify", "--no-signed", "--recurse-submodules=no", "--force-with-lease=" + u.ref + ":" + u.replaces}
	var settings [][2]string
	var env []string
	if quick {
		env = []string{"GIT_SHALLOW_FILE="}
		if dir, common, err := r.m.gitDirsOf(ctx, to); err == nil && !hidesRefs(dir, common) {
			settings = hiddenRefs(u)
		}
	}
	if u.replaces != "" {
		settings = append(settings, [2]string{"receive.denyNonFastForwards", "false"})
	}
	if !to.remote() {
		args = append(args, "--receive-pack="+r.m.server("receive-pack", settings...))
	}
	args = append(args, "--", to.address, u.commit+":"+u.ref)
	_, err := r.run(ctx, call{args: args, env: env, allow: to.allow, address: to.contacted()})
	return err
}

// needsHistory recognizes the errors of a push that failed because the mirror has no history.
func needsHistory(err error) bool {
	var ge *gitError
	if !errors.As(err, &ge) {
		return false
	}
	return slices.ContainsFunc([]string{"shallow update not allowed", "did not receive expected object", "missing necessary objects", "unresolved deltas", "Could not read", "bad object"}, func(text string) bool { return strings.Contains(ge.stderr, text) })
}

// explainPush returns an error that explains why a push failed. It checks again for a branch
// created meanwhile, possibly by our own earlier attempt.
func (r *mirror) explainPush(ctx context.Context, err error, to source, u update) error {
	var ge *gitError
	if !errors.As(err, &ge) {
		return err
	}
	if there, lookErr := r.refAt(ctx, to, u.ref); lookErr == nil && there != "" {
		if there == u.commit {
			return nil
		}
		if strings.Contains(ge.stderr, "checked out") {
			return branchConflict(to, u.ref, "is checked out in a work tree that a push would not update (check out another branch there)")
		}
		return branchConflict(to, u.ref, "is already at commit "+there)
	}
	if strings.Contains(ge.stderr, "cannot lock ref") || strings.Contains(ge.stderr, "exists; cannot create") || strings.Contains(ge.stderr, "refname conflict") {
		return branchConflict(to, u.ref, "conflicts with existing branches ("+ge.stderr+")")
	}
	return remoteFault(err, "could not create the branch %s in %s", escapePercent(strings.TrimPrefix(u.ref, "refs/heads/")), escapePercent(to.String()))
}

func branchConflict(to source, ref, why string) error {
	branch := strings.TrimPrefix(ref, "refs/heads/")
	return fault.New(contract.ClassLogic, contract.CodeBranchConflict,
		"the branch %s in %s %s, and this run does not overwrite it; rename or delete that branch (git branch -m %s <other name>) or choose another branch for the run",
		branch, to, why, branch)
}
