package modelclient

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/model"
)

// illustrated is a conversation in which a user and a tool show pictures.
func illustrated() model.Request {
	req := question()
	png := model.Image{MediaType: "image/png", Data: []byte("first")}
	req.Messages[1].Images = []model.Image{png, {MediaType: "image/tiff", Data: []byte("x")}}
	req.Messages = append(req.Messages,
		model.Message{Role: model.RoleAssistant, ToolCalls: []model.ToolCall{{ID: "a", Name: "look", Arguments: "{}"}, {ID: "b", Name: "look", Arguments: "{}"}}},
		model.Message{Role: model.RoleTool, ToolCallID: "a", Text: "the page", Images: []model.Image{{MediaType: "image/webp", Data: []byte("second")}}},
		model.Message{Role: model.RoleTool, ToolCallID: "b", Images: []model.Image{{MediaType: "image/jpeg", Data: []byte("third")}}})
	return req
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestPicturesReachAModelThatSees(t *testing.T) {
	t.Parallel()
	overEachWire(t, "rules:\n  - reply: {text: I see}\n", func(t *testing.T, c *Client, _ string, _ bool) {
		r, err := c.Complete(t.Context(), illustrated()) // the scripted model verifies their form
		require.NoError(t, err)
		require.Greater(t, r.Usage.PromptTokens, int64(3*700))
	})
	for name, tc := range map[string]struct {
		p        model.Provider
		response string
		want     string // in the last messages
	}{
		"chat": {chatWire, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`, `[
			{"role":"user","content":[{"type":"text","text":"Add a dark mode.\n\n[a picture is left out: it is neither PNG, JPEG, GIF nor WebP]"},{"type":"image_url","image_url":{"url":"data:image/png;base64,` + b64("first") + `"}}]},
			{"role":"assistant","tool_calls":[{"id":"a","type":"function","function":{"name":"look","arguments":"{}"}},{"id":"b","type":"function","function":{"name":"look","arguments":"{}"}}]},
			{"role":"tool","tool_call_id":"a","content":"the page\n\n[a picture is shown after the results of all calls]"},
			{"role":"tool","tool_call_id":"b","content":"[a picture is shown after the results of all calls]"},
			{"role":"user","content":[
				{"type":"text","text":"The picture in the result of call a:"},{"type":"image_url","image_url":{"url":"data:image/webp;base64,` + b64("second") + `"}},
				{"type":"text","text":"The picture in the result of call b:"},{"type":"image_url","image_url":{"url":"data:image/jpeg;base64,` + b64("third") + `"}}]}]`},
		"responses": {responsesWire, fineResponse, `[
			{"role":"user","content":[{"type":"input_text","text":"Add a dark mode.\n\n[a picture is left out: it is neither PNG, JPEG, GIF nor WebP]"},{"type":"input_image","detail":"auto","image_url":"data:image/png;base64,` + b64("first") + `"}]},
			{"type":"function_call","call_id":"a","name":"look","arguments":"{}"},{"type":"function_call","call_id":"b","name":"look","arguments":"{}"},
			{"type":"function_call_output","call_id":"a","output":[{"type":"input_text","text":"the page"},{"type":"input_image","detail":"auto","image_url":"data:image/webp;base64,` + b64("second") + `"}]},
			{"type":"function_call_output","call_id":"b","output":[{"type":"input_image","detail":"auto","image_url":"data:image/jpeg;base64,` + b64("third") + `"}]}]`},
		"anthropic": {anthropicWire, `{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}`, `[
			{"role":"user","content":[{"type":"text","text":"Add a dark mode.\n\n[a picture is left out: it is neither PNG, JPEG, GIF nor WebP]"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"` + b64("first") + `"},"cache_control":{"type":"ephemeral"}}]},
			{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"look","input":{}},{"type":"tool_use","id":"b","name":"look","input":{}}]},
			{"role":"user","content":[
				{"type":"tool_result","tool_use_id":"a","is_error":false,"content":[{"type":"text","text":"the page"},{"type":"image","source":{"type":"base64","media_type":"image/webp","data":"` + b64("second") + `"}}]},
				{"type":"tool_result","tool_use_id":"b","is_error":false,"content":[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"` + b64("third") + `"}}],"cache_control":{"type":"ephemeral"}}]}]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := askedOf(t, tc.p, model.CatalogueEntry{Capabilities: []model.Capability{model.CapabilityVision}}, tc.response, illustrated()).body
			list, _ := body["messages"].([]any)
			if list == nil {
				list = body["input"].([]any)
			}
			if name == "chat" {
				list = list[1:] // the system prompt
			}
			got, err := json.Marshal(list)
			require.NoError(t, err)
			require.JSONEq(t, tc.want, string(got))

			blind := fmt.Sprint(askedOf(t, tc.p, model.CatalogueEntry{}, tc.response, illustrated()).body)
			require.NotContains(t, blind, b64("first"))
			require.NotContains(t, blind, b64("second"))
			require.Contains(t, blind, "[a picture is left out, because you cannot see pictures: PNG, 5 bytes]")
			require.Contains(t, blind, "the page\n\n[a picture is left out, because you cannot see pictures: WEBP, 6 bytes]")
		})
	}
}

func TestEffortReachesModelsThatHaveIt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		p        model.Provider
		response string
		at       string
	}{
		"chat":      {chatWire, `{"choices":[{"message":{"content":"ok"},"finish_reason":"stop"}]}`, "reasoning_effort"},
		"responses": {responsesWire, fineResponse, "reasoning.effort"},
		"anthropic": {anthropicWire, `{"type":"message","content":[{"type":"text","text":"ok"}],"stop_reason":"end_turn"}`, "output_config.effort"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			effort := func(asked contract.Effort, can ...model.Capability) any {
				req := question()
				req.Choice.Effort = asked
				var at any = askedOf(t, tc.p, model.CatalogueEntry{Capabilities: can}, tc.response, req).body
				for _, key := range strings.Split(tc.at, ".") {
					fields, _ := at.(map[string]any)
					at = fields[key]
				}
				return at
			}
			for _, e := range []contract.Effort{contract.EffortLow, contract.EffortMedium, contract.EffortHigh} {
				require.EqualValues(t, e, effort(e, model.CapabilityEffort))
				require.Nil(t, effort(e))
			}
			require.Nil(t, effort("", model.CapabilityEffort), "the provider's default")
		})
	}
	overEachWire(t, "rules:\n  - reply: {text: fine}\n", func(t *testing.T, c *Client, _ string, _ bool) {
		req := question()
		req.Choice.Effort = contract.EffortHigh
		_, err := c.Complete(t.Context(), req)
		require.NoError(t, err)
		req.Choice.Effort = "hard" // not one of ours
		_, err = c.Complete(t.Context(), req)
		_ = requireFault(t, err, contract.ClassConfig, contract.CodeBadRequest)
	})
}
