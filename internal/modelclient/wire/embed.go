package wire

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"google.golang.org/genai"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// Embed makes one request for the embeddings of texts, with vectors of a length; 0: the model's. Its
// errors are those of Adapter.
//
// It does not judge what it received: there is a vector for each embedding of the response, in the order
// of the texts. It is empty where the response has none. Anything but a number becomes NaN, and a number
// that is too large becomes infinite.
func Embed(ctx context.Context, c *Call, texts []string, dimensions int) (model.Embeddings, error) {
	switch {
	case c.Provider.Kind.Messages():
		return model.Embeddings{}, fault.New(contract.ClassConfig, contract.CodeBadRequest,
			"Anthropic's API computes no embeddings; choose a model of another provider")
	case c.Provider.Kind == model.KindGemini:
		return geminiEmbed(ctx, c, texts, dimensions)
	default:
		return openAIEmbed(ctx, c, texts, dimensions)
	}
}

// openAIEmbed uses OpenAI's API, which most other providers and servers offer too.
func openAIEmbed(ctx context.Context, c *Call, texts []string, dimensions int) (model.Embeddings, error) {
	params := openai.EmbeddingNewParams{Model: c.Request.Choice.Model, Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: texts}}
	if dimensions > 0 {
		params.Dimensions = param.NewOpt(int64(dimensions))
	}
	var raw *http.Response
	client := openai.Client{} // as for chat completions
	if err := client.Post(ctx, "embeddings", params, &raw, openAIOptions(c)...); err != nil {
		return model.Embeddings{}, err
	}
	defer func() { _ = raw.Body.Close() }()
	var answer struct {
		Model string `json:"model"`
		Data  few[struct {
			Index  *int   `json:"index"` // some servers leave it out
			Vector vector `json:"embedding"`
		}] `json:"data"`
		Usage struct {
			Prompt int64 `json:"prompt_tokens"`
			Total  int64 `json:"total_tokens"`
		} `json:"usage"`
	}
	err := decodeEmbeddings(raw.Body, &answer)
	out := model.Embeddings{Model: answer.Model, Vectors: make([][]float32, len(answer.Data))}
	out.Usage.PromptTokens = cmp.Or(answer.Usage.Prompt, answer.Usage.Total)
	for i, d := range answer.Data {
		if d.Index != nil {
			i = *d.Index
		}
		if i >= 0 && i < len(out.Vectors) {
			out.Vectors[i] = d.Vector
		}
	}
	return out, err
}

func geminiEmbed(ctx context.Context, c *Call, texts []string, dimensions int) (model.Embeddings, error) {
	client, err := sdk()
	if err != nil {
		return model.Embeddings{}, fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown, "cannot create Google's client for models")
	}
	config := &genai.EmbedContentConfig{HTTPOptions: geminiOptions(c, nil, false)}
	config.HTTPOptions.ExtrasRequestProvider = nil // which replaces the conversation
	if dimensions > 0 {
		n := int32(dimensions) //nolint:gosec // the caller bounds it
		config.OutputDimensionality = &n
	}
	contents := make([]*genai.Content, len(texts))
	for i, text := range texts {
		contents[i] = genai.NewContentFromText(text, genai.RoleUser)
	}
	x := &exchange{call: c}
	_, err = client.Models.EmbedContent(context.WithValue(ctx, exchangeKey{}, x), c.Request.Choice.Model, contents, config)
	if x.response == nil {
		if err != nil && !x.sent && ctx.Err() == nil {
			err = fault.Wrap(err, contract.ClassConfig, contract.CodeBadRequest, "the request for model %q cannot be expressed in Gemini's API", c.Request.Choice.Model)
		}
		return model.Embeddings{}, err
	}
	defer func() { _ = x.response.Body.Close() }()
	var answer struct {
		Embeddings few[struct {
			Values vector `json:"values"`
		}] `json:"embeddings"`
		Usage struct {
			PromptTokens int64 `json:"promptTokenCount"`
		} `json:"usageMetadata"`
	}
	err = decodeEmbeddings(x.response.Body, &answer)
	out := model.Embeddings{Model: c.Request.Choice.Model}
	out.Usage.PromptTokens = answer.Usage.PromptTokens
	for _, e := range answer.Embeddings {
		out.Vectors = append(out.Vectors, e.Values)
	}
	return out, err
}

// decodeEmbeddings reads a response. With an error, it may have read a part.
func decodeEmbeddings(body io.Reader, into any) error {
	data, err := io.ReadAll(body)
	switch {
	case err != nil:
		return err
	case hasError(data):
		return &ReportedError{Body: data}
	}
	if err := json.Unmarshal(data, into); err != nil {
		return &MalformedError{err}
	}
	return nil
}

// maxEmbeddings limits the embeddings of one response: OpenAI accepts so many texts, and others fewer.
const maxEmbeddings = 2048

// few is a list, of which at most maxEmbeddings items, and one more, are read: all could need much more
// memory than the response. Items of another form are empty, and so is anything that is not a list.
type few[T any] []T

// UnmarshalJSON implements json.Unmarshaler. It never fails, because an error would hide the rest of the
// response, such as its usage.
func (l *few[T]) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if start, _ := d.Token(); start != json.Delim('[') {
		return nil
	}
	for d.More() && len(*l) <= maxEmbeddings {
		var item T
		_ = d.Decode(&item) // the data is JSON, so what fails is the form of the item
		*l = append(*l, item)
	}
	return nil
}

// vector is a list of numbers. What is not a number is NaN, and what is not a list is empty.
type vector []float32

// UnmarshalJSON implements json.Unmarshaler. It never fails, as that of few.
func (v *vector) UnmarshalJSON(data []byte) error {
	list, found := bytes.CutPrefix(data, []byte("["))
	list = bytes.TrimSpace(bytes.TrimSuffix(list, []byte("]")))
	if !found || len(list) == 0 {
		return nil
	}
	*v = make(vector, 0, bytes.Count(list, []byte(","))+1)
	for item := range bytes.SplitSeq(list, []byte(",")) {
		n, err := strconv.ParseFloat(string(bytes.TrimSpace(item)), 32)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range, it is infinite
			n = math.NaN()
		}
		*v = append(*v, float32(n))
	}
	return nil
}
