package oracle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/rocketgpt/orchestrator/internal/eval/commits"
)

// Table is a list of repositories with commits, as stored in a file.
type Table []Entry

// Entry is a repository of a table. Repo is a path, a URL, or owner/name of GitHub.
type Entry struct {
	Repo    string   `yaml:"repo"`
	Commits []Commit `yaml:"commits,omitempty"`
}

// maxTable is the maximum size of a table file.
const maxTable = 4 << 20

// fullID matches a full commit ID; an abbreviated one may become ambiguous.
var fullID = regexp.MustCompile(`^[0-9a-f]{40}([0-9a-f]{24})?$`)

// ReadTable reads a table from a YAML file and checks it.
func ReadTable(file string) (Table, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read the table of commits: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxTable+1))
	if err != nil {
		return nil, fmt.Errorf("read the table of commits: %w", err)
	}
	if len(text) > maxTable {
		return nil, fmt.Errorf("the table of commits %s has more than %d bytes", file, maxTable)
	}
	var doc struct {
		Repositories Table `yaml:"repositories"`
	}
	if err := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict()).Decode(&doc); err != nil {
		return nil, fmt.Errorf("the table of commits %s is not valid: %w", file, err)
	}
	for i, e := range doc.Repositories {
		if e.Repo == "" {
			return nil, fmt.Errorf("%s: repositories[%d] has no repo", file, i)
		}
		for _, c := range e.Commits {
			if !fullID.MatchString(c.ID) {
				return nil, fmt.Errorf("%s: %s: the commit %q is not a full ID; use all digits", file, e.Repo, c.ID)
			}
		}
	}
	return doc.Repositories, nil
}

// Text returns a table as the text of a file.
func (t Table) Text() ([]byte, error) {
	return yaml.Marshal(map[string]any{"repositories": t})
}

// github is the URL prefix for owner/name.
const github = "https://github.com/"

// gitHubName is owner/name.
var gitHubName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]*/[A-Za-z0-9._-]+$`)

// Repositories finds repositories of tables on disk.
type Repositories struct {
	// Mirrors is a pattern for directories with {owner} and {name}, such as
	// /mirrors/{owner}/{name}.git. DIR without placeholders means DIR/{owner}+{name}/repo. Empty:
	// no mirrors.
	Mirrors string
	// Cache is the directory into which repositories without a mirror are cloned, once.
	Cache string
}

// Find returns the git directory of a repository of a table.
func (r Repositories) Find(ctx context.Context, repo string) (string, error) {
	name := strings.TrimSuffix(strings.TrimPrefix(repo, github), ".git")
	if gitHubName.MatchString(name) && !isDir(repo) {
		if dir := r.mirror(name); dir != "" && isDir(dir) {
			return dir, nil
		}
		repo = github + name + ".git"
	}
	if isDir(repo) {
		return filepath.Abs(repo)
	}
	if !strings.Contains(repo, "://") {
		return "", fmt.Errorf("the repository %s is neither a directory, a URL, nor owner/name", repo)
	}
	dir := filepath.Join(r.Cache, strings.NewReplacer("://", "+", "/", "+", ":", "+").Replace(repo))
	if isDir(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(r.Cache, 0o755); err != nil {
		return "", fmt.Errorf("create the directory of cloned repositories: %w", err)
	}
	part := dir + ".part"
	if err := os.RemoveAll(part); err != nil {
		return "", err
	}
	if _, err := commits.Git(ctx, r.Cache, "clone", "--quiet", "--bare", "--", repo, part); err != nil {
		return "", fmt.Errorf("clone %s: %w; without network access, use -mirrors", repo, err)
	}
	return dir, os.Rename(part, dir)
}

// mirror returns the directory for the mirror of owner/name; empty without mirrors.
func (r Repositories) mirror(name string) string {
	pattern := r.Mirrors
	if pattern == "" {
		return ""
	}
	if !strings.Contains(pattern, "{name}") {
		pattern = filepath.Join(pattern, "{owner}+{name}", "repo")
	}
	owner, name, _ := strings.Cut(name, "/")
	return strings.NewReplacer("{owner}", owner, "{name}", name).Replace(pattern)
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Scripts writes the scripts of all commits of a table. It returns a result for each commit that
// cannot be played, including every commit of a repository that is not found.
func (t Table) Scripts(ctx context.Context, where Repositories) (scripts []*Script, others []Result) {
	for _, e := range t {
		dir, err := where.Find(ctx, e.Repo)
		for _, c := range e.Commits {
			c.Repo = e.Repo
			var s *Script
			failure := err
			if failure == nil {
				s, failure = commits.Write(ctx, dir, c.ID)
			}
			if failure != nil {
				others = append(others, Result{Commit: c, Status: StatusNotPlayed, Problems: []string{failure.Error()}})
				continue
			}
			s.Repo = e.Repo
			scripts = append(scripts, s)
		}
	}
	return scripts, others
}
