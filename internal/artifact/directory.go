package artifact

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// directory stores blobs as files. Files appear atomically: each is written under a temporary name,
// flushed, and renamed.
//
// It is used instead of gocloud.dev's fileblob, which does not flush files, requires the key before
// the content, and hashes every blob a second time.
type directory struct {
	root string
	sync bool

	moved func() // for tests: called while a file is about to be removed
}

const (
	partialDir = "partial"
	// partialAge is the age at which an unfinished file was certainly left by a dead
	// process. No single upload takes a day.
	partialAge = 24 * time.Hour
)

func openDirectory(root string, sync bool) (*directory, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(root, partialDir), 0o750); err != nil {
		return nil, err
	}
	d := &directory{root: root, sync: sync}
	d.sweep()
	d.restore()
	return d, nil
}

// sweep removes unfinished files of crashed processes. Files that cannot be removed are kept.
func (d *directory) sweep() {
	entries, err := os.ReadDir(filepath.Join(d.root, partialDir))
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > partialAge {
			_ = os.Remove(filepath.Join(d.root, partialDir, e.Name()))
		}
	}
}

func (d *directory) path(key string) string { return filepath.Join(d.root, filepath.FromSlash(key)) }

// stat returns a size that differs from the blob's if the file was truncated by a power failure; the
// next Put then writes it again.
func (d *directory) stat(_ context.Context, key string) (blobInfo, error) {
	return statFile(d.path(key))
}

func statFile(path string) (blobInfo, error) {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return blobInfo{}, ErrNotFound
	case err != nil:
		return blobInfo{}, err
	case !info.Mode().IsRegular():
		return blobInfo{}, fmt.Errorf("%s is not a regular file", path)
	}
	return blobInfo{info.Size(), info.ModTime()}, nil
}

func (d *directory) refresh(_ context.Context, key string) (bool, error) {
	err := os.Chtimes(d.path(key), time.Time{}, time.Now())
	if errors.Is(err, fs.ErrNotExist) { // it was removed just now
		return false, nil
	}
	return err == nil, err
}

func (d *directory) list(ctx context.Context, fn func(key string, info blobInfo) error) error {
	folders, err := os.ReadDir(d.root)
	if err != nil {
		return err
	}
	for _, folder := range folders {
		if !folder.IsDir() || folder.Name() == partialDir || folder.Name() == trashDir {
			continue
		}
		files, err := os.ReadDir(filepath.Join(d.root, folder.Name()))
		if err != nil {
			return err
		}
		for _, f := range files {
			if err := ctx.Err(); err != nil {
				return err
			}
			info, err := f.Info()
			if errors.Is(err, fs.ErrNotExist) || err == nil && !info.Mode().IsRegular() {
				continue
			}
			if err != nil {
				return err
			}
			if err := fn(folder.Name()+"/"+f.Name(), blobInfo{info.Size(), info.ModTime()}); err != nil {
				return err
			}
		}
	}
	return nil
}

// trashDir contains files that are about to be removed, under the names of their keys.
const trashDir = "trash"

// removeOlder first moves the file away. A refresh at the same moment either finds the file gone,
// and writes it again, or has made it young, and then it is moved back.
func (d *directory) removeOlder(ctx context.Context, key string, than time.Time) (bool, error) {
	info, err := d.stat(ctx, key)
	if errors.Is(err, ErrNotFound) || err == nil && info.modified.After(than) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	trash := d.trash(key)
	if err := os.MkdirAll(filepath.Dir(trash), 0o750); err != nil {
		return false, err
	}
	if err := os.Rename(d.path(key), trash); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		return false, err
	}
	if d.moved != nil {
		d.moved()
	}
	info, err = statFile(trash)
	switch {
	case errors.Is(err, ErrNotFound): // another process has just restored it
		return false, nil
	case err != nil:
		return false, err
	case info.modified.After(than):
		return false, d.rename(trash, key)
	}
	return true, d.remove(ctx, filepath.Join(trashDir, filepath.Base(trash)))
}

func (d *directory) trash(key string) string {
	return filepath.Join(d.root, trashDir, strings.ReplaceAll(key, "/", ""))
}

// restore moves files back whose removal was interrupted. The next reclaim decides about them again.
func (d *directory) restore() {
	files, err := os.ReadDir(filepath.Join(d.root, trashDir))
	if err != nil {
		return
	}
	for _, f := range files {
		key, ok := keyOfDigits(f.Name())
		if !ok {
			continue
		}
		from := filepath.Join(d.root, trashDir, f.Name())
		if _, err := statFile(d.path(key)); err == nil { // it was stored again
			_ = os.Remove(from)
		} else {
			_ = d.rename(from, key)
		}
	}
}

func (d *directory) put(ctx context.Context, key string, data []byte) error {
	f, err := d.newFile()
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.discard()
		return err
	}
	return f.commit(ctx, key, int64(len(data)))
}

func (d *directory) stage(context.Context) (stage, error) { return d.newFile() }

func (d *directory) open(_ context.Context, key string) (io.ReadCloser, error) {
	f, err := d.file(key)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (d *directory) file(key string) (*os.File, error) {
	f, err := os.Open(d.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNotFound
	}
	return f, err
}

func (d *directory) openAt(_ context.Context, key string, offset int64) (io.ReadCloser, error) {
	f, err := d.file(key)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func (d *directory) remove(_ context.Context, key string) error {
	err := os.Remove(d.path(key))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *directory) where() string { return d.root }

func (d *directory) close() error { return nil }

// partial is a file being written.
type partial struct {
	*os.File
	dir *directory
}

func (d *directory) newFile() (*partial, error) {
	path := filepath.Join(d.root, partialDir, rand.Text())
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o640)
	if err != nil {
		return nil, err
	}
	return &partial{File: f, dir: d}, nil
}

func (p *partial) commit(_ context.Context, key string, _ int64) error {
	if p.dir.sync {
		if err := p.Sync(); err != nil {
			p.discard()
			return err
		}
	}
	if err := p.Close(); err != nil {
		_ = os.Remove(p.Name())
		return err
	}
	if err := p.dir.rename(p.Name(), key); err != nil {
		_ = os.Remove(p.Name())
		return err
	}
	return nil
}

func (p *partial) discard() {
	_ = p.Close()
	_ = os.Remove(p.Name())
}

// rename first tries without creating the directory, because it nearly always exists.
func (d *directory) rename(from, key string) error {
	target := d.path(key)
	err := os.Rename(from, target)
	if errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(filepath.Dir(target), 0o750); err != nil {
			return err
		}
		err = os.Rename(from, target)
	}
	if err != nil || !d.sync {
		return err
	}
	return syncDir(filepath.Dir(target))
}

// syncDir makes a rename survive a power failure.
func syncDir(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	return dir.Sync()
}
