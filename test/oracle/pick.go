package oracle

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// pickCommits is how many commits of a history are looked at for a pick.
	pickCommits = 2000
	// pickFiles and pickLines bound a commit that is picked: larger ones are seldom
	// one change.
	pickFiles = 8
	pickLines = 300
	// pickRefused is after how many commits that cannot be played a pick gives up:
	// then it is the repository that cannot be.
	pickRefused = 50
)

// Picked is what a pick found.
type Picked struct {
	Scripts  []*Script
	Suitable int      // commits of the right shape that were tried, playable or not
	Refused  []string // why those that cannot be played cannot
}

// Pick returns the newest commits of a repository, at most n, that make good
// oracles: no merges, with a test and with source code, small, without files
// that machines write, and playable.
func Pick(ctx context.Context, repoDir string, n int) (Picked, error) {
	out, err := git(ctx, repoDir, "log", "-z", "--min-parents=1", "--max-parents=1", "--no-renames", "--no-show-signature", "--raw",
		"--max-count="+strconv.Itoa(pickCommits), "--format=%x01%H", "HEAD", "--")
	if err != nil {
		return Picked{}, err
	}
	var p Picked
	for _, entry := range strings.Split(out, "\x01")[1:] {
		if len(p.Scripts) == n || len(p.Refused) == pickRefused {
			break
		}
		fields := strings.Split(entry, "\x00")
		if !suitable(fields[1:]) {
			continue
		}
		s, err := Write(ctx, repoDir, strings.TrimSpace(fields[0]))
		if u := (*Unplayable)(nil); errors.As(err, &u) {
			p.Suitable++
			p.Refused = append(p.Refused, u.Error())
			continue
		}
		if err != nil {
			return p, err
		}
		if s.Lines > pickLines {
			continue
		}
		p.Suitable++
		if sub, err := submodule(ctx, repoDir, s.Parent); err != nil {
			return p, err
		} else if sub != "" {
			p.Refused = append(p.Refused, fmt.Sprintf("the commit %.12s is not picked: a clone lacks the submodule %q, which its tests may need", s.ID, sub))
			continue
		}
		p.Scripts = append(p.Scripts, s)
	}
	return p, nil
}

// submodule returns the path of a submodule of a commit; empty where there is none.
func submodule(ctx context.Context, repo, commit string) (string, error) {
	out, err := git(ctx, repo, "ls-tree", "-r", "-z", commit)
	if err != nil {
		return "", err
	}
	for entry := range strings.SplitSeq(out, "\x00") {
		what, path, _ := strings.Cut(entry, "\t")
		if strings.HasPrefix(what, modeGitlink) {
			return path, nil
		}
	}
	return "", nil
}

// suitable judges a commit by what git's raw format says of it: for each file a
// field of modes and digests, then one with its path.
func suitable(raw []string) bool {
	files, tests, sources := 0, 0, 0
	for i := 0; i+1 < len(raw); i++ {
		if !strings.HasPrefix(strings.TrimLeft(raw[i], "\n"), ":") {
			continue // what stands between commits
		}
		i++
		if byMachine(raw[i]) {
			return false
		}
		files++
		switch {
		case isTest(raw[i]):
			tests++
		case isSource(raw[i]):
			sources++
		}
	}
	return tests > 0 && sources > 0 && files <= pickFiles
}

var (
	// machineFiles are written by tools, or are about the project's own services.
	machineFiles = []string{
		"go.sum", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock", "bun.lockb", "deno.lock",
		"cargo.lock", "poetry.lock", "uv.lock", "pipfile.lock", "pdm.lock", "gradle.lockfile", "composer.lock", "gemfile.lock",
		".travis.yml", "appveyor.yml", ".appveyor.yml", "azure-pipelines.yml", ".gitlab-ci.yml", ".pre-commit-config.yaml", ".gitmodules",
	}
	// machineFolders hold the same, or the work of others.
	machineFolders = []string{".github", ".circleci", ".buildkite", "vendor", "vendored", "_vendor", "node_modules", "third_party", "dist", "deno_dist"}

	testFolders = []string{"test", "tests", "__tests__", "testing", "spec", "specs"}
	testFile    = regexp.MustCompile(`(?i)(^test_.*|.*[_.-](test|tests|spec)|^test|^tests|.*Tests?|.*IT)\.[a-z]+$`)
	sourceTypes = []string{".go", ".py", ".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".mts", ".cts", ".rs", ".java", ".kt", ".c", ".h", ".cc", ".cpp", ".hpp", ".y", ".l", ".jq"}
)

// byMachine reports whether a commit with that path is no pure change of code.
func byMachine(file string) bool {
	return slices.Contains(machineFiles, strings.ToLower(path.Base(file))) || inFolder(file, machineFolders)
}

// isTest reports whether a path is a test's, as projects usually name them.
func isTest(file string) bool {
	return inFolder(file, testFolders) || isSource(file) && testFile.MatchString(path.Base(file))
}

func isSource(file string) bool { return slices.Contains(sourceTypes, path.Ext(file)) }

func inFolder(file string, folders []string) bool {
	parts := strings.Split(path.Dir(file), "/")
	return slices.ContainsFunc(parts, func(part string) bool { return slices.Contains(folders, part) })
}

// manifests tell what a project is made with, the most telling first.
var manifests = []struct{ file, ecosystem string }{
	{"go.mod", "go"}, {"Cargo.toml", "rust"}, {"pom.xml", "maven"}, {"build.gradle", "gradle"}, {"build.gradle.kts", "gradle"},
	{"pyproject.toml", "python"}, {"setup.py", "python"}, {"package.json", "node"},
	{"CMakeLists.txt", "c"}, {"configure.ac", "c"}, {"Makefile", "make"},
}

// ecosystem tells what the project of a commit is made with; empty is not known.
func ecosystem(ctx context.Context, repo, commit string) (string, error) {
	out, err := git(ctx, repo, "ls-tree", "-z", "--name-only", commit)
	if err != nil {
		return "", fmt.Errorf("list the files of %.12s: %w", commit, err)
	}
	files := strings.Split(out, "\x00")
	for _, m := range manifests {
		if slices.Contains(files, m.file) {
			return m.ecosystem, nil
		}
	}
	return "", nil
}
