package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

const (
	// historyDepth is how many generations of commits History fetches.
	historyDepth = 1000
	// historyCommits is how many commits History lists, and historyBesideLines how many beside the
	// origins of lines.
	historyCommits     = 12
	historyBesideLines = 5
	// historyBytes limits the output of each of its git commands.
	historyBytes = 64 << 10
)

// Lines is a range of lines from 1; the zero value means none.
type Lines struct{ First, Last int }

// History describes how a path of a base commit came about: the last commits that changed it, and
// with lines, the commit that each of them comes from. Names and messages are those of the
// repository: they may contain anything. found is false if the base commit has no such path.
//
// The history is fetched on first use, at most 1,000 generations deep, into a repository of its own
// in the cache.
func (m *Manager) History(ctx context.Context, ws contract.Workspace, path string, lines Lines) (text string, found bool, err error) {
	r, baseTree, lock, err := m.use(ctx, ws.Repo, ws.Base)
	if err != nil {
		return "", false, err
	}
	defer lock.release()
	if _, found, err = r.findWithGit(ctx, baseTree, path); err != nil || !found {
		return "", false, err
	}
	h := &mirror{m: m, id: r.id, root: filepath.Join(r.root, "history"), source: r.source}
	if err := h.fetchHistory(ctx, r, ws.Base); err != nil {
		return "", false, err
	}
	most := historyCommits
	if lines.First > 0 {
		most = historyBesideLines
	}
	text, err = h.log(ctx, ws.Base, path, most)
	if err == nil && lines.First > 0 {
		var origins string
		origins, err = h.blame(ctx, ws.Base, path, lines)
		text += origins
	}
	return text, true, err
}

// findWithGit returns the entry of a tree at a path, with git if its objects are packed.
func (r *mirror) findWithGit(ctx context.Context, tree, path string) (treeEntry, bool, error) {
	entry, found, err := r.find(tree, strings.Split(path, "/"))
	if !errors.Is(err, errNeedsGit) {
		return entry, found, err
	}
	out, err := r.run(ctx, call{args: []string{"ls-tree", "-z", tree, "--", path}})
	if err != nil {
		return treeEntry{}, false, localFault(err, "could not look up %s", path)
	}
	fields := strings.Fields(strings.SplitN(string(out), "\t", 2)[0])
	if len(fields) != 3 {
		return treeEntry{}, false, nil
	}
	return treeEntry{mode: strings.TrimLeft(fields[0], "0"), name: path, id: fields[2]}, true, nil
}

// fetchHistory fetches the history of a base commit of the mirror of.
func (r *mirror) fetchHistory(ctx context.Context, of *mirror, base string) error {
	lock, err := r.m.locks.exclusive(ctx, of.fetchLock())
	if err != nil {
		return err
	}
	defer lock.release()
	ref := "refs/rgpt/base/" + base
	if _, err := os.Stat(filepath.Join(r.gitDir(), ref)); err == nil {
		return nil
	}
	if err := r.checkSource(ctx); err != nil {
		return err
	}
	if err := os.MkdirAll(r.root, 0o755); err != nil {
		return wrapf(err, "cannot write to the cache for %s", r.source)
	}
	if err := r.init(ctx, len(base)); err != nil {
		return err
	}
	removeStaleLocks(r.gitDir())
	removeStalePacks(r.gitDir())
	if err := r.runFetch(ctx, lock, fmt.Sprintf("--depth=%d", historyDepth), base+":"+ref); err != nil {
		return remoteFault(err, "could not fetch the history of commit %s from %s", base, escapePercent(r.source.String()))
	}
	return nil
}

// log lists the last commits that changed a path, at most the given number.
func (r *mirror) log(ctx context.Context, base, path string, most int) (string, error) {
	out, err := r.limitedRun(ctx,
		"log", fmt.Sprintf("--max-count=%d", most+1), "--no-color", "--no-decorate", "--no-show-signature", "--no-notes", "--no-mailmap",
		"--no-ext-diff", "--no-textconv", "--date=short", "--format=%h %ad %an: %s", base, "--", path)
	if err != nil {
		return "", localFault(err, "could not list the commits that changed %s", path)
	}
	lines := slices.Collect(strings.Lines(out))
	if len(lines) > most {
		return strings.Join(lines[:most], "") + "[earlier commits are not shown]\n", nil
	}
	if _, err := os.Stat(filepath.Join(r.gitDir(), "shallow")); err == nil {
		out += fmt.Sprintf("[commits more than %d generations ago are not known]\n", historyDepth)
	}
	return out, nil
}

