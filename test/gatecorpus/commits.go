package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// The commits among which are chosen: the newest without merges, and those with few enough files
// that the default configuration does not ask to split them.
const (
	newest   = 3000
	maxFiles = 300
)

// repositoryAt returns the git directory of a clone, "" if there is none.
func repositoryAt(mirrors, repo string) string {
	dir := filepath.Join(mirrors, strings.ReplaceAll(repo, "/", "+"))
	for _, d := range []string{filepath.Join(dir, "repo"), filepath.Join(dir, ".git"), dir} {
		if _, err := os.Stat(filepath.Join(d, "HEAD")); err == nil {
			return d
		}
	}
	return ""
}

// git runs git on a clone.
func git(ctx context.Context, dir string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--git-dir", dir}, args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("git %s in %s: %w: %s", args[0], dir, err, stderr.String())
	}
	return out, nil
}

// choose prints commits of each clone: those whose digests come first, so that what they contain does
// not matter.
func choose(ctx context.Context, mirrors string, n int, out io.Writer) error {
	dirs, err := os.ReadDir(mirrors)
	if err != nil {
		return err
	}
	for _, d := range dirs {
		repo := strings.Replace(d.Name(), "+", "/", 1)
		dir := repositoryAt(mirrors, repo)
		if dir == "" || !strings.Contains(repo, "/") {
			continue
		}
		list, err := git(ctx, dir, "rev-list", "--no-merges", "--min-parents=1", "-n", strconv.Itoa(newest), "HEAD")
		if err != nil {
			return err
		}
		commits := strings.Fields(string(list))
		digest := func(c string) string {
			sum := sha256.Sum256([]byte("chosen " + c))
			return hex.EncodeToString(sum[:])
		}
		slices.SortFunc(commits, func(a, b string) int { return strings.Compare(digest(a), digest(b)) })
		left := n
		for _, c := range commits {
			if left == 0 {
				break
			}
			raw, err := git(ctx, dir, "diff-tree", "-r", "--raw", "-z", "--no-abbrev", "-M", c+"^", c)
			if err != nil {
				return err
			}
			if files := len(rawEntries(string(raw))); files == 0 || files > maxFiles {
				continue
			}
			left--
			if _, err := fmt.Fprintln(out, repo, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// commits judges the commits of data/commits.txt of which there are clones, and mutations of each.
func (j *judge) commits(ctx context.Context, o options, errs io.Writer) error {
	list, err := data.ReadFile("data/commits.txt")
	if err != nil {
		return err
	}
	var objects *objects
	at := ""
	defer func() { objects.close() }()
	for line := range strings.Lines(string(list)) {
		repo, commit, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || !between(repo, o.repositories) {
			continue
		}
		if repo != at {
			objects.close()
			at, objects = repo, nil
			if dir := repositoryAt(o.mirrors, repo); dir == "" {
				fmt.Fprintf(errs, "%s was left out: its clone was not found in -mirrors\n", repo)
			} else if objects, err = open(ctx, dir); err != nil {
				return err
			}
		}
		if objects == nil || o.half != "both" && o.half != string(halfOf(line)) {
			continue
		}
		if err := j.commit(ctx, objects, repo, commit, halfOf(line)); err != nil {
			return err
		}
	}
	return nil
}

// commit judges one commit and mutations of it.
func (j *judge) commit(ctx context.Context, o *objects, repo, commit string, half Half) error {
	c, err := o.change(ctx, commit)
	if err != nil {
		return err
	}
	name := repo + " " + commit
	c.Labels = []string{pick(randomOf(name), "bug", "enhancement", "documentation", "dependencies", "good first issue", "performance", "ready", "ci")}
	found, err := gate.Findings(ctx, j.guards, c)
	if err != nil {
		return fmt.Errorf("judge %s: %w", name, err)
	}
	j.outcomes = append(j.outcomes, outcomes(Patch{Name: name, Source: Commit, Half: half, Change: c}, found, j.guards)...)
	// Few commits have tests or an API, so that those that do have a mutation of them too.
	for _, from := range [][]operator{slices.Concat(secretOperators, pathOperators, runOperators, textOperators), codeOperators} {
		p, ok, err := mutationOf(ctx, name, c, from)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		p.Half, p.Original = half, found
		if err := j.judge(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// objects reads a clone.
type objects struct {
	dir string
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	mu  sync.Mutex // guards read several files at once
}

func open(ctx context.Context, dir string) (*objects, error) {
	o := &objects{dir: dir, cmd: exec.CommandContext(ctx, "git", "--git-dir", dir, "cat-file", "--batch")}
	in, err := o.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := o.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	o.in, o.out = in, bufio.NewReaderSize(out, 1<<20)
	return o, o.cmd.Start()
}

func (o *objects) close() {
	if o != nil {
		_ = o.in.Close()
		_ = o.cmd.Wait()
	}
}

// read returns an object. It is not ok if there is none.
func (o *objects) read(id string) (kind string, content []byte, ok bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, err := fmt.Fprintln(o.in, id); err != nil {
		return "", nil, false, err
	}
	head, err := o.out.ReadString('\n')
	if err != nil {
		return "", nil, false, err
	}
	fields := strings.Fields(head)
	if len(fields) != 3 {
		return "", nil, false, nil
	}
	size, err := strconv.Atoi(fields[2])
	if err != nil {
		return "", nil, false, err
	}
	content = make([]byte, size+1)
	_, err = io.ReadFull(o.out, content)
	return fields[1], content[:size], true, err
}

// change returns the change of a commit, as the gate would read it.
func (o *objects) change(ctx context.Context, commit string) (change.Change, error) {
	raw, err := git(ctx, o.dir, "diff-tree", "-r", "--raw", "-z", "--no-abbrev", "-M", commit+"^", commit)
	if err != nil {
		return change.Change{}, err
	}
	message, err := git(ctx, o.dir, "show", "-s", "--format=%B", commit)
	if err != nil {
		return change.Change{}, err
	}
	c := change.Change{
		Files: rawEntries(string(raw)), Author: change.RoleRun, Texts: []change.Text{{Name: "commit message", Content: string(message)}},
		Base: &tree{o: o, of: commit + "^"}, Tree: &tree{o: o, of: commit},
	}
	total := 0
	for i := range c.Files {
		for _, v := range []*change.Version{&c.Files[i].Before, &c.Files[i].After} {
			if !v.Exists() || v.Mode == change.ModeSubmodule {
				continue
			}
			_, content, ok, err := o.read(v.Digest)
			if err != nil {
				return c, err
			}
			if v.Size = int64(len(content)); !ok || len(content) > gate.MaxFileBytes || total+len(content) > gate.MaxBytes {
				v.Unread = true
				continue
			}
			v.Content, total = content, total+len(content)
		}
	}
	return limited(c), nil
}

// rawEntries parses git's raw list of changed entries.
func rawEntries(out string) (entries []change.File) {
	fields := strings.Split(strings.TrimRight(out, "\x00"), "\x00")
	version := func(mode, id string) change.Version {
		if strings.Trim(mode, "0") == "" {
			return change.Version{}
		}
		return change.Version{Mode: change.Mode(mode), Digest: id}
	}
	for i := 0; i+1 < len(fields); i += 2 {
		meta := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(meta) < 5 {
			return entries
		}
		f := change.File{Path: fields[i+1], Before: version(meta[0], meta[2]), After: version(meta[1], meta[3])}
		if strings.HasPrefix(meta[4], "R") && i+2 < len(fields) {
			f.From, f.Path = f.Path, fields[i+2]
			i++
		}
		entries = append(entries, f)
	}
	return entries
}

// tree is the tree of a commit.
type tree struct {
	o  *objects
	of string

	once  sync.Once
	paths []string
	err   error
}

func (t *tree) Read(_ context.Context, p string, most int64) ([]byte, bool, error) {
	if strings.ContainsAny(p, "\n") {
		return nil, false, nil
	}
	kind, content, ok, err := t.o.read(t.of + ":" + p)
	if err != nil || !ok || kind != "blob" || int64(len(content)) > most {
		return nil, false, err
	}
	return content, true, nil
}

func (t *tree) Paths(ctx context.Context) ([]string, error) {
	t.once.Do(func() {
		var out []byte
		if out, t.err = git(ctx, t.o.dir, "ls-tree", "-r", "-z", "--full-tree", t.of); t.err != nil {
			return
		}
		for e := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
			if meta, p, ok := strings.Cut(e, "\t"); ok && strings.HasPrefix(meta, "100") {
				t.paths = append(t.paths, p)
			}
		}
		slices.Sort(t.paths)
	})
	return t.paths, t.err
}
