package workspace

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// ChangedFile is a regular file that differs between two workspaces. Before and After are cut at
// the caller's limit, and empty on a side without the file.
type ChangedFile struct {
	Path            string
	Existed, Exists bool
	Before, After   []byte
}

// Changed returns the files that differ between two workspaces of the same base, with their
// content, sorted by path. A rename counts as a removed file and a new one. It returns only files
// that wanted accepts, each cut after most bytes.
func (m *Manager) Changed(ctx context.Context, from, to contract.Workspace, wanted func(path string) bool, most int64) ([]ChangedFile, error) {
	var files []ChangedFile
	err := m.with(ctx, from, func(r *mirror, baseTree string) (err error) {
		if err = r.ensure(ctx, to.Of(from), baseTree); err == nil {
			files, err = r.changed(ctx, from.Tree, to.Tree, wanted, most)
		}
		return err
	})
	return files, err
}

func (r *mirror) changed(ctx context.Context, from, to string, wanted func(path string) bool, most int64) ([]ChangedFile, error) {
	if from == to {
		return nil, nil
	}
	out, err := r.run(ctx, call{args: []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", from, to}})
	if err != nil {
		return nil, localFault(err, "could not compare two states of the repository")
	}
	var files []ChangedFile
	var blobs []string
	fields := strings.Split(strings.TrimRight(string(out), "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		meta := strings.Fields(strings.TrimPrefix(fields[i], ":")) // modes, objects, status
		if len(meta) < 5 || !wanted(fields[i+1]) {
			continue
		}
		f := ChangedFile{Path: fields[i+1], Existed: isRegular(meta[0]), Exists: isRegular(meta[1])}
		if !f.Existed && !f.Exists {
			continue
		}
		files = append(files, f)
		for side, there := range []bool{f.Existed, f.Exists} {
			if there {
				blobs = append(blobs, meta[2+side])
			}
		}
	}
	contents, err := r.blobs(ctx, blobs, most)
	if err != nil {
		return nil, err
	}
	for i := range files {
		f := &files[i]
		if f.Existed {
			f.Before, contents = contents[0], contents[1:]
		}
		if f.Exists {
			f.After, contents = contents[0], contents[1:]
		}
	}
	return files, nil
}

func isRegular(mode string) bool { return strings.HasPrefix(mode, "100") }

// blobs reads the content of objects with a single git process and cuts each after most bytes.
func (r *mirror) blobs(ctx context.Context, ids []string, most int64) ([][]byte, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	out, err := r.run(ctx, call{args: []string{"cat-file", "--batch"}, stdin: strings.NewReader(strings.Join(ids, "\n") + "\n")})
	if err != nil {
		return nil, localFault(err, "could not read files in the repository")
	}
	in := bufio.NewReader(bytes.NewReader(out))
	contents := make([][]byte, len(ids))
	for i, id := range ids {
		head, err := in.ReadString('\n')
		if err != nil {
			return nil, fmt.Errorf("read the object %s: %w", id, err)
		}
		parts := strings.Fields(head)
		if len(parts) != 3 {
			return nil, fmt.Errorf("read the object %s: git reported %q", id, strings.TrimSpace(head))
		}
		size, err := strconv.ParseInt(parts[2], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read the size of object %s: %w", id, err)
		}
		kept := min(size, most)
		if contents[i], err = io.ReadAll(io.LimitReader(in, kept)); err == nil {
			_, err = io.CopyN(io.Discard, in, size-kept+1)
		}
		if err != nil {
			return nil, fmt.Errorf("read the object %s: %w", id, err)
		}
	}
	return contents, nil
}
