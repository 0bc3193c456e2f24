package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// copyPrefix is the name prefix of the file next to a directory that records which base was copied
// into it.
const copyPrefix = ".rgpt-copied-"

var (
	errCopyTooLarge = errors.New("sandbox: the base is larger than the disk limit")
	errCopyTooSlow  = errors.New("sandbox: copying the base exceeded the command's time limit")
)

// copied records which base was copied into a directory.
type copied struct {
	Base string
	// First is a path that the copy created. If it is missing, the directory was emptied and is
	// filled again.
	First string
}

// copyBases creates private copies of the bases in Root and Home, once for each directory. Existing
// files stay and override the base. Hard links would be faster, but would let commands write to the
// base.
func copyBases(ctx context.Context, c Command, started time.Time) error {
	if c.Limits.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, started.Add(c.Limits.Timeout), errCopyTooSlow)
		defer cancel()
	}
	left := c.Limits.DiskBytes
	for _, pair := range c.bases() {
		b := baseCopy{ctx: ctx, base: pair[1], limit: left}
		if err := b.into(pair[0]); err != nil {
			return err
		}
		if left > 0 {
			left = max(left-b.bytes, 1)
		}
	}
	return nil
}

type baseCopy struct {
	ctx   context.Context
	base  string
	limit int64 // of bytes; 0 means none
	bytes int64
	first string
	fresh bool // this copy created the directory being filled

	root  *os.Root // the directory being filled; a command wrote there
	owner unix.Stat_t
	chown bool
}

func (b *baseCopy) into(dir string) error {
	marker := filepath.Join(filepath.Dir(dir), copyPrefix+filepath.Base(dir))
	var err error
	if b.root, err = os.OpenRoot(dir); err != nil {
		return fmt.Errorf("sandbox: copy a base: %w", err)
	}
	defer func() { _ = b.root.Close() }()
	if b.isDone(marker) {
		return nil
	}
	if err := unix.Stat(dir, &b.owner); err != nil {
		return fmt.Errorf("sandbox: copy a base: %w", err)
	}
	b.chown = int(b.owner.Uid) != unix.Geteuid() || int(b.owner.Gid) != unix.Getegid()
	if err := b.directory(".", "."); err != nil {
		return fmt.Errorf("sandbox: copy the base %s: %w", b.base, err)
	}
	data, err := json.Marshal(copied{Base: b.base, First: b.first})
	if err == nil {
		err = os.WriteFile(marker, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("sandbox: copy a base: %w", err)
	}
	return nil
}

func (b *baseCopy) isDone(marker string) bool {
	data, err := os.ReadFile(marker)
	var was copied
	if err != nil || json.Unmarshal(data, &was) != nil || was.Base != b.base {
		return false
	}
	if was.First == "" {
		return true
	}
	_, err = b.root.Lstat(was.First)
	return err == nil
}

// unfinished is the name of a copy in progress: a file under its final name is complete, and an
// interrupted copy starts over.
const unfinished = ".rgpt-unfinished"

// directory copies the content of the directory from of the base into to.
func (b *baseCopy) directory(from, to string) error {
	entries, err := os.ReadDir(filepath.Join(b.base, from))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if b.ctx.Err() != nil {
			return context.Cause(b.ctx)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if err := b.entry(filepath.Join(from, entry.Name()), filepath.Join(to, entry.Name()), info); err != nil {
			return err
		}
	}
	return nil
}

func (b *baseCopy) entry(from, to string, info fs.FileInfo) error {
	if b.fresh {
		return b.copy(from, to, info)
	}
	there, err := b.root.Lstat(to)
	switch {
	case err == nil && there.IsDir() && info.IsDir():
		return b.directory(from, to)
	case err == nil:
		return nil // it overrides the base's
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case !info.IsDir() && !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0:
		return nil // packages contain no other file types
	}
	part := filepath.Join(filepath.Dir(to), unfinished)
	if err := b.root.RemoveAll(part); err != nil {
		return err
	}
	b.fresh = true
	err = b.copy(from, part, info)
	b.fresh = false
	if err == nil {
		err = b.root.Rename(part, to)
	}
	if err == nil && b.first == "" {
		b.first = to
	}
	return err
}

// copy copies one entry of the base to a free name.
func (b *baseCopy) copy(from, to string, info fs.FileInfo) error {
	switch {
	case info.IsDir():
		if err := b.root.Mkdir(to, 0o700); err != nil {
			return err
		}
		if err := b.directory(from, to); err != nil {
			return err
		}
		return b.finish(to, info)
	case info.Mode().IsRegular():
		return b.file(from, to, info)
	case info.Mode()&fs.ModeSymlink != 0:
		return b.link(from, to)
	}
	return nil
}

func (b *baseCopy) link(from, to string) error {
	target, err := os.Readlink(filepath.Join(b.base, from))
	if err == nil {
		err = b.root.Symlink(target, to)
	}
	if err == nil && b.chown {
		err = b.root.Lchown(to, int(b.owner.Uid), int(b.owner.Gid))
	}
	return err
}

func (b *baseCopy) file(from, to string, info fs.FileInfo) error {
	if b.bytes += info.Size(); b.limit > 0 && b.bytes > b.limit {
		return errCopyTooLarge
	}
	source, err := os.Open(filepath.Join(b.base, from))
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }()
	target, err := b.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	// On some file systems, copies share blocks until one is written to.
	if unix.IoctlFileClone(int(target.Fd()), int(source.Fd())) != nil {
		_, err = io.Copy(target, io.LimitReader(source, info.Size()))
	}
	if err = errors.Join(err, target.Close()); err != nil {
		return err
	}
	return b.finish(to, info)
}

func (b *baseCopy) finish(name string, info fs.FileInfo) error {
	if b.chown {
		if err := b.root.Lchown(name, int(b.owner.Uid), int(b.owner.Gid)); err != nil {
			return err
		}
	}
	if err := b.root.Chtimes(name, info.ModTime(), info.ModTime()); err != nil {
		return err
	}
	return b.root.Chmod(name, info.Mode().Perm())
}
