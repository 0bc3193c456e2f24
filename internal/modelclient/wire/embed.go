package wire

import (
	"context"
	"io"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"google.golang.org/genai"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// Embed requests the embedding of a text. Its errors are those of Adapter.
func Embed(ctx context.Context, c *Call, text string) (model.Embedding, error) {
	switch {
	case c.Provider.Kind.Messages():
		return model.Embedding{}, fault.New(contract.ClassConfig, contract.CodeBadRequest, "Anthropic's API computes no embeddings")
	case c.Provider.Kind == model.KindGemini:
		return geminiEmbed(ctx, c, text)
	default:
		return openAIEmbed(ctx, c, text)
	}
}

func openAIEmbed(ctx context.Context, c *Call, text string) (model.Embedding, error) {
	var raw *http.Response
	client := openai.Client{} // as for chat completions
	params := openai.EmbeddingNewParams{Model: c.Request.Choice.Model, Input: openai.EmbeddingNewParamsInputUnion{OfString: param.NewOpt(text)}}
	if err := client.Post(ctx, "embeddings", params, &raw, openAIOptions(c)...); err != nil {
		return model.Embedding{}, err
	}
	defer func() { _ = raw.Body.Close() }()
	var answer openai.CreateEmbeddingResponse
	if err := decode(raw.Body, &answer); err != nil {
		return model.Embedding{}, err
	}
	out := model.Embedding{Model: answer.Model}
	out.Usage.PromptTokens = answer.Usage.PromptTokens
	if len(answer.Data) > 0 {
		out.Vector = answer.Data[0].Embedding
	}
	return out, nil
}

func geminiEmbed(ctx context.Context, c *Call, text string) (model.Embedding, error) {
	client, err := sdk()
	if err != nil {
		return model.Embedding{}, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "cannot create Google's client for models")
	}
	options := geminiOptions(c, nil, false)
	options.ExtrasRequestProvider = nil // which replaces the conversation
	x := &exchange{call: c}
	_, err = client.Models.EmbedContent(context.WithValue(ctx, exchangeKey{}, x), c.Request.Choice.Model, genai.Text(text), &genai.EmbedContentConfig{HTTPOptions: options})
	if x.response == nil {
		return model.Embedding{}, err
	}
	defer func() { _ = x.response.Body.Close() }()
	var answer struct {
		Embeddings []struct {
			Values []float64 `json:"values"`
		} `json:"embeddings"`
		Usage struct {
			PromptTokens int64 `json:"promptTokenCount"`
		} `json:"usageMetadata"`
	}
	if err := decode(x.response.Body, &answer); err != nil {
		return model.Embedding{}, err
	}
	out := model.Embedding{Model: c.Request.Choice.Model}
	out.Usage.PromptTokens = answer.Usage.PromptTokens
	if len(answer.Embeddings) > 0 {
		out.Vector = answer.Embeddings[0].Values
	}
	return out, nil
}

// decode reads a JSON document.
func decode(body io.Reader, v any) error {
	data, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	return unmarshal(data, v)
}
