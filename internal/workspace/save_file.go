package workspace

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"syscall"

	"github.com/rocketgpt/orchestrator/contract"
)

// SaveFile is Save for a writer that has changed or removed only one file since Open. The path is
// relative to the work tree, with slashes. The result is the same as Save's, nearly always without
// a git process; cases that are not plain are left to Save (links on the path, hard-linked files,
// unusual names, names that a .gitignore file may match, large files).
func (d *Dir) SaveFile(ctx context.Context, path string) (contract.Workspace, error) {
	if !d.writable || d.lock == nil {
		return contract.Workspace{}, notWritable()
	}
	tree, gone, err := d.treeWith(path)
	if gone {
		d.plain = false // directories may be empty now, which no tree describes
	}
	if errors.Is(err, errNeedsGit) {
		return d.Save(ctx)
	}
	if err != nil {
		return contract.Workspace{}, wrapf(err, "could not record the change in a workspace")
	}
	if tree != d.ws.Tree {
		if err := d.record(ctx, tree); err != nil {
			return contract.Workspace{}, err
		}
		d.stale = true // git's index does not include this
	}
	return d.ws, d.writeMarker()
}

// plainPart matches names in a path that git and every file system interpret identically, and that
// no git rule affects.
var plainPart = regexp.MustCompile(`^[A-Za-z0-9_.,+@=~ ()-]+$`)

// plainParts splits a path; false if it is not plain.
func plainParts(path string) ([]string, bool) {
	parts := strings.Split(path, "/")
	for _, part := range parts {
		lower := strings.ToLower(part)
		if !plainPart.MatchString(part) || part == "." || part == ".." || strings.HasPrefix(lower, ".git") || strings.HasPrefix(lower, "git~") {
			return nil, false
		}
	}
	return parts, true
}

// treeWith returns the tree, updated with one file from the work tree, and whether that file is gone.
func (d *Dir) treeWith(path string) (tree string, gone bool, err error) {
	parts, plain := plainParts(path)
	if !plain || len(d.ws.Tree) != sha1Length {
		return "", false, errNeedsGit
	}
	root, err := os.OpenRoot(d.Path())
	if err != nil {
		return "", false, err
	}
	defer root.Close()
	there, tracked, err := d.repo.find(d.ws.Tree, parts)
	if err != nil {
		return "", false, err
	}
	if tracked && !there.isFile() {
		return "", false, errNeedsGit
	}
	mode, content, err := readPlain(root, parts)
	if err != nil {
		return "", false, err
	}
	if !tracked && (mode == "" || mayBeIgnored(root, parts)) {
		return "", false, errNeedsGit
	}
	var leaf *treeEntry
	if mode != "" {
		id, err := d.repo.writeObject(kindBlob, sha1Length, content)
		if err != nil {
			return "", false, err
		}
		leaf = &treeEntry{mode: mode, id: id}
	}
	tree, err = d.repo.withFile(d.ws.Tree, parts, leaf)
	if err == nil && tree == "" {
		tree, err = d.repo.writeTreeObject(nil)
	}
	return tree, mode == "", err
}

// readPlain reads a regular file whose path has no links; mode "" means that it does not exist.
func readPlain(root *os.Root, parts []string) (mode string, content []byte, err error) {
	var info fs.FileInfo
	for i := range parts {
		info, err = root.Lstat(strings.Join(parts[:i+1], "/"))
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil, nil
		}
		if err != nil {
			return "", nil, errNeedsGit
		}
		if last := i == len(parts)-1; !last && !info.IsDir() || last && (!info.Mode().IsRegular() || info.Size() >= maxObjectBytes) {
			return "", nil, errNeedsGit
		}
	}
	file, err := root.OpenFile(strings.Join(parts, "/"), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return "", nil, errNeedsGit
	}
	defer file.Close()
	// The other names of a hard-linked file have changed as well.
	if stat, ok := info.Sys().(*syscall.Stat_t); !ok || stat.Nlink != 1 {
		return "", nil, errNeedsGit
	}
	content, err = io.ReadAll(io.LimitReader(file, maxObjectBytes))
	if err != nil || int64(len(content)) != info.Size() {
		return "", nil, errNeedsGit
	}
	if info.Mode().Perm()&0o100 != 0 {
		return modeExecutable, content, nil
	}
	return modeFile, content, nil
}
