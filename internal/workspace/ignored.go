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

// maxIgnoreBytes bounds the .gitignore files that are looked at here.
const maxIgnoreBytes = 64 << 10

// mayBeIgnored reports whether git might leave a new file out. False is certain;
// to find out more is left to git, whose rules are many: no pattern of the
// .gitignore files on the way can mean the file or a directory that it is in.
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

// readIgnoreFile returns a .gitignore file's content, "" when there is none;
// false when git has to look at it.
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
	// simplePattern are patterns that git and path.Match understand alike.
	simplePattern = regexp.MustCompile(`^([^\[\]\\]|\[[A-Za-z0-9]+\])*$`)
)

// patternMayMatch looks at a pattern's last part alone, which always has to
// match one part of the path.
func patternMayMatch(line string, parts []string) bool {
	line = strings.TrimRight(strings.TrimSuffix(line, "\r"), " ")
	if line == "" || line[0] == '#' || line[0] == '!' { // ! only takes an earlier pattern back
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

// Untracked lists what the work tree holds beside the workspace's files, from
// its root, with folders of nothing else named as a whole ("node_modules/"): all
// of it, and what of it the repository does not ignore.
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
			return nil, localFault(err, "the files of a workspace could not be listed")
		}
		return strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 }), nil
	}
	if all, err = list(); err != nil {
		return nil, nil, err
	}
	unignored, err = list("--exclude-standard")
	return all, unignored, err
}

// Ignore lets Save pass over what matches patterns in the form of .gitignore, on
// top of what the repository ignores, until the directory is closed. Files that
// the workspace has are saved all the same.
func (d *Dir) Ignore(patterns []string) error {
	d.excludes = ""
	if len(patterns) == 0 {
		return nil
	}
	file := filepath.Join(d.root, "exclude")
	if err := writeFile(file, strings.Join(patterns, "\n")+"\n"); err != nil {
		return wrapf(err, "a workspace directory cannot be written")
	}
	d.excludes = file
	return nil
}

// IgnorePattern is the pattern in the form of .gitignore that stands for one path
// from the root. A line break, which would begin another pattern, stands for any
// character; nothing else is matched.
func IgnorePattern(path string) string {
	return "/" + strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, " ", `\ `, "\t", `\	`, "\n", "?", "\r", "?").Replace(path)
}
