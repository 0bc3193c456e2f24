// Package brain knows the code of repositories: it indexes their files so that agents and people find
// what matters for a goal.
//
// An index is made of the files of one tree: of a commit, or of a run's workspace. What is extracted
// from a file depends on its content alone, so it is computed once and shared by all branches, runs and
// workers through the database. Each host keeps an index of each repository on its disk, which only
// needs what changed.
package brain

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/history"
	"github.com/rocketgpt/orchestrator/internal/brain/index"
	"github.com/rocketgpt/orchestrator/internal/brain/vectors"
	"github.com/rocketgpt/orchestrator/internal/store"
	stored "github.com/rocketgpt/orchestrator/internal/store/brain"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Options configure a Brain. Root and Workspaces are required.
type Options struct {
	// Root is the directory of this host's indexes. Processes of the host may share it.
	Root       string
	Workspaces *workspace.Manager
	// Store shares what is extracted with other hosts. nil: nothing is shared.
	Store *store.Store
	// MaxFileSize is the size of the largest file that is indexed; 0: extract.DefaultMaxFileSize.
	MaxFileSize int64
	// History is the number of past commits that a search uses; 0: none.
	History int
	// Disk limits the indexes of this host; 0: no limit.
	Disk int64
	// Workers is the number of files that are read at the same time; 0: one for each processor.
	Workers int
	// PrepareTime limits the time in which an index is made in the background; 0: DefaultPrepareTime.
	PrepareTime time.Duration
	// Embeddings also finds files by their embeddings. nil: searches do without.
	Embeddings *Embeddings
	// Rerank orders the first results of searches again. nil: they stay as the ranking has them.
	Rerank *Reranking
	// Log gets what is done without a request, such as an index that is made again. nil: nothing.
	Log *slog.Logger
}

// Brain indexes repositories. It is safe for concurrent use.
type Brain struct {
	options Options

	preparing *preparation
	views     *recent[viewKey, View]
	pasts     *recent[pastKey, *history.History]
	maps      *recent[mapKey, string]
	questions *recent[string, []float32]
	orders    *recent[string, []int]
	embedded  *recent[string, *vectors.File] // by directory

	mu   sync.Mutex
	dirs map[string]*openDir
	used []string // keys of dirs, the one that was used last at the end
}

type openDir struct {
	*index.Dir
	users int
}

const (
	// keptDirs is the number of indexes that stay in memory while nothing uses them, keptViews that of
	// views, and keptPasts that of histories, which the views of a commit share.
	keptDirs, keptViews, keptPasts = 4, 4, 4
	// DefaultPrepareTime is the time in which an index must be made in the background.
	DefaultPrepareTime = 10 * time.Minute
)

// New returns a Brain. The caller closes it.
func New(o Options) *Brain {
	if o.MaxFileSize <= 0 {
		o.MaxFileSize = extract.DefaultMaxFileSize
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.PrepareTime = cmp.Or(o.PrepareTime, DefaultPrepareTime)
	return &Brain{
		options: o, dirs: map[string]*openDir{}, preparing: newPreparation(), views: newRecent[viewKey, View](keptViews),
		pasts: newRecent[pastKey, *history.History](keptPasts), maps: newRecent[mapKey, string](keptMaps), questions: newRecent[string, []float32](keptQuestions),
		embedded: newRecent[string, *vectors.File](keptDirs), orders: newRecent[string, []int](keptOrders),
	}
}

// Close ends the work in the background and releases the indexes. Snapshots stay valid.
func (b *Brain) Close() {
	b.preparing.close()
	b.views.clear()
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range b.dirs {
		d.Close()
	}
	b.dirs, b.used = map[string]*openDir{}, nil
}

// open returns the index of a repository, which is not evicted until release is called.
func (b *Brain) open(repo string) (d *openDir, release func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d = b.dirs[repo]; d == nil {
		dir, err := index.Open(b.options.Root, repo)
		if err != nil {
			return nil, nil, err
		}
		d = &openDir{Dir: dir}
		b.dirs[repo] = d
	}
	d.users++
	b.touch(repo)
	return d, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		d.users--
		b.evict()
	}, nil
}

