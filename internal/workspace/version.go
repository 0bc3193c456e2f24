package workspace

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// CommitTime returns the time of a base commit.
func (m *Manager) CommitTime(ctx context.Context, repo, base string) (time.Time, error) {
	r, _, lock, err := m.use(ctx, repo, base)
	if err != nil {
		return time.Time{}, err
	}
	defer lock.release()
	out, err := r.run(ctx, call{args: []string{"show", "--no-patch", "--format=%ct", base}})
	if err != nil {
		return time.Time{}, localFault(err, "could not read the time of commit %s", base)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	if err != nil {
		return time.Time{}, runtimeFault("git reports an invalid time for commit %s: %q", base, out)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// releaseTag matches the version in the name of a tag: v1.2.3, release-1.2.
var releaseTag = regexp.MustCompile(`(?:^|[^0-9.])(\d+(?:\.\d+){1,3}(?:(?:a|b|rc|\.post)\d+)?)$`)

// Version returns the release version that a base commit follows, according to the tags of its
// repository, such as 8.1.7; empty if there is none. Some builds query git for it, but sandboxes
// have no git directory. For a repository on this host it is the last release before the commit,
// for any other the highest.
func (m *Manager) Version(ctx context.Context, repo, base string) (string, error) {
	src, err := parseSource(repo)
	if err != nil {
		return "", err
	}
	if src.local {
		return m.localVersion(ctx, src, base)
	}
	out, err := m.git(ctx, call{args: []string{"ls-remote", "--tags", "--refs", "--", src.address}, dir: m.options.CacheDir, allow: src.allow, address: src.contacted()})
	if err != nil {
		return "", remoteFault(err, "cannot read the tags in %s", escapePercent(src.String()))
	}
	var versions []string
	for line := range strings.Lines(string(out)) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			versions = append(versions, versionIn(name))
		}
	}
	return slices.MaxFunc(append(versions, ""), compareVersions), nil
}

func (m *Manager) localVersion(ctx context.Context, src source, base string) (string, error) {
	top, err := m.workTree(ctx, src.address)
	if err != nil {
		return "", err
	}
	name, err := m.local(ctx, top, nil, "describe", "--tags", "--abbrev=0", base)
	var none *gitError
	if errors.As(err, &none) {
		return "", nil // the commit follows no tag
	}
	return versionIn(name), err
}

func versionIn(tag string) string {
	if found := releaseTag.FindStringSubmatch(tag); found != nil {
		return found[1]
	}
	return ""
}

// compareVersions compares version numbers; a pre-release, with letters, precedes its release.
func compareVersions(a, b string) int {
	split := func(v string) []string { return strings.FieldsFunc(v, func(r rune) bool { return r == '.' }) }
	x, y := split(a), split(b)
	for i := range min(len(x), len(y)) {
		m, err1 := strconv.Atoi(x[i])
		n, err2 := strconv.Atoi(y[i])
		switch {
		case err1 == nil && err2 == nil && m != n:
			return m - n
		case err1 != nil && err2 == nil:
			return -1
		case err1 == nil && err2 != nil:
			return 1
		}
	}
	return len(x) - len(y)
}

// Named returns the name under which runs of a repository are stored: for a directory the top of
// its work tree, otherwise the address that git receives. It uses no network. A directory that no
// longer exists keeps the specified name.
func (m *Manager) Named(ctx context.Context, repo string) (string, error) {
	src, err := parseSource(repo)
	if err != nil {
		return "", err
	}
	if !src.local {
		return src.address, nil
	}
	if _, err := os.Stat(src.address); errors.Is(err, fs.ErrNotExist) {
		return src.address, nil
	}
	return m.workTree(ctx, src.address)
}
