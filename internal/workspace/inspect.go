package workspace

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// DefaultDiffBytes bounds the text of Diff when the caller does not.
const DefaultDiffBytes = 256 << 10

// FileStat counts the changed lines of a file.
type FileStat struct {
	Path    string
	Added   int
	Deleted int
	Binary  bool // lines are not counted
}

// Stat sums up a change.
type Stat struct {
	Files   []FileStat // in the order of paths
	Added   int
	Deleted int
}

// String is the sum in words, such as "3 files changed, 12 lines added, 4
// removed".
func (s Stat) String() string {
	return fmt.Sprintf("%s changed, %s added, %d removed", count(len(s.Files), "file"), count(s.Added, "line"), s.Deleted)
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Diff returns the unified diff from the base to the workspace, with renames,
// for people and prompts. It is cut after maxBytes, at the end of a line and
// with a note; 0 means DefaultDiffBytes.
func (m *Manager) Diff(ctx context.Context, ws contract.Workspace, maxBytes int) (string, error) {
	var text string
	err := m.with(ctx, ws, func(r *mirror, baseTree string) (err error) {
		text, err = r.diff(ctx, baseTree, ws.Tree, maxBytes)
		return err
	})
	return text, err
}

// DiffBetween is Diff from one workspace to another of the same base.
func (m *Manager) DiffBetween(ctx context.Context, from, to contract.Workspace, maxBytes int) (string, error) {
	var text string
	err := m.with(ctx, from, func(r *mirror, baseTree string) (err error) {
		if err = r.ensure(ctx, to.Of(from), baseTree); err == nil {
			text, err = r.diff(ctx, from.Tree, to.Tree, maxBytes)
		}
		return err
	})
	return text, err
}

func (r *mirror) diff(ctx context.Context, from, to string, maxBytes int) (string, error) {
	if maxBytes <= 0 {
		maxBytes = DefaultDiffBytes
	}
	var out bytes.Buffer
	limited := &limitedWriter{w: &out, left: int64(maxBytes)}
	_, err := r.run(ctx, call{stdout: limited, args: []string{
		"diff-tree", "-r", "-p", "-M", "--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", from, to,
	}})
	if limited.cut {
		text := out.String()
		text = text[:strings.LastIndexByte(text, '\n')+1]
		return strings.ToValidUTF8(text, "\uFFFD") + fmt.Sprintf("[the diff is cut here: it is longer than %d bytes]\n", maxBytes), nil
	}
	if err != nil {
		return "", localFault(err, "the diff of a workspace could not be made")
	}
	return strings.ToValidUTF8(out.String(), "\uFFFD"), nil
}

// DiffStat returns which files differ from the base, and by how many lines. A
// renamed file counts as one removed and one added.
func (m *Manager) DiffStat(ctx context.Context, ws contract.Workspace) (Stat, error) {
	var stat Stat
	err := m.with(ctx, ws, func(r *mirror, baseTree string) error {
		out, err := r.run(ctx, call{args: []string{"diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", baseTree, ws.Tree}})
		if err != nil {
			return localFault(err, "the diff of a workspace could not be made")
		}
		stat = parseNumstat(string(out))
		return nil
	})
	return stat, err
}

func parseNumstat(out string) Stat {
	var stat Stat
	for record := range strings.SplitSeq(out, "\x00") {
		fields := strings.SplitN(record, "\t", 3)
		if len(fields) != 3 {
			continue
		}
		file := FileStat{Path: fields[2], Binary: fields[0] == "-"}
		file.Added, _ = strconv.Atoi(fields[0])
		file.Deleted, _ = strconv.Atoi(fields[1])
		stat.Files = append(stat.Files, file)
		stat.Added += file.Added
		stat.Deleted += file.Deleted
	}
	return stat
}

// Files returns the paths of all files of the workspace, sorted.
func (m *Manager) Files(ctx context.Context, ws contract.Workspace) ([]string, error) {
	var files []string
	err := m.with(ctx, ws, func(r *mirror, _ string) error {
		out, err := r.run(ctx, call{args: []string{"ls-tree", "-r", "-z", "--name-only", ws.Tree}})
		if err != nil {
			return localFault(err, "the files of a workspace could not be listed")
		}
		files = strings.FieldsFunc(string(out), func(r rune) bool { return r == 0 })
		return nil
	})
	return files, err
}

// BaseFile returns the content of a file at the workspace's base commit; false
// when there is no regular file of that name, or one of more than most bytes.
func (m *Manager) BaseFile(ctx context.Context, ws contract.Workspace, name string, most int64) (content []byte, found bool, err error) {
	err = m.with(ctx, ws, func(r *mirror, baseTree string) error {
		out, err := r.run(ctx, call{args: []string{"ls-tree", "-z", "--long", baseTree, "--", name}})
		if err != nil {
			return localFault(err, "the file %s could not be looked for", name)
		}
		// mode, kind, id, size, then the name behind a tab
		fields := strings.Fields(strings.SplitN(string(out), "\t", 2)[0])
		if len(fields) != 4 || fields[1] != "blob" || fields[0] == "120000" {
			return nil
		}
		size, err := strconv.ParseInt(fields[3], 10, 64)
		if err != nil {
			return fmt.Errorf("read the size of %s: %w", name, err)
		}
		if size > most {
			return nil
		}
		if content, err = r.run(ctx, call{args: []string{"cat-file", "blob", fields[2]}}); err != nil {
			return localFault(err, "the file %s could not be read", name)
		}
		found = true
		return nil
	})
	return content, found, err
}

// with calls f with the mirror, in which the workspace's tree is.
func (m *Manager) with(ctx context.Context, ws contract.Workspace, f func(r *mirror, baseTree string) error) error {
	repo, baseTree, lock, err := m.use(ctx, ws.Repo, ws.Base)
	if err != nil {
		return err
	}
	defer lock.release()
	if err := repo.ensure(ctx, ws, baseTree); err != nil {
		return err
	}
	return f(repo, baseTree)
}
