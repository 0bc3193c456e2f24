package brain

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/index"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/vectors"
	"github.com/rocketgpt/orchestrator/internal/fault"
	stored "github.com/rocketgpt/orchestrator/internal/store/brain"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Embeddings says which model computes the embeddings of files and questions, and within which limits.
type Embeddings struct {
	// Space names the model: its vectors are compared with no others.
	Space vectors.Space
	// MaxTexts, MaxBytes and MaxMicroUSD limit what one indexing sends to the model, and MaxTime its
	// duration. The cost is checked after each embedBatch files. 0: no limit.
	MaxTexts    int
	MaxBytes    int64
	MaxMicroUSD int64
	MaxTime     time.Duration
	// Wait is how long a search waits for the embedding of its question.
	Wait time.Duration
	// Compute computes the embeddings of texts for a repository, and passes those of texts[first:] to
	// keep as they arrive. It returns what it cost.
	Compute func(ctx context.Context, repo string, texts []string, keep func(ctx context.Context, first int, vectors [][]float32) error) (contract.Usage, error)
}

// Embedded is what an indexing did about embeddings.
type Embedded struct {
	Model    string  `json:"model" doc:"provider and model"`
	Files    int     `json:"files" doc:"files of the tree that have embeddings"`
	Missing  int     `json:"missing" doc:"files that have none yet"`
	Computed int     `json:"computed" doc:"files whose embeddings were computed"`
	Shared   int     `json:"shared" doc:"files whose embeddings were in the database"`
	Texts    int     `json:"texts" doc:"texts that were sent to the model"`
	CostUSD  float64 `json:"cost_usd" doc:"what that cost, in US dollars"`
	Problem  string  `json:"problem,omitempty" doc:"why files are missing; searches do without them"`
}

// EmbeddingStats is what is known about the embeddings on this host.
type EmbeddingStats struct {
	Model    string `json:"model,omitempty" doc:"provider and model; not set: none is configured (brain.embeddings.model)"`
	Files    int    `json:"files" doc:"files with embeddings, of the trees that were indexed last"`
	Missing  int    `json:"missing" doc:"files of these trees without embeddings"`
	Problems []struct {
		Repo string `json:"repo"`
		Text string `json:"text"`
	} `json:"problems,omitempty" doc:"why files are missing, by repository"`
}

const (
	// embedBatch is the number of files whose texts are passed to the model at once.
	embedBatch = 100
	// vectorsDir is the directory with the embeddings of a repository, below that of its index.
	vectorsDir = "vectors"
	// keptQuestions is the number of questions whose embeddings stay in memory.
	keptQuestions = 64
)

// nearby finds the files of one tree by their embeddings.
type nearby struct {
	*Brain
	ws    contract.Workspace
	dir   string // of the embeddings
	file  *vectors.File
	blobs []string // of the documents
	paths []string
	keys  []vectors.Key

	mu  sync.Mutex
	set *vectors.Set // what the tree has of the file
}

// unreadable says that the embeddings on this host cannot be read; the log says why.
const unreadable = "The embeddings on this host cannot be read; see the log."

// nearby returns what finds files by their embeddings; nil if no model is configured, or if those on
// this host cannot be read.
func (w *work) nearby() *nearby {
	e := w.options.Embeddings
	if e == nil {
		return nil
	}
	n := &nearby{
		Brain: w.Brain, ws: w.ws, blobs: w.blobsOf(w.snapshot),
		dir: filepath.Join(w.options.Root, index.Name(w.ws.Repo), vectorsDir),
	}
	for doc, blob := range n.blobs {
		p := w.snapshot.Path(uint32(doc))
		n.paths, n.keys = append(n.paths, p), append(n.keys, e.Space.KeyOf(extract.Version, p, blob))
	}
	var ok bool
	if n.file, ok = w.embedded.get(n.dir); ok {
		return n
	}
	var err error
	if n.file, err = vectors.Open(n.dir, e.Space); err != nil {
		w.options.Log.Warn("searches of a repository do without embeddings", "repo", workspace.Redact(w.ws.Repo), "error", err)
		return nil
	}
	w.embedded.put(n.dir, n.file)
	return n
}

// vectors returns the embeddings of the tree that are on this host.
func (n *nearby) vectors() *vectors.Set {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.set == nil || n.set.Generation() != n.file.Generation() {
		n.set = n.file.Select(n.keys)
	}
	return n.set
}

