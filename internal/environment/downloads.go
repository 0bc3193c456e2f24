package environment

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
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

// Put moves folders out of the home of a draft, in place of older ones. One with
// more than most bytes is removed.
func (d Downloads) Put(ctx context.Context, key string, folders []string, draft *Draft, most int64) error {
	if len(folders) == 0 {
		return nil
	}
	to := filepath.Join(d.root, key)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return fmt.Errorf("keep downloads: %w", err)
	}
	for _, folder := range folders {
		if err := d.put(ctx, to, folder, draft, most); err != nil {
			return fmt.Errorf("keep %s for the next set-up: %w", folder, err)
		}
	}
	now := time.Now()
	return os.Chtimes(to, now, now)
}

// put leaves a folder where it is that is reached through a link: set-up commands
// chose what lies in the home. They have ended, so nothing changes meanwhile.
func (d Downloads) put(ctx context.Context, to, folder string, draft *Draft, most int64) error {
	top, err := filepath.EvalSymlinks(draft.Home())
	if err != nil {
		return err
	}
	whole := filepath.Join(top, folder)
	if resolved, err := filepath.EvalSymlinks(whole); err != nil || resolved != whole {
		return nil // there is nothing to keep
	}
	if bytes, _ := usage(ctx, whole); bytes > most {
		return removeAll(whole)
	}
	kept, err := os.OpenRoot(to)
	if err != nil {
		return err
	}
	defer kept.Close()
	if err := dropTree(kept, folder); err != nil {
		return err
	}
	return keepPath(draft.Home(), to, folder)
}

// Sweep removes what no set-up used for longer than age.
func (d Downloads) Sweep(age time.Duration) error {
	entries, err := os.ReadDir(d.root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list downloads: %w", err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > age {
			err = removeAll(filepath.Join(d.root, e.Name()))
			if err != nil {
				return fmt.Errorf("remove old downloads: %w", err)
			}
		}
	}
	return nil
}
