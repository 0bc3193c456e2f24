package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
)

// embedder computes embeddings at an endpoint of the OpenAI protocol, and keeps those of files on disk.
type embedder struct {
	url  string
	file string
	kept map[string][]float32
}

// perRequest is the number of texts of a request.
const perRequest = 64

func (e *embedder) embed(ctx context.Context, texts []string) ([][]float32, error) {
	var all [][]float32
	for len(texts) > 0 {
		n := min(perRequest, len(texts))
		body, err := json.Marshal(map[string]any{"model": "all-minilm-l6-v2", "input": texts[:n]})
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
			return nil, fmt.Errorf("compute embeddings: %w", err)
		}
		var answer struct {
			Data []struct {
				Embedding []float32 `json:"embedding"`
			} `json:"data"`
		}
		err = json.NewDecoder(response.Body).Decode(&answer)
		response.Body.Close()
		if err != nil || len(answer.Data) != n {
			return nil, fmt.Errorf("compute embeddings: %d vectors for %d texts, HTTP %d: %w", len(answer.Data), n, response.StatusCode, err)
		}
		for _, d := range answer.Data {
			all = append(all, d.Embedding)
		}
		texts = texts[n:]
	}
	return all, nil
}

// maxText is the number of bytes of a file's text: the model reads only a beginning.
const maxText = 400

// fileText is what is embedded of a file: its path, and what it defines.
func fileText(path string, content []byte) string {
	var b strings.Builder
	b.WriteString(strings.NewReplacer("/", " ", "_", " ", ".", " ").Replace(path) + "\n")
	e := extract.File(path, content)
	if len(e.Prose) > 0 {
		b.Write(content[e.Prose[0].Start:min(e.Prose[0].End, e.Prose[0].Start+maxText/3)])
		b.WriteByte('\n')
	}
	for _, s := range e.Symbols {
		if b.Len() > maxText {
			break
		}
		b.WriteString(s.Name + " ")
	}
	return strings.ToValidUTF8(b.String()[:min(b.Len(), maxText)], "")
}

// files embeds the files of a commit that have no vector yet.
func (e *embedder) files(ctx context.Context, r *repository, c *commit) error {
	var names, texts []string
	for _, f := range c.Files {
		name := f.Blob + " " + f.Path
		if e.kept[name] != nil {
			continue
		}
		content, err := r.blob(f.Blob)
		if err != nil {
			return err
		}
		names, texts = append(names, name), append(texts, fileText(f.Path, content[:min(len(content), maxContent)]))
	}
	vectors, err := e.embed(ctx, texts)
	for i, v := range vectors {
		e.kept[names[i]] = v
	}
	return err
}

func (e *embedder) load() error {
	e.kept = map[string][]float32{}
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
	f, err := os.Create(e.file)
	if err != nil {
		return err
	}
	return cmp.Or(gob.NewEncoder(f).Encode(e.kept), f.Close())
}

// nearest ranks the files of a commit by the similarity of their vectors.
func (e *embedder) nearest(c *commit, question []float32) []rank.Scored {
	var all []rank.Scored
	for doc, f := range c.Files {
		var sum float64
		for i, x := range e.kept[f.Blob+" "+f.Path] {
			sum += float64(x) * float64(question[i])
		}
		all = append(all, rank.Scored{Doc: uint32(doc), Score: sum})
	}
	slices.SortFunc(all, func(a, b rank.Scored) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Doc, b.Doc))
	})
	return all[:min(len(all), rank.Tuned().Depth)]
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
		ranker := rank.New(c.view, c.past, rank.Tuned())
		for k, text := range c.Questions {
			question, err := e.embed(ctx, []string{text})
			if err != nil {
				return nil, err
			}
			vectors := e.nearest(c, question[0])
			var alone []uint32
			for _, v := range vectors {
				alone = append(alone, v.Doc)
			}
			with, err := ranker.Search(rank.Question{Text: text, Limit: maxRanks, Vectors: vectors})
			if err != nil {
				return nil, err
			}
			without, err := ask(ranker, text)
			if err != nil {
				return nil, err
			}
			t[k]["with"].add(measure(c.view, c.Wanted, docsOf(with)))
			t[k]["without"].add(measure(c.view, c.Wanted, without))
			t[k]["alone"].add(measure(c.view, c.Wanted, alone))
		}
	}
	return t, e.save()
}