// near returns the documents that are close to a question by their embeddings, and why the search does
// without some or all of them.
func (n *nearby) near(ctx context.Context, text string, accept func(uint32) bool) (docs []rank.Scored, note string) {
	if err := n.file.Refresh(); err != nil {
		n.options.Log.WarnContext(ctx, "a search does without new embeddings", "repo", workspace.Redact(n.ws.Repo), "error", err)
	}
	set := n.vectors()
	switch {
	case set.Documents() == 0:
		return nil, "No file has an embedding yet; rgpt brain index computes them."
	case set.Documents() < len(n.keys):
		note = fmt.Sprintf("%d of %d files have no embedding yet; rgpt brain index computes them.", len(n.keys)-set.Documents(), len(n.keys))
	}
	vector, err := n.question(ctx, text)
	if err == nil {
		docs, err = set.Nearest(vector, rank.Tuned().Depth, accept)
	}
	if err != nil {
		n.options.Log.WarnContext(ctx, "a search does without embeddings", "repo", workspace.Redact(n.ws.Repo), "error", err)
		return nil, "The search did without embeddings: " + fault.Of(err).Message
	}
	return docs, note
}

// question returns the embedding of a question.
func (n *nearby) question(ctx context.Context, text string) ([]float32, error) {
	text = telemetry.Redact(text)
	if v, ok := n.questions.get(text); ok {
		return v, nil
	}
	var vector []float32
	ctx, cancel := context.WithTimeoutCause(ctx, n.options.Embeddings.Wait, fmt.Errorf(
		"the model did not answer within %s (brain.embeddings.wait)", n.options.Embeddings.Wait))
	defer cancel()
	_, err := n.options.Embeddings.Compute(ctx, n.ws.Repo, []string{text}, func(_ context.Context, _ int, list [][]float32) error {
		vector = list[0]
		return nil
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("compute the embedding of the question: %w", err)
	}
	n.questions.put(text, vector)
	return vector, nil
}

// embed computes the embeddings that the tree's files lack. What it cannot compute, searches do without.
func (n *nearby) embed(ctx context.Context) Embedded {
	e := n.options.Embeddings
	out := Embedded{Model: e.Space.Model}
	err := n.exclusively(func() error {
		limited := ctx
		if e.MaxTime > 0 {
			var cancel context.CancelFunc
			limited, cancel = context.WithTimeoutCause(ctx, e.MaxTime, fmt.Errorf("the time of an indexing was over (brain.embeddings.max_time: %s)", e.MaxTime))
			defer cancel()
		}
		err := n.complete(limited, &out)
		if cause := context.Cause(limited); err != nil && cause != nil {
			return cause
		}
		return err
	})
	if err == nil {
		err = n.file.Prune(n.keys)
	}
	out.Files = n.vectors().Documents()
	out.Missing = len(n.keys) - out.Files
	switch {
	case ctx.Err() != nil:
		out.Problem = "The indexing was interrupted; the next one continues."
	case err != nil:
		out.Problem = fault.Of(err).Message
		n.options.Log.WarnContext(ctx, "files of a repository have no embeddings", "repo", workspace.Redact(n.ws.Repo), "missing", out.Missing, "error", err)
	}
	n.remember(out)
	return out
}

// errBusy is the error for embeddings that another process of this host is computing.
var errBusy = errors.New("another process of this host is computing the embeddings of this repository")

// exclusively calls do unless another process of this host, or another goroutine, computes embeddings of
// the same repository: they would be paid for twice.
func (n *nearby) exclusively(do func() error) error {
	err := os.MkdirAll(n.dir, 0o700) // if the index was removed to save space
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(filepath.Join(n.dir, "computing"), os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return fmt.Errorf("lock the embeddings of a repository: %w", err)
	}
	defer file.Close() // which ends the lock
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return errBusy
		}
		return fmt.Errorf("lock the embeddings of a repository: %w", err)
	}
	return do()
}

// complete gets the missing embeddings from the database, and computes the rest.
func (n *nearby) complete(ctx context.Context, out *Embedded) error {
	if err := n.file.Refresh(); err != nil {
		return err
	}
	var missing []int
	for doc, k := range n.keys {
		if !n.file.Has(k) {
			missing = append(missing, doc)
		}
	}
	if n.options.Store != nil && len(missing) > 0 {
		var err error
		if missing, err = n.shared(ctx, missing, out); err != nil {
			return err
		}
	}
	left := n.options.Embeddings.budget()
	for part := range slices.Chunk(missing, embedBatch) {
		if err := n.compute(ctx, part, &left, out); err != nil {
			return err
		}
	}
	return nil
}

