package history

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Log reads a repository: it calls f for up to most commits that are reachable from tip but not from
// since, or all that are reachable from tip if since is "", the newest first and without merges. An
// error of f ends it.
type Log func(ctx context.Context, tip, since string, most int, f func(Commit) error) error

// Directory keeps the histories of repositories in files, one for each of the last tips.
type Directory struct {
	// Path is the directory; it is created when it is needed.
	Path string
	// Commits is the number of commits of a history; 0: DefaultCommits.
	Commits int
}

const (
	// format is the version of the files. A file of another format is not read.
	format = 1
	// extension is the ending of the files' names.
	extension = ".history"
	// maxFile is the size of a file, uncompressed, above which it is not read.
	maxFile = 512 << 20
	// keptFiles is the number of files of a repository: those of its last tips.
	keptFiles = 4
)

// stored is the content of a file.
type stored struct {
	Format  int
	Tip     string
	Limit   int
	Commits []Commit // newest first
}

// Load returns the history of a repository up to a tip. key names the repository and must be a valid
// name of a directory. If the history of another tip is stored, only the commits in between are read.
// A file that is damaged is not used.
func (d Directory) Load(ctx context.Context, key, tip string, log Log) (*History, error) {
	if key == "" || key != filepath.Base(key) || strings.HasPrefix(key, ".") || tip == "" || tip != filepath.Base(tip) {
		return nil, fmt.Errorf("history of repository %q at commit %q: not a valid name", key, tip)
	}
	limit := cmp.Or(d.Commits, DefaultCommits)
	dir := filepath.Join(d.Path, key)
	if s, err := read(filepath.Join(dir, tip+extension)); err == nil && s.Tip == tip && s.Limit == limit {
		return New(s.Commits, limit, Tuned()), nil
	}
	s := stored{Format: format, Tip: tip, Limit: limit}
	var err error
	if s.Commits, err = d.update(ctx, dir, tip, limit, log); err != nil {
		return nil, fmt.Errorf("read the past commits of %s: %w", tip, err)
	}
	if err := write(dir, s); err != nil {
		return nil, fmt.Errorf("store the past commits of %s: %w", tip, err)
	}
	return New(s.Commits, limit, Tuned()), nil
}

// update returns the commits of a tip: those of the last stored tip, with what is new and without what
// the tip is not based on.
func (d Directory) update(ctx context.Context, dir, tip string, limit int, log Log) ([]Commit, error) {
	collect := func(tip, since string, f func(Commit)) error {
		return log(ctx, tip, since, limit, func(c Commit) error {
			f(c)
			return nil
		})
	}
	var commits []Commit
	add := func(c Commit) {
		c.Message = strings.Clone(c.Message[:min(len(c.Message), MaxMessage)])
		if len(c.Changes) > MaxFiles {
			c.Changes = nil
		}
		commits = append(commits, c)
	}
	old, err := newest(dir, limit)
	if err == nil {
		gone := map[string]bool{}
		err = collect(old.Tip, tip, func(c Commit) { gone[c.ID] = true })
		if err == nil && len(gone) < limit/2 { // else too few would remain
			if err := collect(tip, old.Tip, add); err != nil {
				return nil, err
			}
			for _, c := range old.Commits {
				if len(commits) < limit && !gone[c.ID] {
					commits = append(commits, c)
				}
			}
			// Commits that were beyond the limit of the old tip come back when others are gone. They
			// are the oldest, so that they are left out.
			return commits, nil
		}
		// The old tip can be gone from the repository after a rebase: start over.
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	commits = nil
	err = collect(tip, "", add)
	return commits, err
}

// newest reads the file that was written last.
func newest(dir string, limit int) (stored, error) {
	for _, name := range files(dir) {
		if s, err := read(filepath.Join(dir, name)); err == nil && s.Limit == limit {
			return s, nil
		}
	}
	return stored{}, fs.ErrNotExist
}

// files lists the names of a repository's files, the one that was written last first.
func files(dir string) []string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // nothing is stored yet, or it cannot be read: the log is read instead
	}
	type file struct {
		name string
		time int64
	}
	var all []file
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() && filepath.Ext(e.Name()) == extension {
			all = append(all, file{e.Name(), info.ModTime().UnixNano()})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(a.name, b.name)) })
	names := make([]string, len(all))
	for i, f := range all {
		names[i] = f.name
	}
	return names
}

func read(name string) (stored, error) {
	var s stored
	f, err := os.Open(name)
	if err != nil {
		return s, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return s, err
	}
	if err := gob.NewDecoder(io.LimitReader(z, maxFile)).Decode(&s); err != nil {
		return s, err
	}
	if s.Format != format {
		return s, fmt.Errorf("%s has format %d, not %d", name, s.Format, format)
	}
	return s, nil
}

// write stores a history and removes the files of tips that are long gone. A file appears whole or not
// at all.
func write(dir string, s stored) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "new-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if err := errors.Join(gob.NewEncoder(z).Encode(s), z.Close(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(dir, s.Tip+extension)); err != nil {
		return err
	}
	names := files(dir)
	for _, name := range names[min(keptFiles, len(names)):] {
		os.Remove(filepath.Join(dir, name))
	}
	return nil
}
