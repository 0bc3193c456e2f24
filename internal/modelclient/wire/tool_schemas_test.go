package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/shared"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/model"
)

func TestToolsAreSentAsOpenAIsSDKWouldEncodeThem(t *testing.T) {
	t.Parallel()
	for _, parameters := range []string{
		"", `{"type":"object"}`, `{"type":"object","properties":null,"required":["a",null]}`,
		`{"type":"object","description":"a < b & c \u2028 \b \u0001 é \ud800","required":["path"],"properties":{
			"path":{"type":"string","minLength":1,"description":"a <file> & \u2028"},"n":{"type":"integer","default":1e21,"maximum":12345678901234567890}}}`,
	} {
		for _, strict := range []bool{false, true} {
			tool := model.Tool{Name: "read", Parameters: json.RawMessage(parameters)}
			schema, err := tool.Schema(strict)
			require.NoError(t, err)

			function := shared.FunctionDefinitionParam{Name: "read", Parameters: schema}
			if strict {
				function.Strict = param.NewOpt(true)
			}
			got, err := chatTool(tool, strict)
			require.NoError(t, err)
			require.Equal(t, bodyOf(t, openai.ChatCompletionFunctionTool(function)), bodyOf(t, got))
		}
	}
}

// bodyOf returns what the SDK sends.
func bodyOf(t *testing.T, v json.Marshaler) string {
	t.Helper()
	text, err := v.MarshalJSON()
	require.NoError(t, err)
	return string(text)
}

func TestTheSchemaOfAToolIsConvertedOnlyOnce(t *testing.T) {
	t.Parallel()
	converted := 0
	s := toolSchemas[string]{convert: func(t model.Tool, strict bool) (string, error) {
		if converted++; converted == 1 {
			return "", errors.New("no schema")
		}
		return fmt.Sprint(string(t.Parameters), strict), nil
	}}
	tool := model.Tool{Name: "read", Parameters: json.RawMessage("{}")}
	_, err := s.of(tool, true)
	require.Error(t, err)
	for range 3 {
		for _, strict := range []bool{false, true} {
			got, err := s.of(tool, strict)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint("{}", strict), got)
		}
	}
	require.Equal(t, 3, converted, "an error is not remembered")
}

func TestOnlySoManySchemasAreRemembered(t *testing.T) {
	t.Parallel()
	s := toolSchemas[int]{convert: func(t model.Tool, _ bool) (int, error) { return len(t.Parameters), nil }}
	for i := range 2*maxToolSchemas + 1 {
		got, err := s.of(model.Tool{Parameters: make(json.RawMessage, i)}, false)
		require.NoError(t, err)
		require.Equal(t, i, got)
		require.LessOrEqual(t, len(s.known), maxToolSchemas)
	}
}
