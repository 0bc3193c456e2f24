package output

import (
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// Paths describes where a command ran. It converts paths in the output into paths in the checkout.
type Paths struct {
	Root   string            // on the host
	Dir    string            // working directory, relative to Root
	GoDirs map[string]string // Go modules: path → directory
}

// goFile returns the path of a file that a test refers to by its base name.
func (s Paths) goFile(pkg, file string) string {
	if path.IsAbs(file) || strings.Contains(file, "/") {
		return s.Rel(file)
	}
	dir := s.GoDir(pkg)
	if dir == "" && len(s.GoDirs) > 0 {
		return ""
	}
	return Name(path.Join(dir, file))
}

// Rel converts a path printed by a tool into a path relative to the checkout. It returns "" for a
// path outside the checkout.
func (s Paths) Rel(p string) string {
	p = strings.TrimSpace(p)
	if rest, ok := strings.CutPrefix(p, "file://"); ok {
		p = rest
		if plain, err := url.PathUnescape(rest); err == nil {
			p = plain
		}
	}
	if p == "" || len(p) > 1000 || strings.ContainsAny(p, "\n\x00") {
		return ""
	}
	if path.IsAbs(p) {
		inside, ok := s.Inside(path.Clean(p))
		if !ok {
			return ""
		}
		p = inside
	} else {
		p = path.Join(s.Dir, p)
	}
	if !filepath.IsLocal(p) || p == "." || Below(p, ScratchDir) {
		return ""
	}
	return Name(p)
}

// Inside turns an absolute path into one relative to the checkout, if it is inside.
func (s Paths) Inside(p string) (string, bool) {
	for _, root := range []string{sandbox.Workspace, s.Root} {
		if rest, ok := strings.CutPrefix(p, root+"/"); ok && root != "" {
			return rest, true
		}
	}
	return "", false
}

// GoDir is the directory of a Go package, relative to the checkout.
func (s Paths) GoDir(importPath string) string {
	importPath, _, _ = strings.Cut(importPath, " ") // "m/pkg [m/pkg.test]"
	importPath = strings.TrimSuffix(importPath, "_test")
	best, dir := -1, ""
	for module, d := range s.GoDirs {
		rest, ok := strings.CutPrefix(importPath, module)
		if ok && len(module) > best && (rest == "" || rest[0] == '/') {
			best, dir = len(module), path.Join(d, strings.TrimPrefix(rest, "/"))
		}
	}
	if best < 0 || !filepath.IsLocal(dir) {
		return ""
	}
	return dir
}

// Below reports whether p is in dir, both slash-separated and relative.
func Below(p, dir string) bool {
	return dir == "." || p == dir || strings.HasPrefix(p, dir+"/")
}

// ScratchDir is the directory in which detected commands write their reports. It is inside the
// checkout, because nothing else outlives the sandbox. The name begins with a dot so that linters
// and test runners ignore it.
const ScratchDir = ".rgpt-verify"
