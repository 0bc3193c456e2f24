package workspace

import (
	"context"
	"fmt"
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
		out, err := r.run(ctx, call{args: []string{
			"diff-tree", "-r", "-z", "--raw", "--no-abbrev", "-M", fmt.Sprintf("-l%d", maxRenames), from.Tree, to.Tree,
		}})
		if err != nil {
			return localFault(err, "could not compare two states of the repository")
		}
		if entries, err = rawEntries(string(out)); err != nil {
			return err
		}
		if extra := len(entries) - limits.Files; limits.Files > 0 && extra > 0 {
			entries, leftOut = entries[:limits.Files], extra
		}
		return r.readEntries(ctx, entries, limits)
	})
	return entries, leftOut, err
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
	var list strings.Builder
	for i := range entries {
		for _, v := range []*EntryVersion{&entries[i].Before, &entries[i].After} {
			if v.Mode != "" && v.Mode != modeGitlink {
				versions = append(versions, v)
				list.WriteString(v.ID + "\n")
			}
		}
	}
	if len(versions) == 0 {
		return nil
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
