package oracle

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"

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

// Scripts writes the scripts of all commits of a table. It returns a result for each commit that
// cannot be played, including every commit of a repository that is not found.
func (t Table) Scripts(ctx context.Context, where commits.Repositories) (scripts []*Script, others []Result) {
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
