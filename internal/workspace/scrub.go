package workspace

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// maxDepth is how deeply the directories of a work tree may be nested. No project comes close;
	// paths, and therefore git, cannot reach anything deeper.
	maxDepth = 200
	// addFactor times the patch limit is the maximum total size of changed files that git reads and
	// stores. It is above 1 because patches are compressed.
	addFactor = 4
	// clockSlack covers the lag of a file system's clock, up to one timer tick.
	clockSlack = 20 * time.Millisecond
	// maxListed limits the list of a change's files.
	maxListed = 64 << 20
)

// survey counts the files that a writer created or changed, including those that git ignores: an
// upper bound of the change, at no cost beyond the walk.
type survey struct {
	files   int
	bytes   int64
	largest int64
}

// scrub removes from the work tree everything that git on the host must not process: names that
// some system treats as .git, and everything except files, directories and symbolic links. Links
// are not followed. It returns a survey of the changes since the directory was opened.
func (d *Dir) scrub() (survey, error) {
	s := scrubber{root: d.Path(), since: d.since.Add(-clockSlack)}
	err := s.walk(s.root)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		err = wrapf(err, "could not read a workspace directory")
	}
	return s.found, err
}

type scrubber struct {
	root  string
	since time.Time
	found survey
}

func (s *scrubber) walk(from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case s.depth(path) > maxDepth:
			return tooLarge("directories are nested more than %d levels deep; remove them", maxDepth)
		case errors.Is(err, syscall.ENAMETOOLONG):
			return tooLarge("the path %.100s… is too long; remove it", path[len(s.root)+1:])
		case errors.Is(err, fs.ErrPermission) && entry != nil:
			return s.open(path, err)
		case err != nil:
			return err
		case path == s.root:
			return nil
		case IsGitName(entry.Name()):
			if err := removeTree(path); err != nil {
				return err
			}
			if entry.IsDir() {
				return fs.SkipDir
			}
		case entry.Type().IsRegular():
			s.note(entry)
		case !entry.IsDir() && entry.Type()&fs.ModeSymlink == 0:
			return os.Remove(path)
		}
		return nil
	})
}

func (s *scrubber) depth(path string) int {
	return strings.Count(path[len(s.root):], "/")
}

// note counts a file that was created or changed; its change time cannot be set back.
func (s *scrubber) note(entry fs.DirEntry) {
	info, err := entry.Info()
	if err != nil {
		return
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if ok && time.Unix(stat.Ctim.Unix()).Before(s.since) {
		return
	}
	s.found.files++
	s.found.bytes += info.Size()
	s.found.largest = max(s.found.largest, info.Size())
}

// open restores the permissions of a directory that a command made unreadable, and scrubs its
// content.
func (s *scrubber) open(path string, cause error) error {
	info, err := os.Lstat(path)
	if err != nil || info.Mode().Perm()&0o700 == 0o700 {
		return cause
	}
	if err := os.Chmod(path, info.Mode().Perm()|0o700); err != nil {
		return err
	}
	if err := s.walk(path); err != nil {
		return err
	}
	return fs.SkipDir
}

// fits rejects a change over the limits before git reads it, because git stores everything that it
// reads, even if the change is rejected afterwards. Git determines the ignored files only if the
// survey exceeds the limits.
func (d *Dir) fits(ctx context.Context, found survey) error {
	l, most := d.limits(), addFactor*d.m.options.MaxPatchBytes
	if found.files <= l.files && found.largest <= l.fileSize && found.bytes <= most {
		return nil
	}
	_ = os.Remove(d.indexPath() + ".lock")
	if err := d.refreshIndex(ctx); err != nil {
		return err
	}
	var out bytes.Buffer
	list := &limitedWriter{w: &out, left: maxListed}
	_, err := d.gitCall(ctx, call{stdout: list, args: []string{"ls-files", "--modified", "--others", "--exclude-standard", "-z"}})
	if list.cut {
		return tooLarge("more than %d files changed; remove generated files or list them in .gitignore", l.files)
	}
	if err != nil {
		return localFault(err, "could not list the changes in a workspace")
	}
	count, bytes := 0, int64(0)
	for path := range strings.SplitSeq(strings.TrimRight(out.String(), "\x00"), "\x00") {
		count++
		if err := l.check(count, path); err != nil {
			return err
		}
		if bytes += l.size(path); bytes > most {
			return tooLarge("the changed files total more than %d MB; remove generated files or list them in .gitignore", most>>20)
		}
	}
	return nil
}
