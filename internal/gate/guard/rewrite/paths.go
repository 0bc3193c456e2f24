package rewrite

import (
	"context"
	"iter"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/glob"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

const (
	// maxPath and maxName are the lengths in bytes of the longest path and name that common systems
	// allow.
	maxPath = 4096
	maxName = 255
)

// patterns returns the set of configured patterns without case, which some programs ignore.
func (j *judge) patterns(patterns []string, setting string) glob.Set {
	lower := make([]string, 0, len(patterns))
	for _, p := range patterns {
		if err := glob.Check(p); err != nil {
			j.add("pattern", contract.SeverityMajor, "", 0, "the pattern %q of the %s paths %s, so it matches no path; correct it", change.Clean(p), setting, err)
			continue
		}
		lower = append(lower, strings.ToLower(p))
	}
	return glob.NewSet(lower...)
}

// protects reports whether a set contains a path, or a path that some file system takes for the same.
func protects(set glob.Set, name string) bool {
	lower := strings.ToLower(name)
	if set.Match(lower) {
		return true
	}
	folded := change.Fold(name)
	return folded != lower && set.Match(folded)
}

// paths compares the paths before and after the change with the configured patterns, and looks for
// hostile ones.
func (j *judge) paths(ctx context.Context) error {
	protected, allowed := j.patterns(j.Limits.Protected, "protected"), j.patterns(j.Limits.Allowed, "allowed")
	for _, f := range j.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		for _, p := range f.Paths() {
			switch {
			case protects(protected, p):
				j.add("protected", contract.SeverityMajor, p, 0, "%s is a protected file; only a person may approve its change", change.Clean(p))
			case len(j.Limits.Allowed) > 0 && !allowed.Match(strings.ToLower(p)):
				j.add("outside", contract.SeverityMajor, p, 0, "%s is not among the paths that this change may touch; leave it unchanged", change.Clean(p))
			}
		}
		if f.Deleted() {
			continue
		}
		if why := unsafe(f.Path); why != "" {
			j.add("unsafe-path", contract.SeverityMajor, f.Path, 0, "the path %s %s; rename it", change.Clean(f.Path), why)
		} else if why := unportable(f.Path); why != "" && (f.Added() || f.From != "") {
			j.add("unportable-path", contract.SeverityMinor, f.Path, 0, "the path %s %s; rename it", change.Clean(f.Path), why)
		}
	}
	return nil
}

// unsafe says why a path is dangerous, or "".
func unsafe(name string) string {
	switch {
	case name == "" || strings.HasPrefix(name, "/"):
		return "is not relative to the repository"
	case !utf8.ValidString(name):
		return "is not valid UTF-8"
	case len(name) > maxPath:
		return "is longer than common systems allow"
	case strings.ContainsFunc(name, change.Invisible):
		return "contains characters that cannot be seen or that change how it is shown"
	case strings.Contains(name, `\`):
		return `contains a backslash, which separates directories on Windows`
	case len(name) > 1 && name[1] == ':' && unicode.IsLetter(rune(name[0])):
		return "starts with the name of a drive on Windows"
	}
	for part := range strings.SplitSeq(name, "/") {
		switch {
		case part == "" || part == "." || part == "..":
			return "contains an empty name, . or .."
		case workspace.IsGitName(part):
			return "contains a name that some file system takes for .git"
		case len(part) > maxName:
			return "contains a name that is longer than common systems allow"
		case strings.TrimRight(part, ". ") != part, strings.TrimLeft(part, " ") != part:
			return "contains a name that starts or ends with a space, or ends with a dot"
		}
	}
	return ""
}

// devices are names that Windows reserves, with any extension.
var devices = []string{
	"con", "prn", "aux", "nul", "com1", "com2", "com3", "com4", "com5", "com6", "com7", "com8", "com9",
	"lpt1", "lpt2", "lpt3", "lpt4", "lpt5", "lpt6", "lpt7", "lpt8", "lpt9",
}

// unportable says why a path cannot be used everywhere, or "".
func unportable(name string) string {
	if !norm.NFC.IsNormalString(name) {
		return "contains characters that are not composed, which macOS writes otherwise"
	}
	if strings.ContainsAny(name, `<>:"|?*`) {
		return "contains a character that Windows does not allow"
	}
	for part := range strings.SplitSeq(name, "/") {
		stem, _, _ := strings.Cut(strings.ToLower(part), ".")
		if slices.Contains(devices, stem) {
			return "contains a name that Windows reserves"
		}
	}
	return ""
}

// collisions looks for new paths that some file system takes for another path of the tree, including
// their directories.
func (j *judge) collisions(ctx context.Context) error {
	seen := map[string]string{} // the spelling of a file or directory, by its folded path
	var fresh []string
	for _, f := range j.Files {
		if !f.Deleted() && (f.Added() || f.From != "") {
			fresh = append(fresh, f.Path)
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	for _, p := range fresh {
		for at := range levels(p) {
			if folded := change.Fold(at); seen[folded] == "" {
				seen[folded] = at
			}
		}
	}
	existing, err := j.Tree.Paths(ctx)
	if err != nil {
		return err
	}
	others := spellings(seen, slices.Concat(existing, j.linkPaths()))
	for _, p := range fresh {
		for at := range levels(p) {
			if other := others[change.Fold(at)]; other != "" && other != at {
				j.add("ambiguous-path", contract.SeverityMajor, p, 0,
					"some file systems take the path %s for %s, which also exists; rename one of them", change.Clean(at), change.Clean(other))
				break
			}
		}
	}
	return nil
}

// spellings returns other spellings of the paths in seen, by their folded form, that the paths of a
// tree contain.
func spellings(seen map[string]string, paths []string) map[string]string {
	others, last := map[string]string{}, ""
	for _, p := range paths {
		if dir := path.Dir(p); dir != last {
			last = dir
			for at := range levels(dir) {
				note(seen, others, at)
			}
		}
		note(seen, others, p)
	}
	return others
}

// maxLevels is the number of directories above a file that are compared with others.
const maxLevels = 64

// levels returns a path and the directories that contain it.
func levels(p string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for n := 0; p != "." && p != "/" && n < maxLevels && len(p) <= maxPath; n++ {
			if !yield(p) {
				return
			}
			p = path.Dir(p)
		}
	}
}

// note records another spelling of a path that is in seen. The result is the other one for each of two
// new paths: the first spelling is that in seen.
func note(seen, others map[string]string, p string) {
	folded := change.Fold(p)
	if mine := seen[folded]; mine != "" && mine != p {
		others[folded] = p
	}
}

// linkPaths are the paths of links and submodules that the change makes, which are not among the files
// of the tree.
func (j *judge) linkPaths() (out []string) {
	for _, f := range j.Files {
		if f.After.Exists() && !f.After.Regular() {
			out = append(out, f.Path)
		}
	}
	return out
}
