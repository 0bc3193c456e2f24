package forgetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// gitTime limits one command of git.
const gitTime = time.Minute

// git runs git in a bare repository and returns what it prints.
func git(dir string, input []byte, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), gitTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = gitEnv()
	if input != nil {
		cmd.Stdin = bytes.NewReader(input)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimRight(string(out), "\n"), nil
}

// gitEnv is an environment in which nothing of the machine's configuration counts.
func gitEnv() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Test", "GIT_AUTHOR_EMAIL=test@localhost", "GIT_COMMITTER_NAME=Test", "GIT_COMMITTER_EMAIL=test@localhost",
		"GIT_AUTHOR_DATE=2026-01-01T00:00:00Z", "GIT_COMMITTER_DATE=2026-01-01T00:00:00Z",
	}
}

// initRepository creates a bare repository with a first commit on its default branch.
func initRepository(tb testing.TB, dir, branch string) {
	tb.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	for _, args := range [][]string{{"init", "--quiet", "--bare", "--initial-branch=" + branch, "."}, {"config", "http.receivepack", "true"}} {
		if _, err := git(dir, nil, args...); err != nil {
			tb.Fatal(err)
		}
	}
	if _, err := commitFiles(dir, branch, "", map[string]string{"README.md": "# Test\n\nA repository of a test.\n"}); err != nil {
		tb.Fatal(err)
	}
}

// commitFiles commits files to a branch, which begins at a commit if it does not exist.
func commitFiles(dir, branch, from string, files map[string]string) (string, error) {
	if head, err := revision(dir, "refs/heads/"+branch); err == nil {
		from = head
	}
	var in strings.Builder
	fmt.Fprintf(&in, "commit refs/heads/%s\ncommitter Test <test@localhost> 1767225600 +0000\ndata %d\n%s\n", branch, len("Change "+branch), "Change "+branch)
	if from != "" {
		fmt.Fprintf(&in, "from %s\n", from)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&in, "M 100644 inline %s\ndata %d\n%s\n", name, len(files[name]), files[name])
	}
	if _, err := git(dir, []byte(in.String()), "fast-import", "--quiet"); err != nil {
		return "", err
	}
	return revision(dir, "refs/heads/"+branch)
}

// revision returns the commit of a name.
func revision(dir, name string) (string, error) {
	return git(dir, nil, "rev-parse", "--verify", "--quiet", name+"^{commit}")
}

// mergeCommits merges a head into a branch in one of three ways. It fails if they conflict.
func mergeCommits(dir, base, head, method, message string) (string, error) {
	onto, err := revision(dir, "refs/heads/"+base)
	if err != nil {
		return "", err
	}
	tree, err := git(dir, nil, "merge-tree", "--write-tree", onto, head)
	if err != nil {
		return "", err
	}
	parents := []string{"-p", onto}
	if method == "merge" {
		parents = append(parents, "-p", head)
	}
	var made string
	if method == "rebase" {
		made, err = replayed(dir, onto, head)
	} else {
		made, err = git(dir, nil, append([]string{"commit-tree", tree, "-m", message}, parents...)...)
	}
	if err != nil {
		return "", err
	}
	_, err = git(dir, nil, "update-ref", "refs/heads/"+base, made, onto)
	return made, err
}

// replayed makes the commits of a branch again on top of another one, and returns the last one.
func replayed(dir, onto, head string) (string, error) {
	list, err := git(dir, nil, "rev-list", "--reverse", "--no-merges", onto+".."+head)
	if err != nil {
		return "", err
	}
	made := onto
	for _, commit := range strings.Fields(list) {
		tree, err := git(dir, nil, "merge-tree", "--write-tree", onto, commit)
		if err != nil {
			return "", err
		}
		message, err := git(dir, nil, "show", "-s", "--format=%B", commit)
		if err != nil {
			return "", err
		}
		if made, err = git(dir, nil, "commit-tree", tree, "-m", message, "-p", made); err != nil {
			return "", err
		}
	}
	return made, nil
}

// mergeable reports whether two commits can be merged.
func mergeable(dir, base, head string) bool {
	_, err := git(dir, nil, "merge-tree", "--write-tree", "refs/heads/"+base, head)
	return err == nil
}

// changedFile is a file of a change, with its diff as forges return it.
type changedFile struct{ path, patch string }

// changedFiles returns what a head changes since it left a base.
func changedFiles(dir, base, head string) ([]changedFile, error) {
	fork, err := git(dir, nil, "merge-base", base, head)
	if err != nil {
		return nil, err
	}
	names, err := git(dir, nil, "diff", "--name-only", "--no-renames", fork, head)
	if err != nil || names == "" {
		return nil, err
	}
	var out []changedFile
	for _, name := range strings.Split(names, "\n") {
		diff, err := git(dir, nil, "diff", "--no-color", "--no-ext-diff", "--no-renames", fork, head, "--", name)
		if err != nil {
			return nil, err
		}
		if at := strings.Index(diff, "\n@@"); at >= 0 {
			diff = diff[at+1:]
		}
		out = append(out, changedFile{path: name, patch: diff})
	}
	return out, nil
}

// backend is the program that serves repositories over HTTP.
func backend() (string, error) {
	dir, err := git("/", nil, "--exec-path")
	return filepath.Join(dir, "git-http-backend"), err
}
