package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// mirror is the cached copy of one repository:
//
//	git/              bare repository with the base commits, written with fsync
//	bases/<commit>    the tree of each base commit that is there
//	boot-<id>/objects objects that runs made since the host started
//	boot-<id>/known/  names of the trees among them
//	use.lock          shared by all users, exclusive for Prune
//	fetch.lock        exclusive for a fetch
//
// Objects of runs are written without fsync, which is most of git's cost for
// small changes; a power loss may empty them, so they are valid for one boot only.
type mirror struct {
	m      *Manager
	id     string
	root   string
	source source
}

// commitID matches full object ids, SHA-1 and SHA-256.
var commitID = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// privateAttributes override every .gitattributes: no conversion of content, no driver of any kind.
const privateAttributes = "* -text !eol !crlf !ident !filter !working-tree-encoding !diff !merge !whitespace !conflict-marker-size\n"

// mirrorOf returns the mirror of a repository, which may not exist yet.
func (m *Manager) mirrorOf(repo string) (*mirror, error) {
	src, err := parseSource(repo)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(src.address))
	id := hex.EncodeToString(sum[:10])
	return &mirror{m: m, id: id, root: filepath.Join(m.options.CacheDir, "repos", id), source: src}, nil
}

func (r *mirror) gitDir() string    { return filepath.Join(r.root, "git") }
func (r *mirror) bootDir() string   { return filepath.Join(r.root, "boot-"+r.m.boot) }
func (r *mirror) objects() string   { return filepath.Join(r.bootDir(), "objects") }
func (r *mirror) useLock() string   { return filepath.Join(r.root, "use.lock") }
func (r *mirror) fetchLock() string { return filepath.Join(r.root, "fetch.lock") }
func (r *mirror) basePath(commit string) string {
	return filepath.Join(r.root, "bases", commit)
}
func (r *mirror) knownPath(tree string) string {
	return filepath.Join(r.bootDir(), "known", tree)
}

// base returns the tree of a base commit if the mirror has it.
func (r *mirror) base(commit string) (tree string, ok bool) {
	content, err := os.ReadFile(r.basePath(commit))
	tree = strings.TrimSpace(string(content))
	return tree, err == nil && commitID.MatchString(tree)
}

// use returns the repository's mirror, which contains the base commit and is locked against Prune,
// and the base's tree. The caller releases the lock.
func (m *Manager) use(ctx context.Context, repo, base string) (r *mirror, tree string, lock *heldLock, err error) {
	if r, err = m.mirrorOf(repo); err != nil {
		return nil, "", nil, err
	}
	if !commitID.MatchString(base) {
		return nil, "", nil, repoFault("the base %q for %s is not a full commit id", base, r.source)
	}
	if lock, err = m.locks.shared(ctx, r.useLock()); err != nil {
		return nil, "", nil, err
	}
	tree, ok := r.base(base)
	if !ok {
		tree, err = r.fetch(ctx, base)
	}
	if err == nil {
		err = r.makeBootDir()
	}
	if err != nil {
		lock.release()
		return nil, "", nil, err
	}
	return r, tree, lock, nil
}

// makeBootDir creates this boot's object store on top of the mirror's.
func (r *mirror) makeBootDir() error {
	alternates := filepath.Join(r.objects(), "info", "alternates")
	if _, err := os.Stat(alternates); err == nil {
		return nil
	}
	for _, dir := range []string{filepath.Dir(alternates), filepath.Join(r.objects(), "pack"), filepath.Join(r.bootDir(), "known")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return wrapf(err, "cannot write to the cache for %s", r.source)
		}
	}
	if err := writeFile(alternates, "../../git/objects\n"); err != nil {
		return wrapf(err, "cannot write to the cache for %s", r.source)
	}
	return nil
}

// run runs git on the mirror; new objects go to this boot's store.
func (r *mirror) run(ctx context.Context, c call) ([]byte, error) {
	c.env = append([]string{"GIT_DIR=" + r.gitDir(), "GIT_OBJECT_DIRECTORY=" + r.objects()}, c.env...)
	c.config = append([][2]string{{"core.fsync", "none"}}, c.config...)
	c.dir = cmp.Or(c.dir, r.root)
	return r.m.git(ctx, c)
}

// runDurable runs git on the mirror itself, with fsync.
func (r *mirror) runDurable(ctx context.Context, c call) ([]byte, error) {
	c.env = append([]string{"GIT_DIR=" + r.gitDir()}, c.env...)
	c.config = append([][2]string{{"core.fsync", "all"}}, c.config...)
	c.dir = r.root
	return r.m.git(ctx, c)
}

// fetch fetches a base commit into the mirror, without its history or any other commit.
func (r *mirror) fetch(ctx context.Context, commit string) (tree string, err error) {
	return r.fetchBy(ctx, commit, r.fetchCommit)
}

