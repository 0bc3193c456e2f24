package output

import (
	"path"
	"strings"
)

// parseFileList reads the output of gofmt -l.
func parseFileList(data []byte, s Paths) Results {
	var out Results
	for _, line := range Lines(data) {
		f := s.Rel(strings.TrimSpace(line))
		if f == "" || !strings.HasSuffix(f, ".go") || GoIgnores(path.Dir(f)) || strings.HasPrefix(f, ".") || strings.Contains(f, "/.") || strings.Contains(f, "node_modules/") {
			continue
		}
		out.Problems = append(out.Problems, Problem{Level: Note, Path: f, Rule: "gofmt", Message: "the file is not formatted by gofmt"})
	}
	return out
}

// GoIgnores reports whether the pattern ./... skips a directory.
func GoIgnores(dir string) bool {
	for part := range strings.SplitSeq(dir, "/") {
		if part == "testdata" || part == "vendor" || strings.HasPrefix(part, "_") {
			return true
		}
	}
	return false
}
