package main

import (
	"cmp"
	"crypto/sha256"
	"path"
	"regexp"
	"slices"
	"strings"
)

// The rules by which commits are chosen.
const (
	perRepository = 80   // commits
	maxWanted     = 10   // source files that a commit may change
	minFiles      = 300  // source files of the commit's parent
	minWords      = 3    // of a message's subject
	selectFrom    = 8000 // newest commits of a repository
	selectWindow  = 2400 // the newest that fit, out of which the commits are taken at equal distances
)

var sourceExtensions = map[string]bool{
	".go": true, ".py": true, ".ts": true, ".tsx": true, ".js": true, ".jsx": true, ".mjs": true, ".cjs": true,
	".vue": true, ".java": true, ".kt": true, ".rs": true, ".rb": true, ".c": true, ".h": true, ".cc": true,
	".cpp": true, ".hpp": true, ".php": true, ".cs": true,
}

// notSource are parts of paths of files that the repository did not write.
var notSource = regexp.MustCompile(`(^|/)(vendor|node_modules|third_party|deps|dist)/|\.min\.js$|\.pb\.go$|_generated\.|\.designer\.cs$`)

// isSource says whether a file is part of the corpus: source code of the repository itself.
func isSource(p string) bool {
	return sourceExtensions[strings.ToLower(path.Ext(p))] && !notSource.MatchString(p)
}

// dull are subjects of commits whose files nobody searches for by the message.
var dull = regexp.MustCompile(`(?i)\b(bump|revert|reverts|release|releases|version|changelog|merge|typos?|spelling|lint|linting|fmt|gofmt|rustfmt|formatting|format code|prettier|whitespace|clippy|copyright|license|upgrade|update (dependenc|deps|submodule)|deps|dependenc\w+|prepare|backport|cherry.?pick|translations?|i18n|docs?|documentation|readme|comments?|javadoc|cleanup|clean up|tidy)\b|^(docs|chore|style|build|ci|release)\b|^v?\d+\.\d+`)

// bots write messages that are no goals.
var bots = regexp.MustCompile(`(?i)\[bot\]|dependabot|renovate`)

// fits says whether a commit is evaluated, as far as the log tells.
func fits(c logged) bool {
	subject, _, _ := strings.Cut(strings.TrimSpace(c.Message), "\n")
	if len(strings.Fields(subject)) < minWords || dull.MatchString(subject) || bots.MatchString(c.Message) {
		return false
	}
	n := len(wantedOf(c))
	return n >= 1 && n <= maxWanted && len(c.Changes) <= 2*maxWanted
}

// wantedOf returns the source files that a commit changed and that existed before it.
func wantedOf(c logged) []string {
	var wanted []string
	for _, change := range c.Changes {
		p := cmp.Or(change.Old, change.Path)
		if isSource(p) && !slices.Contains(c.Added, change.Path) {
			wanted = append(wanted, p)
		}
	}
	return wanted
}

// choose returns the commits of a repository that are evaluated, the newest first.
func (r *repository) choose() ([]string, error) {
	commits, err := r.log([]string{"HEAD"}, selectFrom)
	if err != nil {
		return nil, err
	}
	var fitting []logged
	for _, c := range commits {
		if fits(c) {
			fitting = append(fitting, c)
		}
	}
	fitting = fitting[:min(selectWindow, len(fitting))]
	var chosen []string
	step := max(float64(len(fitting))/perRepository, 1)
	for i := 0.0; int(i) < len(fitting) && len(chosen) < perRepository; i += step {
		c := fitting[int(i)]
		files, err := r.tree(c.ID + "^")
		if err != nil {
			return nil, err
		}
		exist := 0
		for _, f := range files {
			if slices.Contains(wantedOf(c), f.Path) {
				exist++
			}
		}
		if len(files) >= minFiles && exist > 0 {
			chosen = append(chosen, c.ID)
		}
	}
	return chosen, nil
}

// split fixes which half each repository belongs to.
func split(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Language, b.Language), cmp.Compare(digest(a.Repo), digest(b.Repo)))
	})
	for i := range entries {
		entries[i].Held = i > 0 && entries[i-1].Language == entries[i].Language && !entries[i-1].Held
	}
}

func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return string(sum[:])
}
