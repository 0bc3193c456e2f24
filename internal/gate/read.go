package gate

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// The limits of what is read of a change. A file over them is judged without its content.
const (
	MaxFiles     = 20_000
	MaxFileBytes = 1 << 20
	MaxBytes     = 64 << 20
)

// Read returns the difference between two workspaces of the same base: its files and trees.
func Read(ctx context.Context, m *workspace.Manager, from, to contract.Workspace) (change.Change, error) {
	entries, leftOut, err := m.ChangedEntries(ctx, from, to, workspace.EntryLimits{Files: MaxFiles, File: MaxFileBytes, Bytes: MaxBytes})
	if err != nil {
		return change.Change{}, err
	}
	c := change.Change{
		Base: &tree{manager: m, workspace: from}, Tree: &tree{manager: m, workspace: to},
		Files: make([]change.File, len(entries)), Unread: leftOut,
	}
	for i, e := range entries {
		c.Files[i] = change.File{Path: e.Path, From: e.From, Before: version(e.Before), After: version(e.After)}
	}
	slices.SortFunc(c.Files, func(a, b change.File) int { return strings.Compare(a.Path, b.Path) })
	return c, nil
}

func version(v workspace.EntryVersion) change.Version {
	return change.Version{Mode: change.Mode(v.Mode), Digest: v.ID, Size: v.Size, Content: v.Content, Unread: v.Unread}
}

// tree is the tree of a workspace. It is safe for concurrent use.
type tree struct {
	manager   *workspace.Manager
	workspace contract.Workspace

	list  sync.Mutex
	paths []string
	known bool
}

func (t *tree) Read(ctx context.Context, path string, most int64) ([]byte, bool, error) {
	return t.manager.File(ctx, t.workspace, path, most)
}

func (t *tree) Paths(ctx context.Context) ([]string, error) {
	t.list.Lock()
	defer t.list.Unlock()
	if t.known {
		return t.paths, nil
	}
	files, err := t.manager.ListTree(ctx, t.workspace)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		t.paths = append(t.paths, f.Path)
	}
	slices.Sort(t.paths)
	t.known = true
	return t.paths, nil
}
