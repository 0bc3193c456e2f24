package modelclient

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// smallModelEnv is the variable with the address of a real small model; scripts/small-model.sh serves
// one.
const smallModelEnv = "RGPT_SMALL_MODEL_URL"

// smallModel returns a client of a real model behind a server that others wrote.
func smallModel(t *testing.T) *Client {
	t.Helper()
	url := os.Getenv(smallModelEnv)
	if url == "" {
		t.Skipf("NOT TESTED with a real model: %s is not set. `make smallmodel` installs a small model, serves it and runs these tests", smallModelEnv)
	}
	c, err := New([]model.Provider{{Name: "p", Kind: model.KindCompatible, BaseURL: url}}, model.Catalogue{{
		Provider: "p", Model: "*", ContextWindow: 4096, MaxOutput: 512, Capabilities: []model.Capability{model.CapabilityJSONSchema},
	}}, Options{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// toSmallModel is a question that the model answers in the same way each time.
func toSmallModel(text string) model.Request {
	cold := 0.0
	return model.Request{
		Choice: contract.ModelChoice{Provider: "p", Model: "smollm2", Temperature: &cold}, MaxOutput: 200,
		Messages: []model.Message{{Role: model.RoleSystem, Text: "You are a helpful assistant. Answer in one short sentence."}, {Role: model.RoleUser, Text: text}},
	}
}

func TestARealModelChats(t *testing.T) {
	c := smallModel(t)
	req := toSmallModel("What is the capital of France?")
	var shown strings.Builder
	req.Delta = func(kind model.DeltaKind, piece string) {
		if kind == model.DeltaText {
			shown.WriteString(piece)
		}
	}
	first, err := c.Complete(t.Context(), req)
	require.NoError(t, err)
	require.Contains(t, first.Text, "Paris")
	require.Equal(t, first.Text, shown.String(), "it was shown while it was written")
	require.Equal(t, "stop", first.FinishReason)
	require.True(t, first.Streamed)
	require.Positive(t, first.Usage.PromptTokens)
	require.Positive(t, first.Usage.CompletionTokens)

	req.Delta = nil
	req.Messages = append(req.Messages, first.Message(), model.Message{Role: model.RoleUser, Text: "And in which country is it?"})
	second, err := c.Complete(t.Context(), req)
	require.NoError(t, err)
	require.Contains(t, second.Text, "France")
	require.Greater(t, second.Usage.PromptTokens, first.Usage.PromptTokens)

	c.providers["p"].complete.Store("smollm2", true) // as for a server that cannot stream
	whole, err := c.Complete(t.Context(), req)
	require.NoError(t, err)
	require.False(t, whole.Streamed)
	require.Equal(t, second.Text, whole.Text)
	require.Equal(t, second.Usage.PromptTokens, whole.Usage.PromptTokens, "streamed or not, the same is counted")
	require.False(t, whole.Estimated)
	t.Logf("%q, %q; %d and %d prompt tokens, estimated: %t", first.Text, second.Text, first.Usage.PromptTokens, second.Usage.PromptTokens, second.Estimated)
}

func TestARealModelAnswersBySchema(t *testing.T) {
	c := smallModel(t)
	type city struct {
		Name    string   `json:"name" jsonschema:"maxLength=40"`
		Country string   `json:"country" jsonschema:"maxLength=40"`
		Sights  []string `json:"sights" jsonschema:"maxItems=3"`
	}
	schema := model.SchemaOf[city]()
	schema.Name = "city"
	for _, streamed := range []bool{true, false} {
		if !streamed {
			c.providers["p"].complete.Store("smollm2", true) // as for a server that cannot stream
		}
		req := toSmallModel("Describe the city of Paris.")
		req.Schema = &schema
		r, err := c.Complete(t.Context(), req)
		require.NoError(t, err)
		require.Equal(t, streamed, r.Streamed)
		_, err = model.CheckJSON(schema, r.Text)
		require.NoError(t, err, r.Text)
		t.Log(r.Text)
	}
}

func TestARealModelThatReachesItsLimitIsTruncated(t *testing.T) {
	c := smallModel(t)
	req := toSmallModel("Count from one to one hundred.")
	req.MaxOutput = 8
	r, err := c.Complete(t.Context(), req)
	require.Equal(t, contract.CodeTruncated, fault.Of(err).Code, "%v", err)
	require.NotEmpty(t, r.Text)
	require.LessOrEqual(t, r.Usage.CompletionTokens, int64(8))
}
