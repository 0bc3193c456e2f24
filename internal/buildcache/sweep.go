package buildcache

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rocketgpt/orchestrator/internal/dirlock"
	"github.com/rocketgpt/orchestrator/internal/rmtree"
)

// RemoveRun removes the layers of a run, and reports whether it removed any. Layers in use are left for the sweep.
func (s Store) RemoveRun(run int64) (removed bool, err error) {
	return remove(filepath.Join(s.root, "runs", strconv.FormatInt(run, 10)))
}

// entry is the unit of removal: the layers of a run, or the base of a repository.
type entry struct {
	path string
	used time.Time
	size int64
}

// Sweep removes entries that were not used for maxAge, then the least recently used ones until the
// store takes up no more than maxBytes. Entries in use are kept. 0 means no limit.
func (s Store) Sweep(ctx context.Context, maxAge time.Duration, maxBytes int64) error {
	entries, err := s.entries(ctx)
	if err != nil {
		return err
	}
	var total int64
	for _, e := range entries {
		total += e.size
	}
	oldest := time.Now().Add(-maxAge)
	for _, e := range entries {
		if ctx.Err() != nil {
			return fmt.Errorf("build cache: sweep interrupted: %w", context.Cause(ctx))
		}
		old, large := maxAge > 0 && e.used.Before(oldest), maxBytes > 0 && total > maxBytes
		if !old && !large {
			continue
		}
		removed, err := remove(e.path)
		if err != nil {
			return err
		}
		if removed {
			total -= e.size
		}
	}
	return nil
}

// entries returns the entries of the store, least recently used first, and removes leftovers of an
// interrupted sweep.
func (s Store) entries(ctx context.Context) ([]entry, error) {
	var all []entry
	for _, kind := range []string{"runs", "repos"} {
		dir := filepath.Join(s.root, kind)
		found, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("build cache: %w", err)
		}
		for _, f := range found {
			path := filepath.Join(dir, f.Name())
			if strings.HasSuffix(f.Name(), removedSuffix) {
				if err := removeTree(path); err != nil {
					return nil, err
				}
				continue
			}
			if info, err := f.Info(); err == nil {
				all = append(all, entry{path: path, used: info.ModTime(), size: sizeOf(ctx, path)})
			}
		}
	}
	slices.SortFunc(all, func(a, b entry) int { return cmp.Or(a.used.Compare(b.used), cmp.Compare(a.path, b.path)) })
	return all, nil
}

// sizeOf returns the disk usage of a directory.
func sizeOf(ctx context.Context, dir string) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if ctx.Err() != nil {
			return fs.SkipAll
		}
		if err != nil {
			return nil //nolint:nilerr // unreadable entries are not counted
		}
		if info, err := d.Info(); err == nil {
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				total += stat.Blocks * 512
			}
		}
		return nil
	})
	return total
}

// removedSuffix marks an entry that can no longer be opened.
const removedSuffix = ".removed"

// remove removes an entry unless it is in use.
func remove(dir string) (bool, error) {
	gone, err := renameUnused(dir)
	if gone == "" || err != nil {
		return false, err
	}
	return true, removeTree(gone)
}

// renameUnused renames an unused entry, so it can no longer be opened.
func renameUnused(dir string) (gone string, err error) {
	lock, err := dirlock.Claim(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, dirlock.ErrInUse) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("build cache: %w", err)
	}
	defer lock.Release()
	gone = fmt.Sprintf("%s.%d%s", dir, time.Now().UnixNano(), removedSuffix)
	if err := os.Rename(dir, gone); err != nil {
		return "", fmt.Errorf("build cache: %w", err)
	}
	return gone, nil
}

// removeTree also removes directories that a command made inaccessible to their owner.
func removeTree(dir string) error {
	if err := rmtree.Remove(dir); err != nil {
		return fmt.Errorf("build cache: %w", err)
	}
	return nil
}
