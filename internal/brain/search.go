package brain

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/brain/excerpt"
	"github.com/rocketgpt/orchestrator/internal/brain/rank"
	"github.com/rocketgpt/orchestrator/internal/brain/repomap"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/glob"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// View is one indexed commit of a repository, as Search and Map read it.
type View struct {
	// Corpus is the index of the commit's tree.
	Corpus rank.Corpus
	// Past is the history up to the commit; nil if there is none.
	Past rank.Past
	// Contents returns the contents of documents. A content that cannot be shown is nil.
	Contents func(ctx context.Context, docs []uint32) ([][]byte, error)

	nearby   *nearby   // finds documents by their embeddings; nil: none
	reranker *reranker // orders results again; nil: nothing does
}

// Query is what Search looks for.
type Query struct {
	// Text is the question: words, names, an error message, a stack trace.
	Text string
	// Paths limits the results to paths that match this glob, or to a directory; empty: all. A glob
	// without a slash matches in all directories.
	Paths string
	// Lang limits the results to a language, such as go or typescript, or to an extension, such as ts;
	// empty: all.
	Lang string
	// Limit is the number of files; 0: DefaultResults.
	Limit int
	// Tokens is the size of Answer.Text; 0: excerpt.DefaultTokens.
	Tokens int
	// Explain says in Answer.Text why each file was found.
	Explain bool
	// Vectors are documents close to the question by their embeddings, best first. nil: those that the
	// view finds, if it has embeddings.
	Vectors []rank.Scored
	// KeepOrder prevents the model of brain.rerank, if there is one, from ordering the results again.
	KeepOrder bool
}

// The limits of a query.
const (
	// DefaultResults is the number of files that a query finds unless it says otherwise.
	DefaultResults = 10
	// MaxResults is the largest number of files.
	MaxResults = 100
	// MinTokens and MaxTokens limit the size of an answer and of a map.
	MinTokens = 100
	MaxTokens = 100_000
)

// Found is a file that Search found.
type Found struct {
	Path  string  `json:"path"`
	Lang  string  `json:"lang"`
	Score float64 `json:"score" doc:"what the signals give together; files that a model ordered again are not in this order"`
	// Why says which signals found it.
	Why   []Reason    `json:"why"`
	Parts []FoundPart `json:"parts"`
}

// Reason is a signal that found a file, and the file's rank by this signal.
type Reason struct {
	Signal string `json:"signal"`
	Rank   int    `json:"rank"`
	Detail string `json:"detail,omitempty"`
}

// FoundPart is a range of lines that answers the query.
type FoundPart struct {
	Line    int    `json:"line"`
	EndLine int    `json:"end_line"`
	Symbol  string `json:"symbol,omitempty"`
	// Lines are its lines, which may be cut, without control characters. Text in JSON has them.
	Lines []string `json:"-"`
}

// Answer is what Search found.
type Answer struct {
	// Files are the found files, best first.
	Files []Found `json:"files"`
	// Text shows their best parts with line numbers, within the query's tokens.
	Text string `json:"text"`
	// Commit is the commit that was searched, if the caller named one.
	Commit string `json:"commit" doc:"commit that was searched"`
	// Rerank is nil if no model is configured, if the query does not want it, or if fewer than two files
	// were found.
	Rerank *Reranked `json:"rerank,omitempty" doc:"what the model did that orders the files again, if one is configured (brain.rerank.model)"`
	// Notes say what is worth knowing about the result, such as words that occur nowhere, or what the
	// search had to do without.
	Notes []string `json:"notes" doc:"what is worth knowing about the result"`
}

// withoutEmbeddings is the note of an explained answer of a view without embeddings.
const withoutEmbeddings = "No embeddings were used: brain.embeddings.model is not set, or those on this host cannot be read (see the log)."

// Check returns an error that says what is wrong with a query.
func (q Query) Check() error {
	invalid := func(format string, args ...any) error {
		return fault.New(contract.ClassHuman, contract.CodeInvalidConfig, format, args...)
	}
	switch {
	case strings.TrimSpace(q.Text) == "":
		return invalid("search the repository: the query is empty; enter words, names or an error message")
	case q.Limit < 0 || q.Limit > MaxResults:
		return invalid("search the repository: %d results were requested; enter a number from 1 to %d", q.Limit, MaxResults)
	}
	if q.Paths != "" {
		if err := glob.Check(q.Paths); err != nil {
			return invalid("search the repository: the glob %q %v", q.Paths, err)
		}
	}
	return CheckTokens(q.Tokens)
}

// CheckTokens returns an error if an answer or a map cannot have this size.
func CheckTokens(tokens int) error {
	if tokens != 0 && (tokens < MinTokens || tokens > MaxTokens) {
		return fault.New(contract.ClassHuman, contract.CodeInvalidConfig,
			"%d tokens were requested; enter a number from %d to %d", tokens, MinTokens, MaxTokens)
	}
	return nil
}

