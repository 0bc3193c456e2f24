package model

import (
	"net/http"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
)

// EmbeddingRequest is one call of a model that computes embeddings.
type EmbeddingRequest struct {
	Choice contract.ModelChoice
	// Texts has at least one text, and no more than one call may have: see EmbeddingLimits. No text is
	// empty.
	Texts []string
	// Dimensions is the length of the vectors; 0 means the model's default. Not every model accepts
	// another one.
	Dimensions int
	Headers    Identity
	// IdempotencyKey, Timeout and Observe are as in Request.
	IdempotencyKey string
	Timeout        time.Duration
	Observe        func(status int, header http.Header)
}

// Request returns the request in the form in which limits and budgets count it: its texts are its
// prompt, and its response has no tokens.
func (r EmbeddingRequest) Request() Request {
	out := Request{Choice: r.Choice, Headers: r.Headers, IdempotencyKey: r.IdempotencyKey, Timeout: r.Timeout, Observe: r.Observe}
	for _, text := range r.Texts {
		out.Messages = append(out.Messages, Message{Role: RoleUser, Text: text})
	}
	return out
}

// Embeddings are texts as vectors.
type Embeddings struct {
	Vectors   [][]float32    // of the texts, in their order; all have the same length, and finite numbers
	Usage     contract.Usage // with the price from the catalogue
	Estimated bool           // the provider did not report the usage
	Model     string         // as the provider named it
	Latency   time.Duration  // from the request to the end of the response
}

// EmbeddingLimits bound what one call for embeddings may have.
type EmbeddingLimits struct {
	Texts  int
	Tokens int64 // of all texts, as EmbeddingTokens estimates them
}

// EmbeddingLimits returns the limits of calls of the model at a kind of provider.
//
// Gemini accepts 100 texts. OpenAI accepts more, and 300,000 tokens, which an estimate of 100,000 keeps
// to for any text. Other servers differ; Hugging Face's accepts 32 texts unless configured otherwise.
func (e CatalogueEntry) EmbeddingLimits(kind Kind) EmbeddingLimits {
	l := EmbeddingLimits{Texts: 32, Tokens: 20_000}
	switch kind {
	case KindGemini:
		l.Texts = 100
	case KindOpenAI, KindAzure:
		l = EmbeddingLimits{Texts: 100, Tokens: 100_000}
	default: // those of other servers
	}
	if e.MaxTexts > 0 {
		l.Texts = e.MaxTexts
	}
	return l
}

// Batch returns the first texts, as many as fit into one call. A text that is over the limit of tokens
// by itself gets a call of its own.
func (l EmbeddingLimits) Batch(texts []string) []string {
	tokens := int64(0)
	for i, text := range texts {
		tokens += EmbeddingTokens(text)
		if i > 0 && (i >= l.Texts || tokens > l.Tokens) {
			return texts[:i]
		}
	}
	return texts
}

// EmbeddingTokens estimates the tokens of a text; see EstimateTokens.
func EmbeddingTokens(text string) int64 {
	return EstimateTokens([]Message{{Role: RoleUser, Text: text}}, nil)
}
