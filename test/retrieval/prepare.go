package main

import (
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/history"
)

// prepared is a repository whose questions can be asked, as it is cached on disk.
type prepared struct {
	Entry   entry
	Store   *store
	Commits []commit
	Log     []history.Commit // newest first
	past    *history.History
}

// commit is an evaluated commit.
type commit struct {
	ID        string
	Files     []file // of its parent
	Wanted    []string
	Questions map[kind]string
	Baselines map[kind]map[string][]uint32 // first files of each baseline
	Past      []int                        // numbers in the log that are ancestors
	view      *snapshot
	past      *history.History
}

// maxRanks is the number of files of a ranking that are kept.
const maxRanks = 20

// prepare reads a repository from the cache, or from git.
func prepare(ctx context.Context, dir, cache string, e entry) (*prepared, error) {
	name := filepath.Join(cache, strings.ReplaceAll(e.Repo, "/", "+")+".gob")
	var p prepared
	if f, err := os.Open(name); err == nil {
		err = gob.NewDecoder(f).Decode(&p)
		f.Close()
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		if slices.Equal(p.Entry.Commits, e.Commits) {
			p.Entry = e
			p.link()
			return &p, nil
		}
		p = prepared{}
	}
	r, err := openRepository(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer r.close()
	p.Entry, p.Store = e, newStore()
	if err := p.read(r); err != nil {
		return nil, fmt.Errorf("%s: %w", e.Repo, err)
	}
	p.link()
	p.baselines()
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return nil, err
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	return &p, cmp.Or(gob.NewEncoder(f).Encode(&p), f.Close())
}

// read reads the commits, the trees of their parents, and the log.
func (p *prepared) read(r *repository) error {
	parents, err := r.parents("HEAD")
	if err != nil {
		return err
	}
	var tips []string
	for _, id := range p.Entry.Commits {
		if len(parents[id]) != 1 {
			return fmt.Errorf("commit %s is not in the mirror, or is a merge or a first commit", id)
		}
		tips = append(tips, parents[id][0])
	}
	log, err := r.log(tips, history.DefaultCommits+selectFrom)
	if err != nil {
		return err
	}
	for _, c := range log {
		p.Log = append(p.Log, c.Commit)
	}
	for i, id := range p.Entry.Commits {
		c, err := p.commit(r, id, tips[i])
		if err != nil {
			return err
		}
		before := ancestors(parents, tips[i])
		for n, l := range p.Log {
			if before[l.ID] && len(c.Past) < history.DefaultCommits {
				c.Past = append(c.Past, n)
			}
		}
		p.Commits = append(p.Commits, c)
	}
	return nil
}

// commit reads one commit and the files of its parent.
func (p *prepared) commit(r *repository, id, parent string) (commit, error) {
	c := commit{ID: id}
	one, err := r.log([]string{id}, 1)
	if err != nil {
		return c, err
	}
	if c.Files, err = r.tree(parent); err != nil {
		return c, err
	}
	files := c.Files
	c.Files = nil
	for _, f := range files {
		if p.Store.Blobs[f.Blob] == nil || p.Store.Paths[f.Path] == nil {
			content, err := r.blob(f.Blob)
			if errors.Is(err, errMissing) {
				continue // for all methods
			}
			if err != nil {
				return c, err
			}
			p.Store.add(f.Path, f.Blob, content)
		}
		c.Files = append(c.Files, f)
	}
	wanted := wantedOf(one[0])
	for _, f := range c.Files {
		if slices.Contains(wanted, f.Path) {
			c.Wanted = append(c.Wanted, f.Path)
		}
	}
	diff, err := r.output("diff-tree", "-r", "-p", "-M", "--no-commit-id", id)
	if err != nil {
		return c, err
	}
	c.Questions = map[kind]string{}
	for _, k := range kinds {
		if text := question(k, one[0].Message, string(diff)); text != "" {
			c.Questions[k] = text
		}
	}
	return c, nil
}

// link makes what is not cached.
func (p *prepared) link() {
	p.past = history.New(p.Log, len(p.Log), history.Tuned())
	for i := range p.Commits {
		c := &p.Commits[i]
		c.view = p.Store.snapshot(c.Files)
		p.view(c)
	}
}

// pastCommits is the number of past commits that a search knows, as the setting brain.history has it.
const pastCommits = 5_000

// view gives a commit its past.
func (p *prepared) view(c *commit) {
	seen := make(map[string]bool, len(c.Past))
	for _, n := range c.Past[:min(len(c.Past), pastCommits)] {
		seen[p.Log[n].ID] = true
	}
	c.past = p.past.View(func(id string) bool { return seen[id] })
}

// baselines asks the baselines all questions.
func (p *prepared) baselines() {
	memo := map[string][]uint32{}
	for i := range p.Commits {
		c := &p.Commits[i]
		c.Baselines = map[kind]map[string][]uint32{}
		for k, text := range c.Questions {
			a, b := bm25(c.view, text), ripgrep(c.view, text, memo)
			c.Baselines[k] = map[string][]uint32{
				"bm25": a[:min(maxRanks, len(a))], "rg": b[:min(maxRanks, len(b))],
			}
		}
	}
}
