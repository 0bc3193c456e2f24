package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin"
)

// repository reads commits of a bare repository. One git process provides all objects.
type repository struct {
	ctx  context.Context
	dir  string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	done func()
}

func openRepository(ctx context.Context, dir string) (*repository, error) {
	ctx, done := context.WithCancel(ctx)
	r := &repository{ctx: ctx, dir: dir, done: done}
	r.cmd = r.git("cat-file", "--batch")
	var err error
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out = bufio.NewReader(out)
	return r, r.cmd.Start()
}

func (r *repository) close() {
	_ = r.in.Close()
	r.done()
	_ = r.cmd.Wait()
}

func (r *repository) git(args ...string) *exec.Cmd {
	return exec.CommandContext(r.ctx, "git", append([]string{"-c", "safe.directory=*", "-C", r.dir}, args...)...)
}

// blob reads an object.
func (r *repository) blob(id string) ([]byte, error) {
	if _, err := fmt.Fprintln(r.in, id); err != nil {
		return nil, err
	}
	head, err := r.out.ReadString('\n')
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(head)
	if len(fields) != 3 {
		return nil, fmt.Errorf("object %s is missing: %s", id, strings.TrimSpace(head))
	}
	size, err := strconv.Atoi(fields[2])
	if err != nil {
		return nil, err
	}
	data := make([]byte, size+1) // with the newline after it
	_, err = io.ReadFull(r.out, data)
	return data[:size], err
}

// changed returns the files of a commit as the product passes them to the package pin.
func (r *repository) changed(commit string) ([]pin.File, error) {
	raw, err := r.git("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", commit+"^", commit).Output()
	if err != nil {
		return nil, fmt.Errorf("compare %s with its parent: %w", commit, err)
	}
	fields := strings.Split(strings.TrimRight(string(raw), "\x00"), "\x00")
	var files []pin.File
	for i := 0; i+1 < len(fields); i += 2 {
		meta := strings.Fields(strings.TrimPrefix(fields[i], ":")) // modes, objects, status
		if !pin.Watches(fields[i+1]) {
			continue
		}
		f := pin.File{Path: fields[i+1], Existed: strings.HasPrefix(meta[0], "100"), Exists: strings.HasPrefix(meta[1], "100")}
		if f.Existed {
			if f.Before, err = r.blob(meta[2]); err != nil {
				return nil, err
			}
		}
		if f.Exists {
			if f.After, err = r.blob(meta[3]); err != nil {
				return nil, err
			}
		}
		if f.Existed || f.Exists {
			files = append(files, f)
		}
	}
	return files, nil
}

// tests returns the test files and test settings of a commit, without content.
func (r *repository) tests(commit string) (paths, ids []string, err error) {
	out, err := r.git("ls-tree", "-r", "-z", commit).Output()
	if err != nil {
		return nil, nil, fmt.Errorf("list the files of %s: %w", commit, err)
	}
	for _, entry := range strings.Split(strings.TrimRight(string(out), "\x00"), "\x00") {
		meta, path, _ := strings.Cut(entry, "\t")
		if f := strings.Fields(meta); len(f) == 3 && strings.HasPrefix(f[0], "100") && pin.Watches(path) {
			paths, ids = append(paths, path), append(ids, f[2])
		}
	}
	return paths, ids, nil
}
