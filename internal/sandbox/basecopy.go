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

// copyPrefix begins the name of the file beside a directory that says which
// base was copied into it.
const copyPrefix = ".rgpt-copied-"

var (
	errCopyTooLarge = errors.New("sandbox: the base is larger than the disk limit")
	errCopyTooSlow  = errors.New("sandbox: copying the base took the whole time of the command")
)

// copied is what a directory holds of a base.
type copied struct {
	Base string
	// First is a path that the copying made. Where it is missing, somebody
	// emptied the directory, and it is filled again.
	First string
}

// copyBases puts private copies of the bases into Root and Home, once for each
// directory. What lies there already stays: it stands above the base. Hard
// links would be faster, and let commands write the base.
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
	limit int64 // of bytes; 0 for none
	bytes int64
	first string

	root  *os.Root // what is filled; a command wrote there
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
	if err := b.directory("."); err != nil {
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

// directory copies what is in a directory of the base.
func (b *baseCopy) directory(name string) error {
	entries, err := os.ReadDir(filepath.Join(b.base, name))
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
		if err := b.entry(filepath.Join(name, entry.Name()), info); err != nil {
			return err
		}
	}
	return nil
}

func (b *baseCopy) entry(name string, info fs.FileInfo) error {
	there, err := b.root.Lstat(name)
	switch {
	case err == nil && there.IsDir() && info.IsDir():
		return b.directory(name)
	case err == nil:
		return nil // it stands above the base's
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	switch {
	case info.IsDir():
		err = b.makeDirectory(name, info)
	case info.Mode().IsRegular():
		err = b.file(name, info)
	case info.Mode()&fs.ModeSymlink != 0:
		err = b.link(name)
	default:
		return nil // packages hold nothing else
	}
	if err == nil && b.first == "" {
		b.first = name
	}
	return err
}

func (b *baseCopy) makeDirectory(name string, info fs.FileInfo) error {
	if err := b.root.Mkdir(name, 0o700); err != nil {
		return err
	}
	if err := b.directory(name); err != nil {
		return err
	}
	return b.finish(name, info)
}

func (b *baseCopy) link(name string) error {
	target, err := os.Readlink(filepath.Join(b.base, name))
	if err == nil {
		err = b.root.Symlink(target, name)
	}
	if err == nil && b.chown {
		err = b.root.Lchown(name, int(b.owner.Uid), int(b.owner.Gid))
	}
	return err
}

func (b *baseCopy) file(name string, info fs.FileInfo) error {
	if b.bytes += info.Size(); b.limit > 0 && b.bytes > b.limit {
		return errCopyTooLarge
	}
	from, err := os.Open(filepath.Join(b.base, name))
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := b.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	// Some file systems let copies share their blocks until one is written.
	if unix.IoctlFileClone(int(to.Fd()), int(from.Fd())) != nil {
		_, err = io.Copy(to, io.LimitReader(from, info.Size()))
	}
	if err = errors.Join(err, to.Close()); err != nil {
		return err
	}
	return b.finish(name, info)
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