func (b *Brain) touch(repo string) {
	for i, name := range b.used {
		if name == repo {
			b.used = append(b.used[:i:i], b.used[i+1:]...)
			break
		}
	}
	b.used = append(b.used, repo)
}

// evict closes the indexes that were not used for the longest time.
func (b *Brain) evict() {
	for i := 0; len(b.used) > keptDirs && i < len(b.used); {
		repo := b.used[i]
		if b.dirs[repo].users > 0 {
			i++
			continue
		}
		b.dirs[repo].Close()
		delete(b.dirs, repo)
		b.used = append(b.used[:i:i], b.used[i+1:]...)
	}
}

// Progress says how far an indexing is.
type Progress struct {
	Files   int `json:"files"`   // of the tree that may be indexed
	Missing int `json:"missing"` // that the index of this host lacks
	Done    int `json:"done"`    // of those that are missing
}

// Indexed is what an indexing did.
type Indexed struct {
	Tree      string         `json:"tree" doc:"git tree that was indexed"`
	Files     int            `json:"files" doc:"files of the tree"`
	Documents int            `json:"documents" doc:"files that are indexed"`
	Skipped   map[string]int `json:"skipped" doc:"files that are not indexed, by reason"`
	Read      int            `json:"read" doc:"files whose content was read"`
	Shared    int            `json:"shared" doc:"files whose extract was in the database"`
	Languages map[string]int `json:"languages" doc:"indexed files by language"`
	Bytes     int64          `json:"bytes" doc:"size of the repository's index on this host"`
	Seconds   float64        `json:"seconds" doc:"duration"`
	// Embeddings is nil if no model is configured.
	Embeddings *Embedded `json:"embeddings,omitempty" doc:"embeddings of the files, if a model is configured (brain.embeddings.model)"`
}

// Index makes the index of a workspace's tree available and returns it. It reads only files that no
// earlier indexing read, on this host or, if the database has their extracts, on another. progress may
// be nil; it is called often. Index can be interrupted and repeated at any time. It also computes the
// embeddings that the tree's files lack, if a model is configured; a failure to do so is not an error.
func (b *Brain) Index(ctx context.Context, ws contract.Workspace, progress func(Progress)) (*index.Snapshot, Indexed, error) {
	began := time.Now()
	w, stats, err := b.index(ctx, ws, progress)
	if err != nil {
		return nil, stats, err
	}
	if b.options.Embeddings == nil {
		return w.snapshot, stats, nil
	}
	done := Embedded{Model: b.options.Embeddings.Space.Model, Missing: w.snapshot.Docs(), Problem: unreadable}
	if n := w.nearby(); n != nil {
		done = n.embed(ctx)
	}
	stats.Embeddings = &done
	stats.Bytes = index.Size(b.options.Root, ws.Repo)
	stats.Seconds = time.Since(began).Seconds()
	return w.snapshot, stats, nil
}

func (b *Brain) index(ctx context.Context, ws contract.Workspace, progress func(Progress)) (*work, Indexed, error) {
	began := time.Now()
	d, release, err := b.open(ws.Repo)
	if err != nil {
		return nil, Indexed{}, err
	}
	defer release()
	w := &work{Brain: b, ws: ws, progress: progress, stats: Indexed{Tree: ws.Tree, Skipped: map[string]int{}, Languages: map[string]int{}}}
	if err := w.list(ctx); err != nil {
		return nil, w.stats, err
	}
	if w.snapshot, err = w.updated(ctx, d); err != nil {
		return nil, w.stats, fmt.Errorf("index %s: %w", workspace.Redact(ws.Repo), err)
	}
	w.stats.Documents, w.stats.Bytes = w.snapshot.Docs(), d.Size()
	for doc := range w.snapshot.Docs() {
		w.stats.Languages[w.snapshot.Lang(uint32(doc))]++
	}
	if n := len(w.files) - w.snapshot.Docs(); n > 0 {
		w.stats.Skipped["content"] = n
	}
	w.stats.Seconds = time.Since(began).Seconds()
	telemetry.BrainIndexed(w.stats.Read, w.stats.Shared, w.bytes, time.Since(began))
	return w, w.stats, nil
}

