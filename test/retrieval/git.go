package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/brain/history"
)

// repository reads a bare repository. One git process provides all objects.
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
	r.out = bufio.NewReaderSize(out, 1<<20)
	return r, r.cmd.Start()
}

func (r *repository) close() {
	_ = r.in.Close()
	r.done()
	_ = r.cmd.Wait()
}

func (r *repository) git(args ...string) *exec.Cmd {
	return exec.CommandContext(r.ctx, "git", append([]string{"-c", "safe.directory=*", "-c", "core.quotePath=false", "-C", r.dir}, args...)...)
}

func (r *repository) output(args ...string) ([]byte, error) {
	out, err := r.git(args...).Output()
	if err != nil {
		return nil, fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// errMissing says that a mirror lacks an object, as mirrors without large files do.
var errMissing = errors.New("is missing in the mirror")

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
		return nil, fmt.Errorf("object %s: %w", id, errMissing)
	}
	size, err := strconv.Atoi(fields[2])
	if err != nil {
		return nil, err
	}
	data := make([]byte, size+1) // with the newline after it
	_, err = io.ReadFull(r.out, data)
	return data[:size], err
}

// file is a regular file of a tree.
type file struct{ Path, Blob string }

// tree lists the regular files of a commit that are part of the corpus, in the order of their paths.
func (r *repository) tree(commit string) ([]file, error) {
	out, err := r.output("ls-tree", "-r", "-z", commit)
	if err != nil {
		return nil, err
	}
	var files []file
	for entry := range strings.SplitSeq(string(out), "\x00") {
		meta, path, _ := strings.Cut(entry, "\t")
		if f := strings.Fields(meta); len(f) == 3 && strings.HasPrefix(f[0], "100") && isSource(path) {
			files = append(files, file{Path: path, Blob: f[2]})
		}
	}
	return files, nil
}

// logged is a commit of the log, merges excepted.
type logged struct {
	history.Commit
	Added []string // files that did not exist before
}

// log reads up to most commits that are reachable from the given ones, the newest first.
func (r *repository) log(from []string, most int) ([]logged, error) {
	read := func(renames string) ([]byte, error) {
		cmd := r.git("log", "--no-merges", renames, "-l300", "--name-status", "--format=%x01%H%x02%ct%x02%B%x02",
			"-n"+strconv.Itoa(most), "--stdin")
		cmd.Stdin = strings.NewReader(strings.Join(from, "\n") + "\n")
		return cmd.Output()
	}
	out, err := read("-M")
	if err != nil { // a mirror can lack large files: then only renames without changes are found
		out, err = read("-M100%")
	}
	if err != nil {
		return nil, fmt.Errorf("read the log: %w", err)
	}
	var commits []logged
	for entry := range bytes.SplitSeq(out, []byte{1}) {
		parts := strings.SplitN(string(entry), "\x02", 4)
		if len(parts) < 4 {
			continue
		}
		seconds, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("the log has an invalid time %q", parts[1])
		}
		c := logged{Commit: history.Commit{ID: parts[0], Time: time.Unix(seconds, 0), Message: parts[2]}}
		for line := range strings.SplitSeq(strings.TrimSpace(parts[3]), "\n") {
			c.add(strings.Split(line, "\t"))
		}
		commits = append(commits, c)
	}
	return commits, nil
}

func (c *logged) add(fields []string) {
	switch {
	case len(fields) == 3 && strings.HasPrefix(fields[0], "R"):
		c.Changes = append(c.Changes, history.Change{Path: fields[2], Old: fields[1]})
	case len(fields) >= 2:
		path := fields[len(fields)-1]
		if fields[0] == "A" || strings.HasPrefix(fields[0], "C") {
			c.Added = append(c.Added, path)
		}
		c.Changes = append(c.Changes, history.Change{Path: path})
	}
}

// parents returns the parents of all commits that are reachable from a commit.
func (r *repository) parents(from string) (map[string][]string, error) {
	out, err := r.output("rev-list", "--parents", from)
	if err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		if ids := strings.Fields(line); len(ids) > 0 {
			all[ids[0]] = ids[1:]
		}
	}
	return all, nil
}

// ancestors returns a commit and everything that it is based on.
func ancestors(parents map[string][]string, commit string) map[string]bool {
	seen := map[string]bool{commit: true}
	for todo := []string{commit}; len(todo) > 0; {
		next := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, p := range parents[next] {
			if !seen[p] {
				seen[p] = true
				todo = append(todo, p)
			}
		}
	}
	return seen
}
