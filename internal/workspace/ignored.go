package workspace

import (
	"context"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
)

// maxIgnoreBytes limits the size of .gitignore files that are read here.
const maxIgnoreBytes = 64 << 10

// mayBeIgnored reports whether git might ignore a new file. False means that no pattern of the
// .gitignore files on the path can match the file or a directory above it; everything else is left
// to git.
func mayBeIgnored(root *os.Root, parts []string) bool {
	for i := range parts {
		content, ok := readIgnoreFile(root, path.Join(path.Join(parts[:i]...), ".gitignore"))
		if !ok {
			return true
		}
		for line := range strings.SplitSeq(content, "\n") {
			if patternMayMatch(line, parts) {
				return true
			}
		}
	}
	return false
}

// readIgnoreFile returns a .gitignore file's content, "" if there is none; false if git
// has to read it.
func readIgnoreFile(root *os.Root, name string) (string, bool) {
	info, err := root.Lstat(name)
	if os.IsNotExist(err) {
		return "", true
	}
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxIgnoreBytes {
		return "", false
	}
	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", false
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxIgnoreBytes+1))
	return string(content), err == nil && len(content) <= maxIgnoreBytes
}

var (
	printable = regexp.MustCompile(`^[ -~]*$`)
	// simplePattern matches patterns that git and path.Match interpret identically.
	simplePattern = regexp.MustCompile(`^([^\[\]\\]|\[[A-Za-z0-9]+\])*$`)
)

// patternMayMatch checks only the last part of a pattern, which must always match one part of the
// path.
func patternMayMatch(line string, parts []string) bool {
	line = strings.TrimRight(strings.TrimSuffix(line, "\r"), " ")
	if line == "" || line[0] == '#' || line[0] == '!' { // ! only reverts an earlier pattern
		return false
	}
	line = strings.TrimSuffix(line, "/")
	last := line[strings.LastIndexByte(line, '/')+1:]
	if last == "" || !printable.MatchString(line) || !simplePattern.MatchString(last) {
		return true
	}
	return slices.ContainsFunc(parts, func(part string) bool {
		matched, err := path.Match(last, part)
		return matched || err != nil
	})
}

// Untracked lists the paths in the work tree, relative to its root, that are not files of the
// workspace: all of them, and those that the repository does not ignore. A directory of only such
// files is listed as one path ("node_modules/").
func (d *Dir) Untracked(ctx context.Context) (all, unignored []string, err error) {
	if _, err := d.scrub(); err != nil {
		return nil, nil, err
	}
	if err := d.refreshIndex(ctx); err != nil {
		return nil, nil, err
	}
	list := func(more ...string) ([]string, error) {
		out, err := d.git(ctx, append([]string{"ls-files", "-z", "--others", "--directory", "--no-empty-directory"}, more...)...)
		if err != nil {
			return nil, localFault(err, "could not list the files in a workspace")
		}
		return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
	}
	if all, err = list(); err != nil {
		return nil, nil, err
	}
	unignored, err = list("--exclude-standard")
	return all, unignored, err
}

// Ignore makes Save skip files that match .gitignore patterns, in addition to those that the
// repository ignores, until the directory is closed. Files that the workspace already contains are
// still saved.
func (d *Dir) Ignore(patterns []string) error {
	d.excludes = ""
	if len(patterns) == 0 {
		return nil
	}
	file := filepath.Join(d.root, "exclude")
	if err := writeFile(file, strings.Join(patterns, "\n")+"\n"); err != nil {
		return wrapf(err, "cannot write to a workspace directory")
	}
	d.excludes = file
	return nil
}

// IgnorePattern returns the .gitignore pattern that matches only this path from the root, except
// that a line break, which would begin another pattern, is replaced with a wildcard for one
// character.
func IgnorePattern(path string) string {
	return "/" + strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, " ", `\ `, "\t", `\	`, "\n", "?", "\r", "?").Replace(path)
}