// fetchFrom fetches a commit that another repository has on a branch, with the history that the mirror
// lacks, so that the commit can be pushed to the mirror's own repository.
func (r *mirror) fetchFrom(ctx context.Context, from source, commit string) (tree string, err error) {
	there := *r
	there.source = from
	return there.fetchBy(ctx, commit, func(ctx context.Context, commit string, lock *heldLock) error {
		err := there.runFetch(ctx, lock, "--force", commit+":refs/rgpt/base/"+commit)
		if err != nil {
			return remoteFault(err, "could not fetch commit %s from %s", commit, escapePercent(from.String()))
		}
		return nil
	})
}

// fetchBy adds a base commit to the mirror, which get fetches.
func (r *mirror) fetchBy(ctx context.Context, commit string, get func(context.Context, string, *heldLock) error) (tree string, err error) {
	lock, err := r.m.locks.exclusive(ctx, r.fetchLock())
	if err != nil {
		return "", err
	}
	defer lock.release()
	if tree, ok := r.base(commit); ok {
		return tree, nil
	}
	if err := r.checkSource(ctx); err != nil {
		return "", err
	}
	if err := r.init(ctx, len(commit)); err != nil {
		return "", err
	}
	removeStaleLocks(r.gitDir())
	removeStalePacks(r.gitDir())
	if err := get(ctx, commit, lock); err != nil {
		return "", err
	}
	if tree, err = r.commitTree(commit); errors.Is(err, errNeedsGit) {
		out, err := r.runDurable(ctx, call{args: []string{"rev-parse", "--verify", "-q", commit + "^{tree}"}})
		if err != nil {
			return "", repoFault("%s has no commit %s", r.source, commit)
		}
		tree = strings.TrimSpace(string(out))
	}
	if err := r.fitsHost(ctx, tree); err != nil {
		return "", err
	}
	if err = os.MkdirAll(filepath.Dir(r.basePath(commit)), 0o755); err == nil {
		err = writeFileSync(r.basePath(commit), tree+"\n")
	}
	if err != nil {
		return "", wrapf(err, "cannot write to the cache for %s", r.source)
	}
	return tree, nil
}

// checkSource rejects a repository on this host that refers to data elsewhere, and reports a
// missing one more clearly than git does.
func (r *mirror) checkSource(ctx context.Context) error {
	path := strings.TrimPrefix(r.source.address, "file://")
	if r.source.remote() {
		return nil
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return repoFault("the repository %s does not exist on this host", r.source)
	}
	return r.m.checkLayout(ctx, path)
}

// init creates the bare repository atomically, with a rename.
func (r *mirror) init(ctx context.Context, idLength int) error {
	if _, err := os.Stat(r.gitDir()); err == nil {
		return nil
	}
	format := "sha1"
	if idLength == 64 {
		format = "sha256"
	}
	tmp := r.gitDir() + ".tmp"
	if err := os.RemoveAll(tmp); err != nil {
		return wrapf(err, "cannot write to the cache for %s", r.source)
	}
	_, err := r.m.git(ctx, call{args: []string{"init", "-q", "--bare", "--template=", "--object-format=" + format, tmp}, dir: r.root})
	if err != nil {
		return localFault(err, "cannot create the cache for %s", r.source)
	}
	err = os.MkdirAll(filepath.Join(tmp, "info"), 0o755)
	if err == nil {
		err = writeFileSync(filepath.Join(tmp, "info", "attributes"), privateAttributes)
	}
	if err == nil {
		err = os.Rename(tmp, r.gitDir())
	}
	if err != nil {
		return wrapf(err, "cannot write to the cache for %s", r.source)
	}
	return nil
}

func (r *mirror) fetchCommit(ctx context.Context, commit string, lock *heldLock) error {
	err := r.runFetch(ctx, lock, "--depth=1", commit+":refs/rgpt/base/"+commit)
	var ge *gitError
	if errors.As(err, &ge) && strings.Contains(ge.stderr, "unadvertised object") {
		// An old server sends only commits of its branches and tags.
		err = r.runFetch(ctx, lock, "--force", "refs/heads/*:refs/rgpt/heads/*", "refs/tags/*:refs/rgpt/tags/*")
	}
	if errors.As(err, &ge) && strings.Contains(ge.stderr, "not our ref") {
		return repoFault("%s has no commit %s", r.source, commit)
	}
	if err != nil {
		return remoteFault(err, "could not fetch commit %s from %s", commit, escapePercent(r.source.String()))
	}
	return nil
}

func (r *mirror) runFetch(ctx context.Context, lock *heldLock, option string, refspecs ...string) error {
	args := []string{"fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance", option}
	if !r.source.remote() {
		args = append(args, "--upload-pack="+r.m.server("upload-pack"))
	}
	args = append(append(args, "--", r.source.address), refspecs...)
	within, large, stop := r.bounded(ctx)
	_, err := r.runDurable(within, call{args: args, allow: r.source.allow, address: r.source.contacted(), hold: []*os.File{lock.file}})
	stop()
	if large() {
		removeStalePacks(r.gitDir())
		return r.tooLargeHere(fmt.Sprintf("requires fetching more than %d MiB", r.m.options.MaxRepositoryBytes>>20), "git.max_size")
	}
	return err
}

