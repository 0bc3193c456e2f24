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

// Downloads is the folder of a host in which the set-ups of a repository leave
// folders of their home for the next one, such as what a package manager has
// downloaded: <key>/<folder>. Nothing of it is part of an environment. It is there to
// save time: what is missing, or cannot be kept, fails nothing but the saving.
type Downloads struct{ root string }

// DownloadsAt returns what lies in a folder, which need not exist yet. It must be on
// the file system of the Store.
func DownloadsAt(dir string) Downloads { return Downloads{root: dir} }

// Take moves the folders of a key, those that are there, into the home of a draft.
// Of two drafts that want the same ones at once, one gets them.
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
			return fmt.Errorf("take %s of an earlier set-up: %w", folder, err)
		}
	}
	return nil
}

// ownParents gives the folders around a folder of a home to its owner, the user of
// set-up commands: they put more there.
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

// Put moves folders out of the home of a draft, in place of all that the key had. What
// would bring them over most bytes together, or cannot be kept, is removed: none of it
// stays in the draft. The error says what could not be kept.
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
			err = errors.Join(err, fmt.Errorf("keep %s for the next set-up: %w", folder, failed))
		}
	}
	return err
}

// put leaves a folder where it is that is reached through a link: set-up commands
// chose what lies in the home. They have ended, so nothing changes meanwhile. It
// returns the bytes that are kept.
func (d Downloads) put(ctx context.Context, to, folder string, draft *Draft, most int64) (int64, error) {
	top, err := filepath.EvalSymlinks(draft.Home())
	if err != nil {
		return 0, err
	}
	whole := filepath.Join(top, folder)
	if resolved, err := filepath.EvalSymlinks(whole); err != nil || resolved != whole {
		return 0, nil //nolint:nilerr // there is nothing to keep
	}
	bytes, _ := usage(ctx, whole)
	if err := ctx.Err(); err != nil { // it was not measured to its end
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

// Sweep removes what no set-up used for longer than age, and then what was not used
// for longest until at most most bytes are left.
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
	keys := slices.SortedFunc(maps.Keys(used), func(a, b string) int { return used[b].Compare(used[a]) }) // the newest first
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
