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
	// maxDepth is how deeply the folders of a work tree may be nested. No project comes
	// near; anything deeper is out of reach of paths, and so of git.
	maxDepth = 200
	// addFactor times the limit of a patch is how many bytes a change may have before
	// git reads and stores them: patches are compressed.
	addFactor = 4
	// clockSlack: the clock of a file system lags by up to a timer tick.
	clockSlack = 20 * time.Millisecond
	// maxListed limits the list of a change's files.
	maxListed = 64 << 20
)

// survey is what a writer created or changed, including what git ignores: an upper
// bound of the change that costs nothing beyond the walk.
type survey struct {
	files   int
	bytes   int64
	largest int64
}

// scrub removes from the work tree what must not get near git on the host: names that
// some system treats as .git, and anything but files, directories and symbolic links.
// Links are not followed. It returns what has changed since the directory was opened.
func (d *Dir) scrub() (survey, error) {
	s := scrubber{root: d.Path(), since: d.since.Add(-clockSlack)}
	err := s.walk(s.root)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		err = wrapf(err, "a workspace directory could not be read")
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

// open makes a directory readable whose permissions a command removed, and scrubs its
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

// fits refuses a change over the limits before git reads it: git stores all that it
// reads, even if it is refused afterwards. Git is asked what it ignores only if so much
// has changed that it might be over the limits.
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
		return localFault(err, "the changes of a workspace could not be listed")
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
