package brain

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain/excerpt"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// Reranking says which model orders the first results of searches again, and within which limits.
type Reranking struct {
	// Model names the provider and the model.
	Model string
	// Files is the number of results that are ordered, at least 2. Excerpt is the number of bytes of
	// each that the model sees.
	Files, Excerpt int
	// Wait is how long a search waits for the order.
	Wait time.Duration
	// Order returns positions in files in their new order, and what the model call cost, even with an
	// error. Texts of files can influence it in any way, so the caller checks it.
	Order func(ctx context.Context, repo, question string, files []Candidate) (order []int, used contract.Usage, err error)
}

// Candidate is a result as the model sees it, without what looks like a secret.
type Candidate struct {
	Path string
	Text string // its parts that match best, as far as they fit; may be empty
}

// Reranked says what the model of brain.rerank did about an answer.
type Reranked struct {
	Model   string  `json:"model" doc:"provider and model"`
	Files   int     `json:"files" doc:"files that it was to order: the first ones that were found, which may be more than the answer has"`
	Applied bool    `json:"applied" doc:"the files are in its order; if not, a note says why"`
	CostUSD float64 `json:"cost_usd" doc:"what the model call cost, in US dollars; 0 if the same question about the same files was answered before"`
}

// keptOrders is the number of orders that stay in memory.
const keptOrders = 64

// reranker orders the results of searches in one tree again.
type reranker struct {
	*Brain
	repo string
}

// reranker returns what orders results again; nil if no model is configured.
func (w *work) reranker() *reranker {
	if w.options.Rerank == nil {
		return nil
	}
	return &reranker{Brain: w.Brain, repo: w.ws.Repo}
}

// Reranks reports whether searches wait for a model that orders their results again.
func (b *Brain) Reranks() bool { return b.options.Rerank != nil }

// found returns the number of results that the ranking must find for a query.
func (v View) found(q Query) int {
	limit := cmp.Or(q.Limit, DefaultResults)
	if v.reranker != nil && !q.KeepOrder {
		return max(limit, v.reranker.options.Rerank.Files)
	}
	return limit
}

// reranked returns the files in the model's order, or as they were if it gives none. The note says why.
func (v View) reranked(ctx context.Context, q Query, files []excerpt.File) (ordered []excerpt.File, did *Reranked, note string) {
	if v.reranker == nil || q.KeepOrder || len(files) < 2 {
		return files, nil, ""
	}
	r := v.reranker
	o := r.options.Rerank
	first := files[:min(len(files), o.Files)]
	did = &Reranked{Model: o.Model, Files: len(first)}
	order, used, err := r.order(ctx, telemetry.Redact(q.Text), r.candidates(first, q.Text))
	did.CostUSD = float64(used.MicroUSD) / 1e6
	if err == nil {
		err = complete(order, len(first))
	}
	if err != nil {
		r.options.Log.WarnContext(ctx, "a search keeps its order without the model's", "repo", workspace.Redact(r.repo), "error", err)
		return files, did, "The model of brain.rerank did not order the files: " + telemetry.Redact(fault.Of(err).Message)
	}
	did.Applied = true
	ordered = make([]excerpt.File, 0, len(files))
	for _, i := range order {
		f := first[i]
		f.Before = i + 1
		ordered = append(ordered, f)
	}
	return append(ordered, files[len(first):]...), did, ""
}

// candidates are files as the model sees them.
func (r *reranker) candidates(files []excerpt.File, question string) []Candidate {
	briefs := excerpt.Briefs(files, question, r.options.Rerank.Excerpt, telemetry.Redact)
	list := make([]Candidate, len(files))
	for i, f := range files {
		list[i] = Candidate{Path: f.Path, Text: briefs[i]}
	}
	return list
}

// order returns the model's order, which it gives once for the same question about the same texts.
func (r *reranker) order(ctx context.Context, question string, files []Candidate) (order []int, used contract.Usage, err error) {
	key := orderKey(r.repo, question, files)
	if order, ok := r.orders.get(key); ok {
		return order, used, nil
	}
	wait := r.options.Rerank.Wait
	ctx, cancel := context.WithTimeoutCause(ctx, wait, fault.New(contract.ClassInfra, contract.CodeTimeout,
		"it did not answer within %s (brain.rerank.wait)", wait))
	defer cancel()
	order, used, err = r.options.Rerank.Order(ctx, r.repo, question, files)
	switch {
	case err == nil && complete(order, len(files)) == nil:
		r.orders.put(key, order)
	case err != nil && ctx.Err() != nil:
		err = context.Cause(ctx)
	}
	return order, used, err
}

// orderKey identifies what a model is asked. The repository is a part of it because its project pays.
func orderKey(repo, question string, files []Candidate) string {
	hash := sha256.New()
	add := func(text string) { fmt.Fprintf(hash, "%d:%s", len(text), text) }
	add(repo)
	add(question)
	for _, f := range files {
		add(f.Path)
		add(f.Text)
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// complete returns an error unless an order has each of n positions once. An order that leaves files out
// is not used in part: a text in a file may have caused that.
func complete(order []int, n int) error {
	bad := func(format string, args ...any) error {
		return fault.New(contract.ClassLLM, contract.CodeInvalidOutput, format, args...)
	}
	seen := make([]bool, n)
	for _, i := range order {
		switch {
		case i < 0 || i >= n:
			return bad("its order names file %d, but there are only %d", i+1, n)
		case seen[i]:
			return bad("its order names file %d twice", i+1)
		}
		seen[i] = true
	}
	if len(order) < n {
		return bad("its order names only %d of %d files", len(order), n)
	}
	return nil
}
