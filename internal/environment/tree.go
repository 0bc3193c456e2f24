package environment

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
)

const (
	maxEntries = 100_000   // that the walk visits
	maxFile    = 512 << 10 // bytes read from one manifest
	maxLock    = 8 << 20   // bytes read from one lock file
	maxNesting = 100       // of brackets in a manifest: TOML parsers recurse
	maxDepth   = 4         // of directories searched for projects
)

// tree lists the regular files of the checkout, found without following symbolic links.
type tree struct {
	root  *os.Root
	files []string // slash-separated, sorted
}

// skippedDirs are directories of third-party code or the output of tools.
var skippedDirs = map[string]bool{
	"node_modules": true, "bower_components": true, "site-packages": true, "__pycache__": true,
	"target": true, "venv": true,
}

// dotDirs are the hidden directories that may describe setups.
var dotDirs = map[string]bool{
	".github": true, ".devcontainer": true, ".mvn": true, ".cargo": true, ".yarn": true, ".config": true, ".ci": true,
}

// readTree walks level by level, so that in a tree with more than most entries only the deepest
// directories are omitted: manifests are near the root.
func readTree(root *os.Root, most int) (*tree, error) {
	t := &tree{root: root}
	level, seen := []string{"."}, 0
	for len(level) > 0 {
		var next []string
		for _, dir := range level {
			entries, err := fs.ReadDir(root.FS(), dir)
			if err != nil && dir == "." {
				return nil, fmt.Errorf("read the directories of the checkout: %w", err)
			}
			// The tools will report other unreadable directories.
			for _, d := range entries {
				if seen++; seen > most {
					slices.Sort(t.files)
					return t, nil
				}
				p := path.Join(dir, d.Name())
				switch {
				case d.IsDir() && !skipDir(p, d.Name()):
					next = append(next, p)
				case d.Type().IsRegular():
					t.files = append(t.files, p)
				}
			}
		}
		level = next
	}
	slices.Sort(t.files)
	return t, nil
}

func skipDir(p, name string) bool {
	if p == ".yarn/cache" {
		return true // thousands of archives; whether there is one is checked separately
	}
	return skippedDirs[name] || strings.HasPrefix(name, ".") && !dotDirs[name]
}

// has reports whether a regular file exists.
func (t *tree) has(p string) bool {
	_, found := slices.BinarySearch(t.files, p)
	return found
}

// first returns the first of the named files that exists in a directory, or "" if none does.
func (t *tree) first(dir string, names ...string) string {
	for _, name := range names {
		if p := path.Join(dir, name); t.has(p) {
			return p
		}
	}
	return ""
}

// below lists the files of a directory, recursively.
func (t *tree) below(dir string) []string {
	if dir == "." {
		return t.files
	}
	from, _ := slices.BinarySearch(t.files, dir+"/")
	to, _ := slices.BinarySearch(t.files, dir+"0") // '0' comes after '/'
	return t.files[from:to]
}

// isDir reports whether a directory exists, even one that the walk skips.
func (t *tree) isDir(p string) bool {
	info, err := t.root.Lstat(p)
	return err == nil && info.IsDir()
}

// text returns the content of a manifest, or "" if it is missing, too large or not a regular file.
func (t *tree) text(p string) string { return t.bounded(p, maxFile) }

func (t *tree) bounded(p string, limit int64) string {
	data, err := readRegular(t.root, p, limit)
	if err != nil {
		return ""
	}
	return string(data)
}

// toml decodes a TOML file into v and reports whether that succeeded.
func (t *tree) toml(p string, v any) bool {
	text := t.text(p)
	if text == "" || tooDeep(text) {
		return false
	}
	_, err := toml.Decode(text, v)
	return err == nil
}

// json decodes a JSON file into v and reports whether that succeeded.
func (t *tree) json(p string, v any) bool {
	return json.Unmarshal([]byte(t.text(p)), v) == nil
}

// tooDeep reports whether brackets are nested too deeply. It also counts brackets in strings, which
// only makes it stricter.
func tooDeep(text string) bool {
	depth := 0
	for n := range len(text) {
		switch text[n] {
		case '[', '{':
			if depth++; depth > maxNesting {
				return true
			}
		case ']', '}':
			depth = max(0, depth-1)
		}
	}
	return false
}

// sideDirs are directories beside a project: its website, examples and benchmarks are separate
// projects, which its tests do not need.
var sideDirs = map[string]bool{
	"docs": true, "doc": true, "documentation": true, "website": true, "site": true, "www": true,
	"example": true, "examples": true, "sample": true, "samples": true, "demo": true, "demos": true,
	"bench": true, "benchmark": true, "benchmarks": true, "perf": true, "playground": true, "playgrounds": true,
	"template": true, "templates": true, "fixture": true, "fixtures": true, "testdata": true, "__fixtures__": true,
	"vendor": true, "third_party": true, "dist": true, "fuzz": true, "fuzzing": true,
}

// testDirs contain tests, and sometimes other projects as test data.
var testDirs = map[string]bool{"test": true, "tests": true, "__tests__": true, "spec": true}

// isSideDir reports whether a directory is hidden or inside one of sideDirs.
func isSideDir(dir string) bool {
	for part := range strings.SplitSeq(dir, "/") {
		hidden := part != "." && strings.HasPrefix(part, ".") || strings.HasPrefix(part, "_")
		if sideDirs[part] || hidden || strings.HasPrefix(part, "perf-") || strings.HasPrefix(part, "bench-") {
			return true
		}
	}
	return false
}

func inTests(dir string) bool {
	return slices.ContainsFunc(strings.Split(dir, "/"), func(part string) bool { return testDirs[part] })
}

// folders lists the directories that have one of the files, the root first, omitting side and test
// directories.
func (t *tree) folders(names ...string) []string {
	var dirs []string
	for _, p := range t.files {
		dir := path.Dir(p)
		if slices.Contains(names, path.Base(p)) && strings.Count(p, "/") <= maxDepth && !isSideDir(dir) && !inTests(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs) // "." comes first: names that begin with a dot are side directories
	return slices.Compact(dirs)
}

// inside reports whether p is dir or inside it.
func inside(p, dir string) bool {
	return dir == "." || p == dir || strings.HasPrefix(p, dir+"/")
}

var (
	errTooLarge   = errors.New("the file is too large")
	errNotRegular = errors.New("not a regular file")
)

// readRegular reads a regular file of at most limit bytes, never through a link as its last part.
func readRegular(root *os.Root, p string, limit int64) ([]byte, error) {
	info, err := root.Lstat(p)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errNotRegular // a pipe would block, and a device would never end
	case info.Size() > limit:
		return nil, errTooLarge
	}
	file, err := root.Open(p)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, limit))
}
