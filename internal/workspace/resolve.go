package workspace

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"

	"github.com/rocketgpt/orchestrator/contract"
)

// Info describes a repository to a user before a run.
type Info struct {
	// Path is the top of the work tree of a repository on this host, otherwise "".
	Path string
	// Branch is the branch that is checked out, or a URL's default branch; "" if there is none.
	Branch string
	// Dirty reports uncommitted changes or files in the work tree. They are not part of a run.
	Dirty bool
}

// Resolve finds the repository and the commit that a user specifies. The repository is a URL or an
// absolute path, possibly of a directory inside a work tree; rev "" means the checked-out commit,
// or the default branch of a URL. An invalid repository or rev is a HUMAN_ERROR with code
// repository and a message that explains what to do.
func (m *Manager) Resolve(ctx context.Context, repo, rev string) (contract.Repo, Info, error) {
	src, err := parseSource(repo)
	if err == nil && (strings.HasPrefix(rev, "-") || strings.ContainsAny(rev, "\x00\n\r")) {
		err = baseError{repoFault("%q is not a valid base; specify a branch, a tag or a commit id", rev)}
	}
	if err != nil {
		return contract.Repo{}, Info{}, err
	}
	if src.local {
		return m.resolvePath(ctx, src, rev)
	}
	return m.resolveURL(ctx, src, rev)
}

// local runs git in the user's repository, only to read. The repository's configuration applies,
// overridden by our own settings, which name no program; git cannot fetch anything, because no
// protocol is allowed.
func (m *Manager) local(ctx context.Context, dir string, config [][2]string, args ...string) (string, error) {
	out, err := m.git(ctx, call{args: args, dir: dir, config: config, user: true})
	return strings.TrimRight(string(out), "\n"), err
}

func (m *Manager) resolvePath(ctx context.Context, src source, rev string) (contract.Repo, Info, error) {
	top, err := m.workTree(ctx, src.address)
	if err != nil {
		return contract.Repo{}, Info{}, err
	}
	info := Info{Path: top}
	head, headErr := m.local(ctx, top, nil, "symbolic-ref", "-q", "HEAD")
	if headErr == nil {
		info.Branch = strings.TrimPrefix(head, "refs/heads/")
	}
	commit, err := m.resolveRev(ctx, top, rev, info.Branch)
	if err != nil {
		return contract.Repo{}, Info{}, err
	}
	if info.Dirty, err = m.dirty(ctx, top); err != nil {
		return contract.Repo{}, Info{}, err
	}
	return contract.Repo{URL: top, Base: commit, Branch: cmp.Or(rev, info.Branch, "HEAD")}, info, nil
}

// workTree returns the top of the work tree that contains a path.
func (m *Manager) workTree(ctx context.Context, path string) (string, error) {
	stat, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", repoFault("the repository %s does not exist on this host", path)
	case err != nil:
		return "", repoFault("cannot read the repository %s: %v", path, err)
	case !stat.IsDir():
		return "", repoFault("%s is a file; specify the directory of a git repository", path)
	}
	out, err := m.local(ctx, path, nil, "rev-parse", "--is-bare-repository", "--is-inside-git-dir")
	var ge *gitError
	if errors.As(err, &ge) {
		if strings.Contains(ge.stderr, "not a git repository") {
			return "", repoFault("%s is not a git repository; run `git init` there and create a commit, or specify another repository", path)
		}
		return "", repoFault("git cannot use the repository %s: %s", path, ge.stderr)
	}
	if err != nil {
		return "", err
	}
	switch out {
	case "true\ntrue", "true\nfalse":
		return "", repoFault("%s is a bare repository; specify the path of a clone with a work tree (git clone %s)", path, path)
	case "false\ntrue":
		return "", repoFault("%s is inside a git directory; specify the path of the work tree that it belongs to", path)
	}
	top, err := m.local(ctx, path, nil, "rev-parse", "--show-toplevel")
	if err != nil || !filepath.IsAbs(top) {
		return "", repoFault("git cannot determine the work tree of %s", path)
	}
	given, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", repoFault("cannot read the repository %s: %v", path, err)
	}
	if !within(top, given) { // core.worktree
		return "", elsewhere(path, "its work tree is "+top, top)
	}
	dir, err := m.local(ctx, path, nil, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return "", repoFault("git cannot determine the git directory of %s", path)
	}
	if own, err := m.gitDirOf(ctx, top); err != nil {
		return "", err
	} else if !same(own, dir) {
		return "", elsewhere(path, "its work tree is "+top, top)
	}
	return top, m.checkLayout(ctx, top)
}

func (m *Manager) resolveRev(ctx context.Context, top, rev, branch string) (string, error) {
	commit, err := m.local(ctx, top, nil, "rev-parse", "--verify", "-q", cmp.Or(rev, "HEAD")+"^{commit}")
	if err == nil && commitID.MatchString(commit) {
		return commit, nil
	}
	if ctx.Err() != nil {
		return "", err
	}
	out, err := m.local(ctx, top, nil, "for-each-ref", "--format=%(refname:short)", "refs/heads", "refs/remotes", "refs/tags")
	if err != nil {
		return "", repoFault("git cannot list the branches of %s", top)
	}
	names := strings.Fields(out)
	switch {
	case len(names) == 0:
		return "", emptyFault(top)
	case rev == "":
		return "", baseError{repoFault("the branch %s, checked out in %s, has no commits; specify a base, such as %s", branch, top, list(nearest(branch, names)))}
	default:
		return "", unknownBase(top, rev, names)
	}
}