// blame shows which commit the lines of a file come from, by ranges of lines, without the lines.
func (r *mirror) blame(ctx context.Context, base, path string, lines Lines) (string, error) {
	out, err := r.limitedRun(ctx, "blame", "--no-progress", "--porcelain", "-L", fmt.Sprintf("%d,%d", lines.First, lines.Last), base, "--", path)
	var ge *gitError
	if errors.As(err, &ge) {
		// Such as lines that the file does not have.
		return fmt.Sprintf("\n[the origin of lines %d to %d cannot be shown; is it a file with these lines in the base commit?]\n", lines.First, lines.Last), nil
	}
	if err != nil {
		return "", localFault(err, "could not trace the lines of %s", path)
	}
	return fmt.Sprintf("\nLines %d to %d in the base commit come from:\n", lines.First, lines.Last) + origins(out), nil
}

// blamed matches the header of a line in git's porcelain format: commit, original line, line.
var blamed = regexp.MustCompile(`^([0-9a-f]{40,64}) \d+ (\d+)`)

// origins turns the porcelain output of git blame into one line for each range of adjacent lines of the
// same commit.
func origins(porcelain string) string {
	type span struct{ commit, first, last string }
	var spans []span
	facts := map[string]map[string]string{} // by commit
	for line := range strings.Lines(porcelain) {
		line = strings.TrimSuffix(line, "\n")
		if m := blamed.FindStringSubmatch(line); m != nil {
			if n := len(spans); n == 0 || spans[n-1].commit != m[1] {
				spans = append(spans, span{commit: m[1], first: m[2]})
			}
			spans[len(spans)-1].last = m[2]
			continue
		}
		if key, value, ok := strings.Cut(line, " "); ok && len(spans) > 0 && !strings.HasPrefix(line, "\t") {
			commit := spans[len(spans)-1].commit
			if facts[commit] == nil {
				facts[commit] = map[string]string{}
			}
			facts[commit][key] = value
		}
	}
	var b strings.Builder
	for _, s := range spans {
		of := facts[s.commit]
		seconds, _ := strconv.ParseInt(of["author-time"], 10, 64)
		at := s.first
		if s.last != s.first {
			at += "-" + s.last
		}
		fmt.Fprintf(&b, "%s %.12s %s %s: %s\n", at, s.commit, time.Unix(seconds, 0).UTC().Format(time.DateOnly), of["author"], of["summary"])
	}
	return b.String()
}

// limitedRun runs git on the mirror and returns the beginning of its output.
func (r *mirror) limitedRun(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	limited := &limitedWriter{w: &out, left: historyBytes}
	_, err := r.runDurable(ctx, call{args: args, stdout: limited})
	text := strings.ToValidUTF8(out.String(), "\uFFFD")
	if limited.cut {
		return text[:strings.LastIndexByte(text, '\n')+1] + "[the rest is not shown]\n", nil
	}
	return text, err
}

// FileAt is a file of a workspace.
type FileAt struct {
	Exists     bool
	Special    bool // not a regular file, or larger than requested
	Executable bool
	Content    []byte
}

// FileAt returns a file of a workspace with its mode, unless it is larger than most bytes.
func (m *Manager) FileAt(ctx context.Context, ws contract.Workspace, path string, most int64) (FileAt, error) {
	var out FileAt
	err := m.with(ctx, ws, func(r *mirror, _ string) error {
		entry, found, err := r.findWithGit(ctx, ws.Tree, path)
		if err != nil || !found {
			return err
		}
		out.Exists, out.Executable = true, entry.mode == modeExecutable
		if entry.mode != modeFile && entry.mode != modeExecutable {
			out.Special = true
			return nil
		}
		out.Content, found, err = r.file(ctx, ws.Tree, path, most)
		out.Special = !found
		return err
	})
	return out, err
}

// DiffOf is DiffBetween for one path, or for all if it is empty.
func (m *Manager) DiffOf(ctx context.Context, from, to contract.Workspace, path string, maxBytes int) (string, error) {
	var text string
	err := m.with(ctx, from, func(r *mirror, baseTree string) (err error) {
		if err = r.ensure(ctx, to.Of(from), baseTree); err == nil {
			text, err = r.diffOf(ctx, from.Tree, to.Tree, path, maxBytes)
		}
		return err
	})
	return text, err
}