// deepen fetches the history of the base commits, which is needed to push to a repository without
// them.
func (r *mirror) deepen(ctx context.Context) error {
	lock, err := r.m.locks.exclusive(ctx, r.fetchLock())
	if err != nil {
		return err
	}
	defer lock.release()
	if _, err := os.Stat(filepath.Join(r.gitDir(), "shallow")); err != nil {
		return nil
	}
	if err := r.checkSource(ctx); err != nil {
		return err
	}
	removeStaleLocks(r.gitDir())
	refs, err := r.runDurable(ctx, call{args: []string{"for-each-ref", "--format=%(refname:lstrip=3)", "refs/rgpt/base"}})
	if err != nil {
		return localFault(err, "cannot read the cache for %s", r.source)
	}
	var specs []string
	for _, commit := range strings.Fields(string(refs)) {
		specs = append(specs, commit+":refs/rgpt/base/"+commit)
	}
	if err := r.runFetch(ctx, lock, "--unshallow", specs...); err != nil {
		return remoteFault(err, "could not fetch the history of %s", escapePercent(r.source.String()))
	}
	return nil
}

// removeStaleLocks removes lock files that a killed git process left in the mirror. Our own lock,
// which git processes inherit, guarantees that none is running.
func removeStaleLocks(dir string) {
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err == nil && d.IsDir() && d.Name() == "objects":
			return filepath.SkipDir
		case err == nil && !d.IsDir() && strings.HasSuffix(path, ".lock"):
			_ = os.Remove(path)
		}
		return nil
	})
}

// markKnown records that a tree and all its content are in the object store.
func (r *mirror) markKnown(tree string) error {
	file, err := os.OpenFile(r.knownPath(tree), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return wrapf(err, "cannot write to the cache for %s", r.source)
	}
	return file.Close()
}

// ensure rebuilds a workspace's tree from the base and the patch unless it is already in the object
// store.
func (r *mirror) ensure(ctx context.Context, ws contract.Workspace, baseTree string) error {
	if ws.Tree == baseTree {
		return nil
	}
	if !commitID.MatchString(ws.Tree) {
		return runtimeFault("%q is not a tree id", ws.Tree)
	}
	if _, err := os.Stat(r.knownPath(ws.Tree)); err == nil {
		return nil
	}
	if ws.Patch == "" {
		return runtimeFault("the workspace has no patch, but its tree %s differs from the tree %s of base %s", ws.Tree, baseTree, ws.Base)
	}
	patch, err := r.m.options.Blobs.Get(ctx, ws.Patch)
	if err != nil {
		return wrapf(err, "could not read the workspace's patch %s", ws.Patch)
	}
	tree, err := r.apply(ctx, baseTree, patch)
	if err != nil {
		return localFault(err, "the patch %s does not apply to base %s", ws.Patch, ws.Base)
	}
	if tree != ws.Tree {
		return runtimeFault("the patch %s on base %s produces tree %s, but the workspace expects %s", ws.Patch, ws.Base, tree, ws.Tree)
	}
	return r.markKnown(tree)
}

// apply applies a patch to a tree and returns the resulting tree.
func (r *mirror) apply(ctx context.Context, baseTree string, patch []byte) (string, error) {
	dir, err := os.MkdirTemp(r.bootDir(), "apply-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	env := []string{"GIT_INDEX_FILE=" + filepath.Join(dir, "index")}
	if _, err := r.run(ctx, call{args: []string{"read-tree", baseTree}, env: env}); err != nil {
		return "", err
	}
	args := []string{"apply", "--cached", "--binary", "--whitespace=nowarn", "-"}
	if _, err := r.run(ctx, call{args: args, env: env, stdin: strings.NewReader(string(patch))}); err != nil {
		return "", err
	}
	out, err := r.run(ctx, call{args: []string{"write-tree"}, env: env})
	return strings.TrimSpace(string(out)), err
}

// Cached reports whether this host has the repository at the base commit, so opening a workspace of
// it fetches nothing.
func (m *Manager) Cached(repo, base string) bool {
	r, err := m.mirrorOf(repo)
	if err != nil || !commitID.MatchString(base) {
		return false
	}
	_, ok := r.base(base)
	return ok
}

// Start returns the initial workspace of a run, and fetches the base commit if it is missing.
func (m *Manager) Start(ctx context.Context, repo contract.Repo) (contract.Workspace, error) {
	_, tree, lock, err := m.use(ctx, repo.URL, repo.Base)
	if err != nil {
		return contract.Workspace{}, err
	}
	lock.release()
	return contract.Workspace{Repo: repo.URL, Base: repo.Base, Tree: tree}, nil
}

// writeFile writes a file atomically.
func writeFile(path, content string) error { return replaceFile(path, content, false) }

// writeFileSync is writeFile for files that must survive a power loss.
func writeFileSync(path, content string) error { return replaceFile(path, content, true) }

func replaceFile(path, content string, sync bool) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	if err == nil && sync {
		err = file.Sync()
	}
	err = errors.Join(err, file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("write %s: %w", filepath.Base(path), err)
	}
	return nil
}
