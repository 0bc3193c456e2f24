package tool

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/rocketgpt/orchestrator/internal/glob"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// errEnough ends a walk early; errTooSlow ends it when WalkTime is over.
var (
	errEnough  = errors.New("enough")
	errTooSlow = errors.New("checking the files took too long")
)

// walk calls visit for each regular file and symbolic link below a directory, in the order of
// paths, skipping git directories and files ignored by .gitignore. Links are not followed. It
// returns false if WalkEntries or WalkTime was exceeded. The context of visit also ends with
// WalkTime.
func (f *files) walk(ctx context.Context, dir string, visit func(ctx context.Context, name string, entry fs.DirEntry) error) (complete bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.limits.WalkTime, errTooSlow)
	defer cancel()
	left := f.limits.WalkEntries
	err = f.walkDir(ctx, dir, nil, &left, visit)
	switch {
	case errors.Is(err, errTooSlow):
		return false, nil
	case errors.Is(err, errEnough):
		return left > 0, nil
	}
	return true, err
}

func (f *files) walkDir(ctx context.Context, dir string, rules []ignoreRule, left *int, visit func(context.Context, string, fs.DirEntry) error) error {
	entries, err := f.readDir(dir)
	if err != nil {
		return err
	}
	rules = slices.Concat(rules, f.ignoreRules(dir))
	rules = rules[max(0, len(rules)-maxIgnoreRules):]
	// Directories sort with their slash, so that paths are visited in order.
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(sortName(a), sortName(b)) })
	for _, entry := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		name := path.Join(dir, entry.Name())
		if workspace.IsGitName(entry.Name()) || ignored(rules, name, entry.IsDir()) {
			continue
		}
		if *left--; *left <= 0 {
			return errEnough
		}
		switch {
		case entry.IsDir():
			// An unreadable or deleted directory is skipped.
			if err := f.walkDir(ctx, name, rules, left, visit); err != nil && !errors.As(err, new(refusal)) {
				return err
			}
		case entry.Type().IsRegular() || entry.Type()&fs.ModeSymlink != 0:
			if err := visit(ctx, name, entry); err != nil {
				return err
			}
		}
	}
	return nil
}

// readDir lists a directory. Root.FS would reject names that are not UTF-8.
func (f *files) readDir(dir string) ([]fs.DirEntry, error) {
	file, err := f.root.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY, 0)
	if err != nil {
		return nil, explain(dir, err)
	}
	defer file.Close()
	entries, err := file.ReadDir(-1)
	return entries, explain(dir, err)
}

func sortName(entry fs.DirEntry) string {
	if entry.IsDir() {
		return entry.Name() + "/"
	}
	return entry.Name()
}

// ignoreRule is one line of a .gitignore file.
type ignoreRule struct {
	base    string // directory of the file
	pattern string // for package glob, relative to base
	dirOnly bool
	keep    bool // a line with ! reverts an earlier one
}

// Limits on reading .gitignore files.
const (
	maxIgnoreFile  = 256 << 10 // bytes of one
	maxIgnoreRules = 5000      // lines that apply to one directory; the nearest count
)

func (f *files) ignoreRules(dir string) []ignoreRule {
	content, err := f.readWhole(path.Join(dir, ".gitignore"), maxIgnoreFile)
	if err != nil {
		return nil
	}
	var rules []ignoreRule
	for line := range strings.Lines(string(content)) {
		if rule, ok := parseIgnore(dir, line); ok {
			rules = append(rules, rule)
		}
	}
	return rules
}

func parseIgnore(dir, line string) (ignoreRule, bool) {
	line = strings.TrimRight(line, " \t\r\n")
	if line == "" || strings.HasPrefix(line, "#") {
		return ignoreRule{}, false
	}
	rule := ignoreRule{base: dir}
	line, rule.keep = strings.CutPrefix(line, "!")
	line, rule.dirOnly = strings.CutSuffix(line, "/")
	if strings.Contains(line, "/") {
		rule.pattern = strings.TrimPrefix(line, "/")
	} else {
		rule.pattern = "**/" + line // a bare name applies at any depth
	}
	rule.pattern = glob.Literal(rule.pattern)
	return rule, line != "" && glob.Check(rule.pattern) == nil
}

// ignored reports whether the last matching rule ignores a path.
func ignored(rules []ignoreRule, name string, isDir bool) bool {
	for _, rule := range slices.Backward(rules) {
		if rule.dirOnly && !isDir {
			continue
		}
		rel := name
		if rule.base != "." {
			rel = strings.TrimPrefix(name, rule.base+"/")
		}
		if glob.Match(rule.pattern, rel) {
			return !rule.keep
		}
	}
	return false
}
