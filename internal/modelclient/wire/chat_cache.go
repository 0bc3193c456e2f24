package wire

import (
	"strings"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/param"

	"github.com/rocketgpt/orchestrator/internal/model"
)

// needsMarks reports whether a model reads a prompt from its provider's cache only up to breakpoints in
// the request: Anthropic's models at OpenRouter, which passes the breakpoints on.
func needsMarks(c *Call) bool {
	return c.Provider.Kind == model.KindOpenRouter && strings.HasPrefix(c.Request.Choice.Model, "anthropic/")
}

// cacheMark is a breakpoint, as OpenRouter has it in tools and in parts of messages.
var cacheMark = map[string]any{"cache_control": map[string]any{"type": "ephemeral"}}

// markChatForCache sets the same breakpoints as markForCache, at most the four that Anthropic allows:
// after the tools, after the system prompt, and where the model's last two turns begin.
func markChatForCache(p *openai.ChatCompletionNewParams) {
	if n := len(p.Tools); n > 0 {
		p.Tools[n-1].OfFunction.SetExtraFields(cacheMark)
	}
	system, left := -1, 2
	for i := range p.Messages {
		if p.Messages[i].OfSystem == nil {
			break
		}
		system = i
	}
	for i := len(p.Messages) - 1; i > system && left > 0; i-- {
		if i+1 < len(p.Messages) && p.Messages[i+1].OfAssistant == nil {
			continue // the same side goes on
		}
		if markMessage(&p.Messages[i]) {
			left--
		}
	}
	if system >= 0 {
		markMessage(&p.Messages[system])
	}
}

// markMessage sets a breakpoint at the last text of a message, if it has one that is not the model's.
func markMessage(m *openai.ChatCompletionMessageParamUnion) bool {
	text := func(t param.Opt[string]) []openai.ChatCompletionContentPartTextParam {
		part := openai.ChatCompletionContentPartTextParam{Text: t.Value}
		part.SetExtraFields(cacheMark)
		return []openai.ChatCompletionContentPartTextParam{part}
	}
	switch {
	case m.OfSystem != nil && m.OfSystem.Content.OfString.Value != "":
		*m = openai.SystemMessage(text(m.OfSystem.Content.OfString))
	case m.OfTool != nil && m.OfTool.Content.OfString.Value != "":
		*m = openai.ToolMessage(text(m.OfTool.Content.OfString), m.OfTool.ToolCallID)
	case m.OfUser != nil && m.OfUser.Content.OfString.Value != "":
		part := text(m.OfUser.Content.OfString)[0]
		*m = openai.UserMessage([]openai.ChatCompletionContentPartUnionParam{{OfText: &part}})
	case m.OfUser != nil:
		parts := m.OfUser.Content.OfArrayOfContentParts
		for i := len(parts) - 1; i >= 0; i-- {
			if parts[i].OfText != nil {
				parts[i].OfText.SetExtraFields(cacheMark)
				return true
			}
		}
		return false
	default:
		return false
	}
	return true
}
