package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/vectors"
)

// textKey names a text.
type textKey [16]byte

// embedder computes embeddings at an endpoint of the OpenAI protocol, and keeps them on disk by their
// texts: most changes of a file leave its texts as they were.
type embedder struct {
	url   string
	file  string
	kept  map[textKey][]float32
	texts map[file][]textKey // of the files
	asked int
}

const (
	// perRequest is the number of texts of a request.
	perRequest = 256
	// model is the name of the model that is asked for.
	model = "all-minilm-l6-v2"
)

func keyOf(text string) textKey {
	sum := sha256.Sum256([]byte(text))
	return textKey(sum[:16])
}

// embed makes the vectors of texts available.
func (e *embedder) embed(ctx context.Context, texts []string) error {
	var missing []string
	for _, text := range texts {
		if key := keyOf(text); e.kept[key] == nil {
			e.kept[key] = []float32{}
			missing = append(missing, text)
		}
	}
	for part := range slices.Chunk(missing, perRequest) {
		vectors, err := e.ask(ctx, part)
		if err != nil {
			return fmt.Errorf("compute embeddings: %w", err)
		}
		for i, text := range part {
			e.kept[keyOf(text)] = vectors[i]
		}
		e.asked += len(part)
	}
	return nil
}

func (e *embedder) ask(ctx context.Context, texts []string) ([][]float32, error) {
	body, err := json.Marshal(map[string]any{"model": model, "input": texts})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, e.url+"/embeddings", bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Data []struct {
			Embedding []float32 `json:"embedding"`
		} `json:"data"`
	}
	err = json.NewDecoder(response.Body).Decode(&answer)
	if err != nil || len(answer.Data) != len(texts) {
		return nil, fmt.Errorf("%d vectors for %d texts, HTTP %d: %w", len(answer.Data), len(texts), response.StatusCode, err)
	}
	var all [][]float32
	for _, d := range answer.Data {
		all = append(all, d.Embedding)
	}
	return all, nil
}

// files embeds the files of a commit that have no vectors yet.
func (e *embedder) files(ctx context.Context, r *repository, c *commit) error {
	var all []string
	for _, f := range c.Files {
		if e.texts[f] != nil {
			continue
		}
		content, err := r.blob(f.Blob)
		if err != nil {
			return err
		}
		texts := vectors.Texts(f.Path, content[:min(len(content), maxContent)])
		for _, text := range texts {
			e.texts[f] = append(e.texts[f], keyOf(text))
		}
		all = append(all, texts...)
	}
	return e.embed(ctx, all)
}

func (e *embedder) load() error {
	e.kept, e.texts = map[textKey][]float32{}, map[file][]textKey{}
	f, err := os.Open(e.file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	return gob.NewDecoder(f).Decode(&e.kept)
}

func (e *embedder) save() error {
	if e.asked == 0 {
		return nil
	}
	f, err := os.Create(e.file)
	if err != nil {
		return err
	}
	return cmp.Or(gob.NewEncoder(f).Encode(e.kept), f.Close())
}

// nearest ranks the files of a commit by their most similar text, as the brain keeps its vectors.
func (e *embedder) nearest(c *commit, question []float32) ([]rank.Scored, error) {
	var all []rank.Scored
	for doc, f := range c.Files {
		best := -1.0
		for _, key := range e.texts[f] {
			packed, err := vectors.Compact(e.kept[key])
			if err != nil {
				return nil, err
			}
			similarity, err := vectors.Similarity(question, packed)
			if err != nil {
				return nil, err
			}
			best = max(best, similarity)
		}
		all = append(all, rank.Scored{Doc: uint32(doc), Score: best})
	}
	slices.SortFunc(all, func(a, b rank.Scored) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Doc, b.Doc))
	})
	return all[:min(len(all), rank.Tuned().Depth)], nil
}

// embedded are the commits of a repository that are measured with embeddings: the newest ones, which
// have most files in common.
const embedded = 20

// embeddings measures what embeddings add, on the newest commits of each repository.
func embeddings(ctx context.Context, o options, repositories []*prepared) error {
	halves := map[bool]table{false: embeddingTable(), true: embeddingTable()}
	for _, p := range repositories {
		t, err := embeddingsOf(ctx, o, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Entry.Repo, err)
		}
		printEmbeddings(p.Entry.Repo, t)
		for k := range t {
			for m := range t[k] {
				halves[p.Entry.Held][k][m].merge(*t[k][m])
			}
		}
	}
	printEmbeddings("TUNED", halves[false])
	printEmbeddings("HELD", halves[true])
	return nil
}

func embeddingTable() table {
	t := table{}
	for _, k := range kinds {
		t[k] = map[string]*mean{"without": {}, "with": {}, "alone": {}}
	}
	return t
}

func printEmbeddings(name string, t table) {
	for _, k := range kinds {
		fmt.Printf("%-26s %-8s n=%-4d  without %s  with %s  embeddings alone %s\n", name, k, t[k]["with"].n, t[k]["without"], t[k]["with"], t[k]["alone"])
	}
}

func embeddingsOf(ctx context.Context, o options, p *prepared) (table, error) {
	dir, err := o.where.Find(ctx, p.Entry.Repo)
	if err != nil {
		return nil, err
	}
	r, err := openRepository(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer r.close()
	e := &embedder{url: o.embed, file: filepath.Join(o.cache, strings.ReplaceAll(p.Entry.Repo, "/", "+")+".vectors")}
	if err := e.load(); err != nil {
		return nil, err
	}
	t := embeddingTable()
	for i := range p.Commits[:min(embedded, len(p.Commits))] {
		c := &p.Commits[i]
		if err := e.files(ctx, r, c); err != nil {
			return nil, err
		}
		if err := e.measure(ctx, t, c); err != nil {
			return nil, err
		}
	}
	return t, e.save()
}

// measure asks the questions of a commit.
func (e *embedder) measure(ctx context.Context, t table, c *commit) error {
	for k, text := range c.Questions {
		if err := e.embed(ctx, []string{text}); err != nil {
			return err
		}
		near, err := e.nearest(c, e.kept[keyOf(text)])
		if err != nil {
			return err
		}
		var alone []uint32
		for _, v := range near {
			alone = append(alone, v.Doc)
		}
		t[k]["alone"].add(measure(c.view, c.Wanted, alone))
		ranker := rank.New(c.view, c.past, rank.Tuned())
		without, err := ask(ranker, text)
		if err != nil {
			return err
		}
		t[k]["without"].add(measure(c.view, c.Wanted, without))
		with, err := ranker.Search(rank.Question{Text: text, Limit: maxRanks, Vectors: near})
		if err != nil {
			return err
		}
		t[k]["with"].add(measure(c.view, c.Wanted, docsOf(with)))
	}
	return nil
}
