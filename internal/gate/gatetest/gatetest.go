// Package gatetest makes changes for tests of guards.
package gatetest

import (
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// Tree is a tree in memory: contents of files by path.
type Tree map[string]string

// Read returns the content of a file, if it has at most most bytes.
func (t Tree) Read(_ context.Context, path string, most int64) (content []byte, ok bool, err error) {
	text, ok := t[path]
	if !ok || int64(len(text)) > most {
		return nil, false, nil
	}
	return []byte(text), true, nil
}

// Paths returns the paths of all files, sorted.
func (t Tree) Paths(context.Context) ([]string, error) { return slices.Sorted(maps.Keys(t)), nil }

// Between returns the change from one tree to another, of a builder. A file that disappears while a
// new one has the same content is a rename.
func Between(before, after Tree) change.Change {
	c := change.Change{Base: before, Tree: after, Author: change.RoleBuilder}
	gone := map[string]string{} // paths by content
	for path, content := range before {
		if _, kept := after[path]; !kept {
			gone[content] = path
		}
	}
	renamed := map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(after)) {
		content := after[path]
		old, existed := before[path]
		switch from, moved := gone[content]; {
		case existed && old == content:
		case existed:
			c.Files = append(c.Files, change.File{Path: path, Before: File(old), After: File(content)})
		case moved && !renamed[from]:
			renamed[from] = true
			c.Files = append(c.Files, change.File{Path: path, From: from, Before: File(content), After: File(content)})
		default:
			c.Files = append(c.Files, change.File{Path: path, After: File(content)})
		}
	}
	for path, content := range before {
		if _, kept := after[path]; !kept && !renamed[path] {
			c.Files = append(c.Files, change.File{Path: path, Before: File(content)})
		}
	}
	slices.SortFunc(c.Files, func(a, b change.File) int {
		if a.Path < b.Path {
			return -1
		}
		return 1
	})
	return c
}

// File is a version of a regular file.
func File(content string) change.Version { return Entry(change.ModeFile, content) }

// Entry is a version of any mode.
func Entry(mode change.Mode, content string) change.Version {
	h := fnv.New64a()
	h.Write([]byte(content))
	v := change.Version{Mode: mode, Digest: fmt.Sprintf("%040x", h.Sum64()), Size: int64(len(content)), Content: []byte(content)}
	if mode == change.ModeSubmodule {
		v.Size, v.Content = 0, nil
	}
	return v
}

// Rules returns the findings as "guard/rule path:line", for comparisons.
func Rules(found []change.Finding) []string {
	var out []string
	for _, f := range found {
		s := f.Guard + "/" + f.Rule
		if f.Path != "" {
			s += " " + f.Path
		}
		if f.Line > 0 {
			s += fmt.Sprintf(":%d", f.Line)
		}
		out = append(out, s)
	}
	return out
}