// Search returns the files that matter for a query, best first. The same view and the same query give
// the same answer, unless a model takes part. A model that fails is not an error: a note says so.
func (v View) Search(ctx context.Context, q Query) (Answer, error) {
	if err := q.Check(); err != nil {
		return Answer{}, err
	}
	accept := v.accept(q)
	var notes []string
	if v.nearby == nil && q.Vectors == nil && q.Explain {
		notes = append(notes, withoutEmbeddings)
	}
	if v.nearby != nil && q.Vectors == nil {
		var note string
		if q.Vectors, note = v.nearby.near(ctx, q.Text, accept); note != "" {
			notes = append(notes, note)
		}
	}
	began, asked := time.Now(), time.Duration(0)
	defer func() { telemetry.BrainQueried(time.Since(began) - asked) }() // without the time of the model
	text, more, err := v.understood(ctx, q)
	if err != nil {
		return Answer{}, fmt.Errorf("search the index: %w", err)
	}
	results, err := rank.New(v.Corpus, v.Past, rank.Tuned()).Search(rank.Question{
		Text: text, Accept: accept, Limit: v.found(q), Vectors: q.Vectors,
	})
	if err != nil {
		return Answer{}, fmt.Errorf("search the index: %w", err)
	}
	files, err := v.files(ctx, results)
	if err != nil {
		return Answer{}, err
	}
	found := time.Now()
	files, reranked, note := v.reranked(ctx, q, files)
	asked = time.Since(found)
	if note != "" {
		notes = append(notes, note)
	}
	files = files[:min(len(files), cmp.Or(q.Limit, DefaultResults))]
	answer := Answer{Files: []Found{}, Text: excerpt.Text(files, text, q.Tokens, q.Explain), Rerank: reranked, Notes: slices.Concat([]string{}, v.ofFilter(q), notes, more)}
	ranges := excerpt.Ranges(files, text)
	for i, f := range files {
		found := Found{Path: f.Path, Lang: v.Corpus.Lang(f.Doc), Score: f.Score, Parts: []FoundPart{}}
		for _, r := range f.Reasons {
			found.Why = append(found.Why, Reason{Signal: r.Signal.String(), Rank: r.Rank, Detail: r.Detail})
		}
		for _, r := range ranges[i] {
			found.Parts = append(found.Parts, FoundPart{Line: r.First, EndLine: r.Last, Symbol: r.Symbol, Lines: r.Lines})
		}
		answer.Files = append(answer.Files, found)
	}
	return answer, nil
}

// accept returns which documents a query may find; nil: all.
func (v View) accept(q Query) func(doc uint32) bool {
	if q.Paths == "" && q.Lang == "" {
		return nil
	}
	inLang, inPaths := v.inLang(q.Lang), inPaths(q.Paths)
	return func(doc uint32) bool {
		return (q.Lang == "" || inLang(doc)) && (q.Paths == "" || inPaths(v.Corpus.Path(doc)))
	}
}

// files adds the contents and extracts of results.
func (v View) files(ctx context.Context, results []rank.Result) ([]excerpt.File, error) {
	docs := make([]uint32, len(results))
	for i, r := range results {
		docs[i] = r.Doc
	}
	contents, err := v.Contents(ctx, docs)
	if err != nil {
		return nil, fmt.Errorf("read the found files: %w", err)
	}
	files := make([]excerpt.File, len(results))
	for i, r := range results {
		e, err := v.Corpus.Extract(r.Doc)
		if err != nil {
			return nil, fmt.Errorf("read what is known of %s: %w", r.Path, err)
		}
		files[i] = excerpt.File{Result: r, Extract: e, Content: contents[i]}
	}
	return files, nil
}

const (
	// mapFiles is the number of files that a map can show.
	mapFiles = 400
	// mapNamed is the number of definitions that a map shows because its goal names them, and sameName
	// the number of those with the same name.
	mapNamed, sameName = 16, 3
)

// Map describes the repository within a number of tokens (0: repomap.DefaultTokens): first what matters
// for a goal, or without a goal, what matters most.
func (v View) Map(goal string, tokens int) (string, error) {
	if err := CheckTokens(tokens); err != nil {
		return "", err
	}
	r := rank.New(v.Corpus, v.Past, rank.Tuned())
	files := r.Central(mapFiles)
	if strings.TrimSpace(goal) == "" {
		return repomap.Map(v.Corpus, files, nil, goal, tokens)
	}
	central := files
	files, err := r.Search(rank.Question{Text: goal, Limit: mapFiles})
	if err != nil {
		return "", fmt.Errorf("search the index: %w", err)
	}
	// What the goal does not reach follows: a goal in general words finds little.
	for _, c := range central {
		if !slices.ContainsFunc(files, func(f rank.Result) bool { return f.Doc == c.Doc }) && len(files) < mapFiles {
			files = append(files, c)
		}
	}
	named, err := r.Definitions(goal, sameName, mapNamed)
	if err != nil {
		return "", fmt.Errorf("find the definitions that the goal names: %w", err)
	}
	return repomap.Map(v.Corpus, files, named, goal, tokens)
}
