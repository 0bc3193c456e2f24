package workspace

import (
	"bufio"
	"bytes"
	"context"
	"errors"
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
	entries, err := r.entriesBetween(ctx, from, to, false)
	if err != nil {
		return nil, err
	}
	var files []ChangedFile
	var blobs []string
	for _, e := range entries {
		f := ChangedFile{Path: e.Path, Existed: isRegular(e.Before.Mode), Exists: isRegular(e.After.Mode)}
		if !f.Existed && !f.Exists || !wanted(e.Path) {
			continue
		}
		files = append(files, f)
		if f.Existed {
			blobs = append(blobs, e.Before.ID)
		}
		if f.Exists {
			blobs = append(blobs, e.After.ID)
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

// blobs reads the content of objects and cuts each after most bytes.
func (r *mirror) blobs(ctx context.Context, ids []string, most int64) ([][]byte, error) {
	if most == 0 {
		return make([][]byte, len(ids)), nil
	}
	contents, err := r.plainBlobs(ctx, ids, maxPlainBlobs)
	if errors.Is(err, errNeedsGit) {
		return r.gitBlobs(ctx, ids, most)
	}
	for i, content := range contents {
		contents[i] = content[:min(int64(len(content)), most)]
	}
	return contents, err
}

// maxPlainBlobs limits the total size of the objects that blobs keeps in memory before it cuts them.
const maxPlainBlobs = 16 << 20

// plainBlobs reads the content of objects without git, of most bytes together.
func (r *mirror) plainBlobs(ctx context.Context, ids []string, most int64) ([][]byte, error) {
	contents := make([][]byte, len(ids))
	for i, id := range ids {
		if ctx.Err() != nil {
			return nil, wrapf(context.Cause(ctx), "reading files was stopped")
		}
		content, err := r.object(kindBlob, id)
		if err != nil {
			return nil, err
		}
		if most -= int64(len(content)); most < 0 {
			return nil, errNeedsGit
		}
		contents[i] = content
	}
	return contents, nil
}

// gitBlobs reads the content of objects with a single git process and cuts each after most bytes.
func (r *mirror) gitBlobs(ctx context.Context, ids []string, most int64) ([][]byte, error) {
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
