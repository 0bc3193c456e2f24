package commits

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// GitHub is the URL prefix for owner/name.
const GitHub = "https://github.com/"

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
	name := strings.TrimSuffix(strings.TrimPrefix(repo, GitHub), ".git")
	if gitHubName.MatchString(name) && !isDir(repo) {
		if dir := r.mirror(name); dir != "" && isDir(dir) {
			return dir, nil
		}
		repo = GitHub + name + ".git"
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
	if _, err := Git(ctx, r.Cache, "clone", "--quiet", "--bare", "--", repo, part); err != nil {
		return "", fmt.Errorf("clone %s: %w; without network access, specify a directory of mirrors", repo, err)
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
