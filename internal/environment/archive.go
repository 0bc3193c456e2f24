package environment

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
)

// pack writes the tree below dir as a tar archive compressed with zstd. Names are relative to dir
// and sorted. Hard-linked files are written once. Everything except files, directories and symbolic
// links is omitted: a setup does not need it, and nothing on another host may depend on it.
func pack(ctx context.Context, dir string, w io.Writer) error {
	// The fastest level: a snapshot is written once while a run waits, and packages are
	// mostly compressed or small text.
	compressed, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return fmt.Errorf("pack an environment: %w", err)
	}
	p := packer{dir: dir, out: tar.NewWriter(compressed), names: map[inode]string{}}
	err = filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil || at == dir {
			return err
		}
		return p.add(at, d)
	})
	return errors.Join(err, p.out.Close(), compressed.Close())
}

type inode struct{ dev, ino uint64 }

type packer struct {
	dir   string
	out   *tar.Writer
	names map[inode]string // of hard-linked files
}

func (p *packer) add(at string, d fs.DirEntry) error {
	info, err := d.Info()
	if err != nil {
		return err
	}
	rel, err := filepath.Rel(p.dir, at)
	if err != nil {
		return err
	}
	header := &tar.Header{
		Name: filepath.ToSlash(rel), Mode: int64(info.Mode().Perm()), ModTime: info.ModTime().Truncate(time.Second), Format: tar.FormatPAX,
	}
	switch {
	case info.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
	case info.Mode()&fs.ModeSymlink != 0:
		header.Typeflag = tar.TypeSymlink
		if header.Linkname, err = os.Readlink(at); err != nil {
			return err
		}
	case info.Mode().IsRegular():
		return p.file(at, info, header)
	default:
		return nil
	}
	return p.out.WriteHeader(header)
}

func (p *packer) file(at string, info fs.FileInfo, header *tar.Header) error {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Nlink > 1 {
		id := inode{stat.Dev, stat.Ino}
		if first, known := p.names[id]; known {
			header.Typeflag, header.Linkname = tar.TypeLink, first
			return p.out.WriteHeader(header)
		}
		p.names[id] = header.Name
	}
	file, err := os.Open(at)
	if err != nil {
		return err
	}
	defer file.Close()
	header.Typeflag, header.Size = tar.TypeReg, info.Size()
	if err := p.out.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.CopyN(p.out, file, info.Size())
	return err
}

// unpack writes what pack wrote below dir, which must be empty. Regardless of the names and links
// in the archive, nothing outside dir is changed. The total is limited to most bytes.
func unpack(ctx context.Context, r io.Reader, dir string, most int64) error {
	expanded, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
	if err != nil {
		return fmt.Errorf("unpack an environment: %w", err)
	}
	defer expanded.Close()
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack an environment: %w", err)
	}
	defer root.Close()
	u := unpacker{root: root, left: most, entries: maxArchived, modes: map[string]fs.FileMode{}}
	in := tar.NewReader(expanded)
	for {
		header, err := in.Next()
		if errors.Is(err, io.EOF) {
			return u.closeDirs()
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = u.entry(header, in)
		}
		if err != nil {
			return fmt.Errorf("unpack an environment: %w", err)
		}
	}
}

const (
	// maxArchived is the maximum number of files, directories and links in an archive. Compressed,
	// millions of empty ones take no space, but each takes an inode.
	maxArchived = 5_000_000
	// maxName is the maximum length of a name, which limits the depth of directories.
	maxName = 4096
)

type unpacker struct {
	root    *os.Root
	left    int64
	entries int
	modes   map[string]fs.FileMode // of directories that their owner may not write to
}

func (u *unpacker) entry(header *tar.Header, content io.Reader) error {
	if u.entries--; u.entries < 0 {
		return fmt.Errorf("the archive contains more than %d files", maxArchived)
	}
	if len(header.Name) > maxName {
		return fmt.Errorf("the archive contains a name of %d bytes", len(header.Name))
	}
	name := path.Clean(header.Name)
	if !filepath.IsLocal(name) {
		return fmt.Errorf("the archive contains the invalid name %q", header.Name)
	}
	mode := fs.FileMode(header.Mode).Perm()
	switch header.Typeflag {
	case tar.TypeDir:
		if mode&0o700 != 0o700 {
			u.modes[name] = mode
		}
		return u.root.MkdirAll(name, mode|0o700)
	case tar.TypeSymlink:
		return u.root.Symlink(header.Linkname, name)
	case tar.TypeLink:
		return u.root.Link(path.Clean(header.Linkname), name)
	case tar.TypeReg:
		return u.file(name, mode, header, content)
	}
	return fmt.Errorf("the archive contains %q, which has an unknown type", header.Name)
}

func (u *unpacker) file(name string, mode fs.FileMode, header *tar.Header, content io.Reader) error {
	if u.left -= header.Size; u.left < 0 {
		return errors.New("the archive exceeds the environment size limit")
	}
	file, err := u.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, content)
	// Tools compare the times of source files and compiled files.
	err = errors.Join(err, file.Chmod(mode), file.Close(), u.root.Chtimes(name, header.ModTime, header.ModTime))
	return err
}

// closeDirs removes write permission from directories that were archived without it.
func (u *unpacker) closeDirs() error {
	for name, mode := range u.modes {
		if err := u.root.Chmod(name, mode); err != nil {
			return fmt.Errorf("unpack an environment: %w", err)
		}
	}
	return nil
}