// work is one indexing.
type work struct {
	*Brain
	ws       contract.Workspace
	progress func(Progress)
	files    []index.File
	blobs    []string // of the files
	stats    Indexed
	state    Progress
	bytes    int64 // of contents that were read
	snapshot *index.Snapshot
}

// list finds the files that may be indexed.
func (w *work) list(ctx context.Context) error {
	all, err := w.options.Workspaces.ListTree(ctx, w.ws)
	if err != nil {
		return err
	}
	ignored, err := w.ignored(ctx, all)
	if err != nil {
		return err
	}
	w.stats.Files = len(all)
	for _, f := range all {
		// The size is known when the content is read.
		ok, why := extract.WantedPath(f.Path, 1, w.options.MaxFileSize)
		if ok && ignored(f.Path) {
			ok, why = false, reasonIgnored
		}
		if !ok {
			w.stats.Skipped[string(why)]++
			continue
		}
		w.files = append(w.files, index.File{Path: f.Path, Key: index.KeyOf(f.Blob, f.Path, w.options.MaxFileSize)})
		w.blobs = append(w.blobs, f.Blob)
	}
	index.Sort(w.files, w.blobs)
	w.state.Files = len(w.files)
	return nil
}

// fetch gets the records of files from the database or, if it lacks them, from their contents.
func (w *work) fetch(ctx context.Context, missing []int, add func(int, *index.Record) error) error {
	w.state.Missing, w.state.Done = len(missing), 0
	w.report(0)
	left := missing
	if w.options.Store != nil {
		var err error
		if left, err = w.fromDatabase(ctx, missing, add); err != nil {
			return err
		}
	}
	if len(left) == 0 {
		return nil
	}
	return w.fromContents(ctx, left, add)
}

func (w *work) report(done int) {
	w.state.Done += done
	if w.progress != nil {
		w.progress(w.state)
	}
}

// fromDatabase adds the records that the database has, and returns the other files. A record that
// cannot be read is computed again.
func (w *work) fromDatabase(ctx context.Context, missing []int, add func(int, *index.Record) error) (left []int, err error) {
	at, keys := make(map[[16]byte]int, len(missing)), make([][16]byte, len(missing))
	for n, i := range missing {
		keys[n] = w.files[i].Key
		at[keys[n]] = i
	}
	found := map[int]bool{}
	err = stored.Get(ctx, w.options.Store, keys, func(blob stored.Blob) error {
		r, err := index.DecodeRecord(blob.Data)
		if err != nil {
			return nil //nolint:nilerr // the file's content has the same
		}
		i := at[blob.Key]
		found[i] = true
		w.stats.Shared++
		w.report(1)
		return add(i, &r)
	})
	if err != nil {
		return nil, err
	}
	for _, i := range missing {
		if !found[i] {
			left = append(left, i)
		}
	}
	return left, nil
}

// content is a file to extract, and what was extracted from it.
type content struct {
	file   int
	text   []byte // nil: too large
	size   int
	record index.Record
	data   []byte // as it is stored
}

