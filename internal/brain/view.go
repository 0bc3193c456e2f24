package brain

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain/history"
	"github.com/rocketgpt/orchestrator/internal/brain/index"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// viewKey names the content of a view, which never changes: the files of a tree, and the history up to
// a commit.
type viewKey struct{ repo, base, tree string }

func keyOf(ws contract.Workspace) viewKey { return viewKey{ws.Repo, ws.Base, ws.Tree} }

// pastKey names the history of a repository up to a commit.
type pastKey struct{ repo, base string }

// View indexes a commit and returns it for Search and Map.
func (b *Brain) View(ctx context.Context, repo contract.Repo) (View, error) {
	ws, err := b.options.Workspaces.Start(ctx, repo)
	if err != nil {
		return View{}, err
	}
	return b.ViewOf(ctx, ws)
}

// ViewOf is View for a workspace: its files with a run's changes, and the history up to its base. The
// last views stay in memory, so that further questions about them read nothing.
func (b *Brain) ViewOf(ctx context.Context, ws contract.Workspace) (View, error) {
	key := keyOf(ws)
	if v, ok := b.views.get(key); ok {
		return v, nil
	}
	v, err := b.makeView(ctx, ws)
	if err == nil {
		b.views.put(key, v)
	}
	return v, err
}

func (b *Brain) makeView(ctx context.Context, ws contract.Workspace) (View, error) {
	w, _, err := b.index(ctx, ws, nil)
	if err != nil {
		return View{}, err
	}
	blobs := w.blobsOf(w.snapshot)
	v := View{Corpus: w.snapshot, Contents: func(ctx context.Context, docs []uint32) ([][]byte, error) {
		ids, contents := make([]string, len(docs)), make([][]byte, len(docs))
		for i, doc := range docs {
			ids[i] = blobs[doc]
		}
		err := b.options.Workspaces.ReadBlobs(ctx, ws, ids, b.options.MaxFileSize, func(i int, text []byte) error {
			if text != nil {
				contents[i] = append([]byte{}, text...)
			}
			return nil
		})
		return contents, err
	}}
	v.nearby, v.reranker = w.nearby(), w.reranker()
	if b.options.History > 0 {
		past, err := b.past(ctx, contract.Repo{URL: ws.Repo, Base: ws.Base})
		if err != nil {
			return View{}, err
		}
		v.Past = past
	}
	return v, nil
}

// blobsOf returns the blob of each document: the files that are indexed are in the order of documents.
func (w *work) blobsOf(s *index.Snapshot) []string {
	blobs := make([]string, 0, s.Docs())
	for i := range w.files {
		if doc := len(blobs); doc < s.Docs() && s.Path(uint32(doc)) == w.files[i].Path {
			blobs = append(blobs, w.blobs[i])
		}
	}
	return blobs
}

// past returns the history up to a commit, of which only what is new is read.
func (b *Brain) past(ctx context.Context, repo contract.Repo) (*history.History, error) {
	key := pastKey{repo.URL, repo.Base}
	if past, ok := b.pasts.get(key); ok {
		return past, nil
	}
	dir := history.Directory{Path: filepath.Join(b.options.Root, "history"), Commits: b.options.History}
	log := func(ctx context.Context, tip, since string, most int, f func(history.Commit) error) error {
		return b.options.Workspaces.Log(ctx, contract.Repo{URL: repo.URL, Base: tip}, since, most, func(c workspace.LogCommit) error {
			return f(pastCommit(c))
		})
	}
	past, err := dir.Load(ctx, index.Name(repo.URL), repo.Base, log)
	if err != nil {
		return nil, fmt.Errorf("read the history of %s: %w", workspace.Redact(repo.URL), err)
	}
	b.pasts.put(key, past)
	return past, nil
}

func pastCommit(c workspace.LogCommit) history.Commit {
	out := history.Commit{ID: c.ID, Time: time.Unix(c.Time, 0).UTC(), Message: c.Message}
	if c.Truncated {
		return out
	}
	for _, change := range c.Changes {
		if change.Status == 'C' {
			change.From = "" // the original is still there
		}
		out.Changes = append(out.Changes, history.Change{Path: change.Path, Old: change.From})
	}
	return out
}

// updated indexes a tree, from the beginning if what is stored is corrupt.
func (w *work) updated(ctx context.Context, d *openDir) (*index.Snapshot, error) {
	fetch := func(missing []int, add func(int, *index.Record) error) error { return w.fetch(ctx, missing, add) }
	s, err := d.Update(ctx, w.ws.Tree, w.files, fetch)
	if !errors.Is(err, index.ErrCorrupt) {
		return s, err
	}
	w.options.Log.Warn("the index of a repository is corrupt and is made again", "repo", workspace.Redact(w.ws.Repo), "error", err)
	if err := d.Reset(ctx); err != nil {
		return nil, err
	}
	return d.Update(ctx, w.ws.Tree, w.files, fetch)
}
