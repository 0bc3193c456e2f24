package workspace

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// ChangedEntry is an entry that differs between two workspaces, of any kind: a file, a link or a
// submodule.
type ChangedEntry struct {
	// Path is that in the second workspace, or in the first if the entry is deleted.
	Path string
	// From is the path in the first workspace, if git takes it for a rename; otherwise "".
	From          string
	Before, After EntryVersion
}

// EntryVersion is one side of a changed entry. Without a mode, there is none.
type EntryVersion struct {
	Mode string // such as 100644
	ID   string // of its content
	Size int64  // of its content; 0 for a submodule
	// Content is nil if it is not read: of a submodule, or over a limit (Unread).
	Content []byte
	Unread  bool
}

// EntryLimits limit what ChangedEntries reads. What is over them is returned without content, and
// entries over Files are only counted.
type EntryLimits struct {
	Files       int   // entries
	Bytes, File int64 // of all contents, and of one
}

// maxRenames is the number of files up to which git compares contents to find renames; above it, only
// files with the same content count.
const maxRenames = 1000

// ChangedEntries returns all entries that differ between two workspaces of the same base, by path,
// and how many are left out.
func (m *Manager) ChangedEntries(ctx context.Context, from, to contract.Workspace, limits EntryLimits) (entries []ChangedEntry, leftOut int, err error) {
	err = m.with(ctx, from, func(r *mirror, baseTree string) (err error) {
		if from.Tree == to.Tree {
			return nil
		}
		if err = r.ensure(ctx, to.Of(from), baseTree); err != nil {
			return err
		}
		if entries, err = r.entriesBetween(ctx, from.Tree, to.Tree, true); err != nil {
			return err
		}
		if extra := len(entries) - limits.Files; limits.Files > 0 && extra > 0 {
			entries, leftOut = entries[:limits.Files], extra
		}
		return r.readEntries(ctx, entries, limits)
	})
	return entries, leftOut, err
}

// entriesBetween returns the entries that differ between two trees, by path, with or without renames.
func (r *mirror) entriesBetween(ctx context.Context, from, to string, renames bool) ([]ChangedEntry, error) {
	if entries, err := r.plainEntries(ctx, from, to, renames); !errors.Is(err, errNeedsGit) {
		return entries, err
	}
	return r.gitEntries(ctx, from, to, renames)
}

// plainEntries is entriesBetween without git. Where files are both added and deleted, git finds out
// which of them are renames.
func (r *mirror) plainEntries(ctx context.Context, from, to string, renames bool) ([]ChangedEntry, error) {
	var entries []ChangedEntry
	added, deleted := false, false
	err := r.changedFiles(from, to, "", func(c fileChange) error {
		if ctx.Err() != nil {
			return wrapf(context.Cause(ctx), "the comparison of two states of the repository was stopped")
		}
		added, deleted = added || c.old.mode == "", deleted || c.new.mode == ""
		if renames && added && deleted {
			return errNeedsGit
		}
		entries = append(entries, ChangedEntry{Path: c.path, Before: EntryVersion{Mode: c.old.mode, ID: c.old.id}, After: EntryVersion{Mode: c.new.mode, ID: c.new.id}})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b ChangedEntry) int { return strings.Compare(a.Path, b.Path) })
	return entries, nil
}

// gitEntries is entriesBetween with git.
func (r *mirror) gitEntries(ctx context.Context, from, to string, renames bool) ([]ChangedEntry, error) {
	args := []string{"diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames", from, to}
	if renames {
		args = []string{"diff-tree", "-r", "-z", "--raw", "--no-abbrev", "-M", fmt.Sprintf("-l%d", maxRenames), from, to}
	}
	out, err := r.run(ctx, call{args: args})
	if err != nil {
		return nil, localFault(err, "could not compare two states of the repository")
	}
	return rawEntries(string(out))
}

// rawEntries parses git's raw list of changed entries: ":mode mode id id status", then one path, or two
// for a rename.
func rawEntries(out string) ([]ChangedEntry, error) {
	var entries []ChangedEntry
	fields := strings.Split(strings.TrimRight(out, "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		meta := strings.Fields(strings.TrimPrefix(fields[i], ":"))
		if len(meta) < 5 {
			return nil, runtimeFault("git wrote an unexpected line: %q", fields[i])
		}
		e := ChangedEntry{Path: fields[i+1], Before: versionOf(meta[0], meta[2]), After: versionOf(meta[1], meta[3])}
		if strings.HasPrefix(meta[4], "R") {
			if i+2 == len(fields) {
				return nil, runtimeFault("git wrote an unexpected line: %q", fields[i])
			}
			e.From, e.Path = e.Path, fields[i+2]
			i++
		}
		entries = append(entries, e)
	}
	return entries, nil
}

func versionOf(mode, id string) EntryVersion {
	if strings.Trim(mode, "0") == "" {
		return EntryVersion{}
	}
	return EntryVersion{Mode: mode, ID: id}
}

// readEntries fills in sizes and, within the limits, contents.
func (r *mirror) readEntries(ctx context.Context, entries []ChangedEntry, limits EntryLimits) error {
	var versions []*EntryVersion
	for i := range entries {
		for _, v := range []*EntryVersion{&entries[i].Before, &entries[i].After} {
			if v.Mode != "" && v.Mode != modeGitlink {
				versions = append(versions, v)
			}
		}
	}
	if err := r.plainVersions(ctx, versions, limits); !errors.Is(err, errNeedsGit) {
		return err
	}
	return r.gitVersions(ctx, versions, limits)
}

// plainVersions is readEntries without git, for contents that are within the limits together: to know
// the size of an object, it must read all of it.
func (r *mirror) plainVersions(ctx context.Context, versions []*EntryVersion, limits EntryLimits) error {
	ids := make([]string, len(versions))
	for i, v := range versions {
		ids[i] = v.ID
	}
	contents, err := r.plainBlobs(ctx, ids, limits.Bytes)
	if err != nil {
		return err
	}
	for i, content := range contents {
		v := versions[i]
		v.Size, v.Unread = int64(len(content)), int64(len(content)) > limits.File
		if !v.Unread {
			v.Content = content
		}
	}
	return nil
}

// gitVersions is readEntries with git.
func (r *mirror) gitVersions(ctx context.Context, versions []*EntryVersion, limits EntryLimits) error {
	var list strings.Builder
	for _, v := range versions {
		list.WriteString(v.ID + "\n")
	}
	out, err := r.run(ctx, call{args: []string{"cat-file", "--batch-check=%(objectsize)"}, stdin: strings.NewReader(list.String())})
	if err != nil {
		return localFault(err, "could not read the sizes of changed files")
	}
	sizes := strings.Fields(string(out))
	if len(sizes) != len(versions) {
		return runtimeFault("git returned %d sizes for %d files", len(sizes), len(versions))
	}
	var read []*EntryVersion
	var ids []string
	total := int64(0)
	for i, v := range versions {
		if v.Size, err = strconv.ParseInt(sizes[i], 10, 64); err != nil {
			return runtimeFault("git returned %q as the size of the file %s", sizes[i], v.ID)
		}
		if v.Size > limits.File || total+v.Size > limits.Bytes {
			v.Unread = true
			continue
		}
		total += v.Size
		read, ids = append(read, v), append(ids, v.ID)
	}
	return r.readBlobs(ctx, ids, limits.File, func(i int, content []byte) error {
		read[i].Content = append([]byte{}, content...)
		return nil
	})
}
