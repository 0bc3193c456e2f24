package environment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

// Downloads is a directory on a host in which setups of a repository save directories of their home
// for the next setup, such as a package manager's downloads: <key>/<directory>. Its content is not
// part of an environment. It only saves time: nothing fails if a directory is missing or cannot be
// saved.
type Downloads struct{ root string }

// DownloadsAt returns the Downloads in a directory, which need not exist yet. It must be on the
// same file system as the Store.
func DownloadsAt(dir string) Downloads { return Downloads{root: dir} }

// Take moves the existing directories of a key into the home of a draft. If two drafts take the
// same directories concurrently, only one gets them.
func (d Downloads) Take(key string, folders []string, draft *Draft) error {
	from := filepath.Join(d.root, key)
	if _, err := os.Stat(from); len(folders) == 0 || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, folder := range folders {
		err := keepPath(from, draft.Home(), folder)
		if err == nil {
			err = ownParents(draft.Home(), folder)
		}
		if err != nil {
			return fmt.Errorf("reuse %s from an earlier setup: %w", folder, err)
		}
	}
	return nil
}

// ownParents transfers the parents of a directory to the owner of the home, the user of setup
// commands, because the commands add files to them.
func ownParents(home, folder string) error {
	info, err := os.Lstat(filepath.Join(home, folder))
	if err != nil {
		return nil //nolint:nilerr // it did not exist
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	for dir := path.Dir(folder); ok && dir != "."; dir = path.Dir(dir) {
		if err := os.Lchown(filepath.Join(home, dir), int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// Put moves directories out of the home of a draft, replacing all earlier ones of the key.
// Directories that would exceed the limit, most bytes in total, or that cannot be saved, are
// removed, so none remains in the draft. The error lists the directories that could not be saved.
func (d Downloads) Put(ctx context.Context, key string, folders []string, draft *Draft, most int64) error {
	if len(folders) == 0 {
		return nil
	}
	to := filepath.Join(d.root, key)
	err := removeAll(to)
	if err == nil {
		err = os.MkdirAll(to, 0o755)
	}
	for _, folder := range folders {
		bytes, failed := d.put(ctx, to, folder, draft, most)
		if most -= bytes; failed != nil {
			err = errors.Join(err, fmt.Errorf("save %s for the next setup: %w", folder, failed))
		}
	}
	return err
}

// put does not move a directory that is reached through a link, because setup commands determine
// the content of the home. They have exited, so nothing changes meanwhile. It returns the number of
// bytes saved.
func (d Downloads) put(ctx context.Context, to, folder string, draft *Draft, most int64) (int64, error) {
	top, err := filepath.EvalSymlinks(draft.Home())
	if err != nil {
		return 0, err
	}
	whole := filepath.Join(top, folder)
	if resolved, err := filepath.EvalSymlinks(whole); err != nil || resolved != whole {
		return 0, nil //nolint:nilerr // no downloads to keep
	}
	bytes, _ := usage(ctx, whole)
	if err := ctx.Err(); err != nil { // not measured completely
		return 0, errors.Join(err, removeAll(whole))
	}
	if bytes > most {
		return 0, removeAll(whole)
	}
	if err := keepPath(draft.Home(), to, folder); err != nil {
		return 0, errors.Join(err, removeAll(whole))
	}
	return bytes, nil
}

// Sweep removes downloads that no setup has used for longer than age, and then the least recently
// used ones until the rest is within the limit of most bytes.
func (d Downloads) Sweep(ctx context.Context, age time.Duration, most int64) error {
	entries, err := os.ReadDir(d.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list downloads: %w", err)
	}
	used := map[string]time.Time{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			used[e.Name()] = info.ModTime()
		}
	}
	keys := slices.SortedFunc(maps.Keys(used), func(a, b string) int { return used[b].Compare(used[a]) }) // most recently used first
	var failed error
	for _, key := range keys {
		dir := filepath.Join(d.root, key)
		bytes, _ := usage(ctx, dir)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if most -= bytes; most >= 0 && time.Since(used[key]) <= age {
			continue
		}
		most += bytes
		if err := removeAll(dir); err != nil {
			failed = errors.Join(failed, fmt.Errorf("remove old downloads: %w", err))
		}
	}
	return failed
}
