package modelclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient/wire"
)

// maxDimensions is the maximum length of a vector. The longest of any model in the catalogue has 3,072.
const maxDimensions = 1 << 14

// Embed makes one call that computes the embeddings of texts, all of them or none: there is a vector for
// each text, all vectors have the same length, Dimensions if it is set, and their numbers are finite.
//
// Its errors are those of Complete: with an LLM_ERROR, the result has the usage of a response that could
// not be used. Texts that are over the limits of a call, and a text that is longer than the model's
// window, are not sent: some providers would ignore the end of it.
func (c *Client) Embed(ctx context.Context, req model.EmbeddingRequest) (model.Embeddings, error) {
	x, err := c.newCall(req.Request())
	if err != nil {
		return model.Embeddings{}, err
	}
	if err := x.checkTexts(req); err != nil {
		return model.Embeddings{}, err
	}
	ctx, x.watch = startWatch(ctx, c.opts.IdleTimeout)
	defer x.watch.stop()
	if err := x.provider.acquire(ctx); err != nil {
		return model.Embeddings{}, x.explain(ctx, err)
	}
	defer x.provider.release()
	return x.embed(ctx, req)
}

// embed makes the call within its own deadline.
func (x *call) embed(ctx context.Context, req model.EmbeddingRequest) (model.Embeddings, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, x.timeout(), errDeadline)
	defer cancel()
	x.watch.ignoreSilence()
	start := time.Now()
	out, err := wire.Embed(ctx, x.wire(), req.Texts, req.Dimensions)
	if err != nil && x.body != nil && x.body.err != nil {
		err = x.body.err // the reason, not the parser's interpretation of it
	}
	if err == nil {
		err = checkVectors(out.Vectors, len(req.Texts), req.Dimensions)
	}
	out.Latency, out.Model = time.Since(start), fault.Clip(cmp.Or(out.Model, x.req.Choice.Model), maxModelName)
	if err == nil {
		x.accountEmbeddings(&out)
		return out, nil
	}
	explained := x.explain(ctx, err)
	var status *statusError
	var reported *wire.ReportedError
	if explained.Class != contract.ClassLLM || errors.As(err, &status) || errors.As(err, &reported) { // a rejected request costs nothing
		return model.Embeddings{}, explained
	}
	out.Vectors = nil
	x.accountEmbeddings(&out)
	return out, explained
}

// accountEmbeddings completes the usage: it estimates the tokens if the provider did not report them, and
// adds the cost.
func (x *call) accountEmbeddings(out *model.Embeddings) {
	u := model.Plausible(out.Usage)
	if u.PromptTokens == 0 {
		u.PromptTokens, out.Estimated = model.EstimateTokens(x.req.Messages, nil), true
	}
	u.Calls, u.MicroUSD, u.EstimatedPrice = 1, model.Cost(u, x.entry), !x.priced
	out.Usage = u
}

// checkTexts checks a request before it is sent.
func (x *call) checkTexts(req model.EmbeddingRequest) error {
	limits := x.entry.EmbeddingLimits(x.provider.Kind)
	if n := len(req.Texts); n == 0 || n > len(limits.Batch(req.Texts)) || req.Dimensions < 0 || req.Dimensions > maxDimensions {
		return fault.New(contract.ClassRuntime, contract.CodeUnknown,
			"%s: one call cannot compute embeddings of %d texts with %d dimensions; it may have up to %d texts with %d tokens together, and %d dimensions",
			x.who(), n, req.Dimensions, limits.Texts, limits.Tokens, maxDimensions)
	}
	for i, text := range req.Texts {
		if text == "" {
			return fault.New(contract.ClassRuntime, contract.CodeUnknown, "%s: text %d is empty, and an empty text has no embedding; leave it out", x.who(), i+1)
		}
		if n := model.EmbeddingTokens(text); x.entry.ContextWindow > 0 && n > x.entry.ContextWindow {
			return fault.New(contract.ClassLogic, contract.CodeTooLarge,
				"%s: text %d has about %d tokens, more than the %d of the model's window; divide it", x.who(), i+1, n, x.entry.ContextWindow)
		}
	}
	return nil
}

// checkVectors checks that there is a vector for each text, and that all have the same length, which is
// dimensions unless that is 0.
func checkVectors(vectors [][]float32, texts, dimensions int) error {
	if len(vectors) != texts {
		return &unusable{contract.CodeInvalidOutput, fmt.Sprintf("the response has %d embeddings of %d texts", len(vectors), texts)}
	}
	length := cmp.Or(dimensions, len(vectors[0]))
	for i, v := range vectors {
		switch {
		case len(v) == 0:
			return &unusable{contract.CodeInvalidOutput, fmt.Sprintf("the response has no embedding of text %d", i+1)}
		case len(v) > maxDimensions:
			return &unusable{contract.CodeInvalidOutput, fmt.Sprintf("the embedding of text %d has %d numbers, more than %d", i+1, len(v), maxDimensions)}
		case len(v) != length:
			return &unusable{contract.CodeInvalidOutput, fmt.Sprintf("the embedding of text %d has %d numbers instead of %d", i+1, len(v), length)}
		}
		for _, n := range v {
			if f := float64(n); math.IsNaN(f) || math.IsInf(f, 0) {
				return &unusable{contract.CodeInvalidOutput, fmt.Sprintf("the embedding of text %d has numbers that are not finite", i+1)}
			}
		}
	}
	return nil
}
