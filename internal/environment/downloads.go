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

// Downloads is the folder of a host in which the set-ups of a repository leave folders
// of their home for the next set-up, such as the downloads of a package manager:
// <key>/<folder>. None of it is part of an environment. It only saves time: if
// something is missing or cannot be kept, nothing fails.
type Downloads struct{ root string }

// DownloadsAt returns the Downloads in a folder, which need not exist yet. It must be
// on the file system of the Store.
func DownloadsAt(dir string) Downloads { return Downloads{root: dir} }

// Take moves the existing folders of a key into the home of a draft. If two drafts want
// the same folders at once, one gets them.
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

// ownParents gives the parents of a folder of a home to the owner of the home, the user
// of set-up commands: the commands add to them.
func ownParents(home, folder string) error {
	info, err := os.Lstat(filepath.Join(home, folder))
	if err != nil {
		return nil //nolint:nilerr // it was not there to be taken
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	for dir := path.Dir(folder); ok && dir != "."; dir = path.Dir(dir) {
		if err := os.Lchown(filepath.Join(home, dir), int(owner.Uid), int(owner.Gid)); err != nil {
			return err
		}
	}
	return nil
}

// Put moves folders out of the home of a draft, replacing all that the key had. Folders
// that would exceed the limit, most bytes in total, or that cannot be kept, are
// removed: none of them stays in the draft. The error says what could not be kept.
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

// put leaves a folder in place if it is reached through a link: set-up commands chose
// what is in the home. They have ended, so nothing changes meanwhile. It returns the
// bytes that are kept.
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

// Sweep removes what no set-up used for longer than age, and then the least recently
// used until the rest is within the limit of most bytes.
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