// shared takes embeddings from the database, and returns the documents for which it has none.
func (n *nearby) shared(ctx context.Context, missing []int, out *Embedded) (left []int, err error) {
	keys := make([][16]byte, len(missing))
	for i, doc := range missing {
		keys[i] = n.keys[doc]
	}
	var list []vectors.Entry
	flush := func() error {
		err := n.file.Add(list)
		out.Shared += len(list)
		list = nil
		return err
	}
	err = stored.Get(ctx, n.options.Store, keys, func(b stored.Blob) error {
		parts, err := vectors.Decode(b.Data)
		if err != nil {
			return nil //nolint:nilerr // they are computed again
		}
		if list = append(list, vectors.Entry{Key: b.Key, Parts: parts}); len(list) >= embedBatch {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	for _, doc := range missing {
		if !n.file.Has(n.keys[doc]) {
			left = append(left, doc)
		}
	}
	return left, err
}

// allowance is what an indexing may still use.
type allowance struct {
	e     *Embeddings
	texts int
	bytes int64
	cost  int64
}

func (e *Embeddings) budget() allowance { return allowance{e: e} }

// take takes the texts of a file, if the limits allow them.
func (a *allowance) take(texts []string) error {
	a.texts += len(texts)
	for _, t := range texts {
		a.bytes += int64(len(t))
	}
	switch e := a.e; {
	case e.MaxTexts > 0 && a.texts > e.MaxTexts:
		return fmt.Errorf("an indexing may embed %d texts (brain.embeddings.max_texts); the next one continues", e.MaxTexts)
	case e.MaxBytes > 0 && a.bytes > e.MaxBytes:
		return fmt.Errorf("an indexing may embed %d bytes (brain.embeddings.max_size); the next one continues", e.MaxBytes)
	case e.MaxMicroUSD > 0 && a.cost >= e.MaxMicroUSD:
		return fmt.Errorf("an indexing may cost $%.2f (brain.embeddings.max_cost_usd); the next one continues", float64(e.MaxMicroUSD)/1e6)
	}
	return nil
}

// compute computes and stores the embeddings of some documents.
func (n *nearby) compute(ctx context.Context, docs []int, left *allowance, out *Embedded) error {
	ids := make([]string, len(docs))
	for i, doc := range docs {
		ids[i] = n.blobs[doc]
	}
	var texts []string
	var starts []int // of each document, in texts
	var over error
	err := n.options.Workspaces.ReadBlobs(ctx, n.ws, ids, n.options.MaxFileSize, func(i int, content []byte) error {
		own := vectors.Texts(n.paths[docs[i]], content)
		for j := range own {
			own[j] = telemetry.Redact(own[j])
		}
		if over == nil {
			over = left.take(own)
		}
		if over == nil {
			starts, texts = append(starts, len(texts)), append(texts, own...)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if len(texts) == 0 {
		return over
	}
	packed := make([][]byte, 0, len(texts))
	used, err := n.options.Embeddings.Compute(ctx, n.ws.Repo, texts, func(_ context.Context, first int, list [][]float32) error {
		packed = packed[:min(first, len(packed))]
		for _, v := range list {
			p, err := vectors.Compact(v)
			if err != nil {
				return err
			}
			packed = append(packed, p)
		}
		return nil
	})
	left.cost += used.MicroUSD
	out.CostUSD = float64(left.cost) / 1e6
	out.Texts += len(packed)
	var list []vectors.Entry
	for i, start := range starts {
		end := len(texts)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		if end <= len(packed) {
			list = append(list, vectors.Entry{Key: n.keys[docs[i]], Parts: packed[start:end]})
		}
	}
	out.Computed += len(list)
	// What was paid for is kept, even if the caller is being cancelled.
	return errors.Join(err, n.keep(context.WithoutCancel(ctx), list), over)
}

// keep stores embeddings on this host and in the database.
func (n *nearby) keep(ctx context.Context, list []vectors.Entry) error {
	if err := n.file.Add(list); err != nil || n.options.Store == nil {
		return err
	}
	var blobs []stored.Blob
	for _, e := range list {
		blobs = append(blobs, stored.Blob{Key: e.Key, Data: vectors.Encode(e.Parts)})
	}
	return stored.Put(ctx, n.options.Store, blobs)
}

// state is what is remembered of the embeddings of a repository, for EmbeddingStats.
type state struct {
	Repo string
	Embedded
}

const stateFile = "state.json"

func (n *nearby) remember(e Embedded) {
	b, err := json.Marshal(state{Repo: workspace.Redact(n.ws.Repo), Embedded: e})
	if err == nil {
		err = os.WriteFile(filepath.Join(n.dir, stateFile), b, 0o600)
	}
	if err != nil {
		n.options.Log.Warn("the state of embeddings could not be written", "repo", workspace.Redact(n.ws.Repo), "error", err)
	}
}

// embeddingStats reads what is remembered of all repositories.
func (b *Brain) embeddingStats() EmbeddingStats {
	var out EmbeddingStats
	if b.options.Embeddings == nil {
		return out
	}
	out.Model = b.options.Embeddings.Space.Model
	names, err := filepath.Glob(filepath.Join(b.options.Root, "*", vectorsDir, stateFile))
	if err != nil {
		return out
	}
	for _, name := range names {
		var s state
		if content, err := os.ReadFile(name); err != nil || json.Unmarshal(content, &s) != nil || s.Model != out.Model {
			continue
		}
		out.Files, out.Missing = out.Files+s.Files, out.Missing+s.Missing
		if s.Problem != "" {
			out.Problems = append(out.Problems, struct {
				Repo string `json:"repo"`
				Text string `json:"text"`
			}{s.Repo, s.Problem})
		}
	}
	return out
}