// fromContents reads files with one git process, extracts them on several processors, and stores the
// records.
func (w *work) fromContents(ctx context.Context, missing []int, add func(int, *index.Record) error) error {
	ids := make([]string, len(missing))
	for n, i := range missing {
		ids[n] = w.blobs[i]
	}
	group, ctx := errgroup.WithContext(ctx)
	read, done := make(chan content, w.options.Workers), make(chan content, w.options.Workers)
	group.Go(func() error {
		defer close(read)
		return w.options.Workspaces.ReadBlobs(ctx, w.ws, ids, w.options.MaxFileSize, func(n int, text []byte) error {
			if text != nil {
				text = append(make([]byte, 0, len(text)), text...)
			}
			return send(ctx, read, content{file: missing[n], text: text, size: len(text)})
		})
	})
	var workers sync.WaitGroup
	for range w.options.Workers {
		workers.Add(1)
		group.Go(func() error {
			defer workers.Done()
			for c := range read {
				c.record = index.NewRecord(w.files[c.file].Path, c.text)
				c.text = nil
				if w.options.Store != nil {
					c.data = c.record.Encode()
				}
				if err := send(ctx, done, c); err != nil {
					return err
				}
			}
			return nil
		})
	}
	go func() {
		workers.Wait()
		close(done)
	}()
	group.Go(func() error { return w.collect(ctx, done, add) })
	return group.Wait()
}

func send(ctx context.Context, to chan<- content, c content) error {
	select {
	case to <- c:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

const (
	// storeBatch and storeBytes limit the records that are stored in the database at once.
	storeBatch = 500
	storeBytes = 4 << 20
)

// collect adds records to the index and stores them in the database.
func (w *work) collect(ctx context.Context, done <-chan content, add func(int, *index.Record) error) error {
	var batch []stored.Blob
	size := 0
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := stored.Put(ctx, w.options.Store, batch)
		batch, size = batch[:0], 0
		return err
	}
	for c := range done {
		if err := add(c.file, &c.record); err != nil {
			return err
		}
		w.stats.Read++
		w.bytes += int64(c.size)
		w.report(1)
		if c.data == nil {
			continue
		}
		batch = append(batch, stored.Blob{Key: w.files[c.file].Key, Data: c.data})
		if size += len(c.data); len(batch) >= storeBatch || size >= storeBytes {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// Stats is what this installation has indexed.
type Stats struct {
	Repositories int   `json:"repositories" doc:"repositories with an index on this host"`
	Bytes        int64 `json:"bytes" doc:"size of these indexes"`
	Disk         int64 `json:"disk" doc:"the most that they may take (brain.disk)"`
	SharedBytes  int64 `json:"shared_bytes" doc:"size of the extracts and embeddings of files in the database"`

	Embeddings EmbeddingStats `json:"embeddings" doc:"embeddings of the files"`
	Rerank     string         `json:"rerank,omitempty" doc:"provider and model that order the results of searches again; not set: none (brain.rerank.model)"`
	// Indexes are the indexes on this host.
	Indexes []Stored `json:"indexes" doc:"the indexes on this host, the one that was used last first; at most 200"`
}

// maxStored is the number of indexes that Stats lists.
const maxStored = 200

// Stored is the index of a repository on this host.
type Stored struct {
	Repo  string    `json:"repo" doc:"repository; empty if it is not known until the index is used again"`
	Bytes int64     `json:"bytes" doc:"size of the index"`
	Used  time.Time `json:"used" doc:"when it was last used"`
}

// Stats returns what is indexed.
func (b *Brain) Stats(ctx context.Context) (Stats, error) {
	s := Stats{Disk: b.options.Disk, Indexes: []Stored{}, Embeddings: b.embeddingStats()}
	if b.options.Rerank != nil {
		s.Rerank = b.options.Rerank.Model
	}
	all, err := index.List(b.options.Root)
	if err != nil {
		return s, err
	}
	s.Repositories = len(all)
	for i, x := range all {
		s.Bytes += x.Bytes
		if i < maxStored {
			s.Indexes = append(s.Indexes, Stored{Repo: workspace.Redact(x.Repo), Bytes: x.Bytes, Used: x.Used})
		}
	}
	if b.options.Store != nil {
		s.SharedBytes, err = stored.Stored(ctx, b.options.Store)
	}
	return s, err
}

// Dir returns the directory of a host's indexes below its data directory.
func Dir(dataDir string) string { return filepath.Join(dataDir, "brain") }

// ignoreFile says whether a path is one of a .gitignore file.
func ignoreFile(path string) bool {
	return path == ".gitignore" || strings.HasSuffix(path, "/.gitignore")
}
