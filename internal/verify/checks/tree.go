package checks

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

const (
	maxTree   = 100_000 // entries that planning visits
	maxSource = 1 << 20 // bytes that planning reads from one file
)

// checkout is a checkout as planning sees it: its regular files, found without following symbolic
// links.
type checkout struct {
	root  *os.Root
	files []string // slash-separated, sorted
}

// skippedDirs contain third-party code, which tools ignore.
var skippedDirs = map[string]bool{
	"node_modules": true, "bower_components": true, "site-packages": true, "__pycache__": true,
}

// outputDirs contain dependencies and build output, by Node and Python convention.
var outputDirs = map[string]bool{
	"vendor": true, "venv": true, "env": true, "target": true, "dist": true, "build": true,
	"coverage": true, "third_party": true,
}

// inOutput reports whether a path leads through one of outputDirs.
func inOutput(p string) bool {
	for part := range strings.SplitSeq(path.Dir(p), "/") {
		if outputDirs[part] {
			return true
		}
	}
	return false
}

func openTree(dir string) (*checkout, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	t := &checkout{root: root}
	if err := t.walk(); err != nil {
		root.Close()
		return nil, err
	}
	return t, nil
}

func (t *checkout) close() { t.root.Close() }

func (t *checkout) walk() error {
	seen := 0
	err := fs.WalkDir(t.root.FS(), ".", func(p string, d fs.DirEntry, failed error) error {
		if seen++; seen > maxTree {
			return fs.SkipAll
		}
		switch {
		case failed != nil && p == ".":
			return failed
		case failed != nil: // the tools will report what cannot be read
		case d.IsDir() && p != "." && (skippedDirs[d.Name()] || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.Type().IsRegular():
			t.files = append(t.files, p)
		}
		return nil //nolint:nilerr // unreadable entries are skipped here
	})
	slices.Sort(t.files)
	return err
}

// has reports whether a regular file exists.
func (t *checkout) has(p string) bool {
	_, found := slices.BinarySearch(t.files, p)
	return found
}

// read returns the beginning of a regular file, "" if it cannot be read.
func (t *checkout) read(p string) string {
	data, err := output.ReadRegular(t.root, p, maxSource)
	if err != nil && !errors.Is(err, output.ErrTooLarge) {
		return ""
	}
	return string(data)
}

// match returns the files for which ok is true.
func (t *checkout) match(ok func(p string) bool) []string {
	var out []string
	for _, p := range t.files {
		if ok(p) {
			out = append(out, p)
		}
	}
	return out
}

// projects returns the directories of a kind of project: the root if it has one of the marker
// files, otherwise the directories up to two levels below it that have one.
func (t *checkout) projects(markers ...string) []string {
	if slices.ContainsFunc(markers, t.has) {
		return []string{"."}
	}
	const maxDepth, maxProjects = 2, 20
	var dirs []string
	for _, p := range t.files {
		dir := path.Dir(p)
		if slices.Contains(markers, path.Base(p)) && depth(dir) <= maxDepth && !slices.Contains(dirs, dir) && !inFixture(dir) && !inOutput(p) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs[:min(len(dirs), maxProjects)]
}

func depth(dir string) int { return strings.Count(dir, "/") + 1 }

// inFixture reports whether a directory is inside test data: a project there is data.
func inFixture(dir string) bool {
	for part := range strings.SplitSeq(dir, "/") {
		if part == "testdata" || part == "fixtures" || part == "__fixtures__" || strings.HasPrefix(part, "_") {
			return true
		}
	}
	return false
}

// relTo returns p, which is inside dir, relative to dir.
func relTo(dir, p string) string {
	if dir == "." || dir == "" {
		return p
	}
	return strings.TrimPrefix(p, dir+"/")
}

// up returns p, which is anywhere below the root, relative to dir.
func up(dir, p string) string {
	if dir == "." || dir == "" {
		return p
	}
	return strings.Repeat("../", depth(dir)) + p
}

// roundRobin distributes items over at most n shards, none of them empty. The
// distribution depends only on the order of the items.
func roundRobin[T any](items []T, n int) [][]T {
	n = max(1, min(n, len(items), maxShards))
	shards := make([][]T, n)
	for i, item := range items {
		shards[i%n] = append(shards[i%n], item)
	}
	return shards
}

// maxShards prevents a wrong setting from creating thousands of checks.
const maxShards = 64
