package rewrite

import (
	"context"
	"path"
	"sort"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/glob"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// linkCheck judges the links of a change.
type linkCheck struct {
	*judge
	paths     []string        // all files of the tree, sorted
	links     map[string]bool // folded paths of the links that the change makes
	protected glob.Set
}

// newLinks prepares the check of links. It reads the tree only if there are any.
func (j *judge) newLinks(ctx context.Context) (linkCheck, error) {
	l := linkCheck{judge: j, links: map[string]bool{}}
	for _, f := range j.Files {
		if f.After.Mode == change.ModeLink {
			l.links[change.Fold(f.Path)] = true
		}
	}
	if len(l.links) == 0 {
		return l, nil
	}
	lower := make([]string, len(j.Limits.Protected))
	for i, p := range j.Limits.Protected {
		lower[i] = strings.ToLower(p)
	}
	l.protected = glob.NewSet(lower...)
	var err error
	l.paths, err = j.Tree.Paths(ctx)
	return l, err
}

// check judges a new or changed link, or one that moved.
func (l linkCheck) check(f change.File) {
	if f.Before.Mode == change.ModeLink && f.Before.Digest == f.After.Digest && f.From == "" {
		return
	}
	name, target := change.Clean(f.Path), string(f.After.Content)
	to, ok := resolve(f.Path, target)
	switch {
	case f.After.Unread || !ok:
		l.add("link-outside", contract.SeverityMajor, f.Path, 0, "the link %s leads to %s, outside of the repository or into .git; remove it", name, change.Clean(target))
	case to != "" && (protects(l.protected, to) || protects(l.protected, to+"/x")):
		l.add("link-protected", contract.SeverityMajor, f.Path, 0, "the link %s leads to the protected %s; remove it", name, change.Clean(to))
	case to == "" || strings.HasPrefix(change.Fold(f.Path)+"/", change.Fold(to)+"/"):
		l.add("link-chain", contract.SeverityMedium, f.Path, 0, "the link %s leads to itself or to a directory that contains it; link to what is needed", name)
	case l.through(to):
		l.add("link-chain", contract.SeverityMedium, f.Path, 0, "the link %s leads to another link (%s); link to the file itself", name, change.Clean(target))
	case !l.exists(to):
		l.add("link-chain", contract.SeverityMedium, f.Path, 0, "the link %s leads to %s, which is not a file or directory of the repository; link to an existing one",
			name, change.Clean(target))
	default:
		l.add("link", contract.SeverityMinor, f.Path, 0, "%s is a new or changed symbolic link to %s; check that it is wanted", name, change.Clean(target))
	}
}

// resolve returns the path to which a link leads, "" for the repository itself. It is not ok if the
// target is outside of the repository, or could be with a spelling of another system.
func resolve(link, target string) (to string, ok bool) {
	if target == "" || unsafeTarget(target) {
		return "", false
	}
	dir := path.Dir(link)
	to = path.Clean(path.Join(dir, target))
	// Join removes names before a .. that may be links themselves. None may climb out on the way.
	depth := strings.Count(dir, "/") + 1
	if dir == "." {
		depth = 0
	}
	for part := range strings.SplitSeq(target, "/") {
		switch part {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return "", false
			}
		default:
			depth++
		}
	}
	if to == "." {
		return "", true
	}
	return to, true
}

// unsafeTarget reports whether a target is absolute on some system, cannot be shown, or contains .git.
func unsafeTarget(target string) bool {
	if strings.HasPrefix(target, "/") || strings.HasPrefix(target, "~") || len(target) > 1 && target[1] == ':' ||
		strings.Contains(target, `\`) || strings.ContainsFunc(target, change.Invisible) {
		return true
	}
	for part := range strings.SplitSeq(target, "/") {
		if workspace.IsGitName(part) {
			return true
		}
	}
	return false
}

// through reports whether a path is a link of this change, or below one.
func (l linkCheck) through(to string) bool {
	for at := change.Fold(to); at != "." && at != "/"; at = path.Dir(at) {
		if l.links[at] {
			return true
		}
	}
	return false
}

// exists reports whether a path is a file or a directory with files.
func (l linkCheck) exists(to string) bool {
	i := sort.SearchStrings(l.paths, to)
	if i < len(l.paths) && l.paths[i] == to {
		return true
	}
	i = sort.SearchStrings(l.paths, to+"/")
	return i < len(l.paths) && strings.HasPrefix(l.paths[i], to+"/")
}