func emptyFault(repo string) error {
	return repoFault("the repository %s is empty: it has no commits; create a commit first", repo)
}

func unknownBase(repo, rev string, names []string) error {
	return baseError{repoFault("%s has no branch, tag or commit %q; available: %s", repo, rev, list(nearest(rev, names)))}
}

// baseError is an error of Resolve about the base.
type baseError struct{ error }

// Unwrap lets fault.Of see the class and code.
func (e baseError) Unwrap() error { return e.error }

// IsAboutBase reports whether an error of Resolve is about the base, not about the repository.
func IsAboutBase(err error) bool {
	var e baseError
	return errors.As(err, &e)
}

func list(names []string) string { return strings.Join(names, ", ") }

// dirty reports whether a work tree has changes.
func (m *Manager) dirty(ctx context.Context, top string) (bool, error) {
	config, err := m.withoutFilters(ctx, top)
	if err != nil {
		return false, err
	}
	// Untracked files count: users would not expect a new file to be missing from a run.
	out, err := m.local(ctx, top, config, "status", "--porcelain", "--untracked-files=normal", "--ignore-submodules=all")
	if err != nil {
		return false, localFault(err, "could not read the state of %s", top)
	}
	return out != "", nil
}

func (m *Manager) resolveURL(ctx context.Context, src source, rev string) (contract.Repo, Info, error) {
	args := []string{"ls-remote", "--symref"}
	if !src.remote() {
		args = append(args, "--upload-pack="+m.server("upload-pack"))
	}
	args = append(args, "--", src.address)
	out, err := m.git(ctx, call{args: args, dir: m.options.CacheDir, allow: src.allow, address: src.contacted()})
	if err != nil {
		return contract.Repo{}, Info{}, remoteFault(err, "cannot read the repository %s", escapePercent(src.String()))
	}
	refs := parseRemoteRefs(out)
	if len(refs.ids) == 0 {
		return contract.Repo{}, Info{}, emptyFault(src.String())
	}
	info := Info{Branch: refs.head}
	commit := refs.find(rev)
	if commit == "" && commitID.MatchString(rev) {
		if _, err := m.Start(ctx, contract.Repo{URL: src.address, Base: rev}); err != nil {
			return contract.Repo{}, Info{}, err
		}
		commit = rev
	}
	if commit == "" && rev == "" {
		return contract.Repo{}, Info{}, baseError{repoFault("%s does not report its default branch; specify a base, such as %s", src, list(nearest("main", refs.names)))}
	}
	if commit == "" {
		return contract.Repo{}, Info{}, unknownBase(src.String(), rev, refs.names)
	}
	return contract.Repo{URL: src.address, Base: commit, Branch: cmp.Or(rev, info.Branch, "HEAD")}, info, nil
}

// remoteRefs are the references of another repository.
type remoteRefs struct {
	head  string            // default branch
	ids   map[string]string // full name → commit, tags peeled
	names []string          // short names of branches and tags
}

func parseRemoteRefs(out []byte) remoteRefs {
	refs := remoteRefs{ids: map[string]string{}}
	for line := range bytes.Lines(out) {
		id, name, ok := strings.Cut(strings.TrimSpace(string(line)), "\t")
		if !ok {
			continue
		}
		if target, ok := strings.CutPrefix(id, "ref: refs/heads/"); ok && name == "HEAD" {
			refs.head = target
			continue
		}
		name, peeled := strings.CutSuffix(name, "^{}")
		refs.ids[name] = id
		if short, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			refs.names = append(refs.names, short)
		} else if short, ok := strings.CutPrefix(name, "refs/tags/"); ok && !peeled {
			refs.names = append(refs.names, short)
		}
	}
	return refs
}

func (r remoteRefs) find(rev string) string {
	if rev == "" {
		return r.ids["HEAD"]
	}
	for _, prefix := range []string{"refs/heads/", "refs/tags/", ""} {
		if id := r.ids[prefix+rev]; id != "" {
			return id
		}
	}
	return ""
}

// maxSuggestions is the number of names listed in a message about an unknown base.
const maxSuggestions = 5

// nearest returns the names most similar to the wanted one, best first.
func nearest(wanted string, names []string) []string {
	names = slices.Clone(names)
	slices.Sort(names)
	names = slices.Compact(names)
	slices.SortStableFunc(names, func(a, b string) int { return unlikeness(wanted, a) - unlikeness(wanted, b) })
	return names[:min(len(names), maxSuggestions)]
}

// unlikeness is the edit distance, reduced if one name contains the other.
func unlikeness(a, b string) int {
	a, b = strings.ToLower(a), strings.ToLower(b)
	distance := levenshtein.ComputeDistance(a, b)
	if a != "" && (strings.Contains(b, a) || strings.Contains(a, b)) {
		return distance / 4
	}
	return distance
}
