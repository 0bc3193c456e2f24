package wire

import (
	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
)

const (
	// leastThinking is the smallest budget of tokens for thinking that the API accepts.
	leastThinking = 1024
	// leastAnswer is the room that a budget leaves for the response.
	leastAnswer = 256
)

// setEffort sets how much the model thinks: by an effort, or, for older models, by a budget of tokens.
func setEffort(c *Call, p *anthropic.MessageNewParams) error {
	effort := contract.Effort(c.effort())
	if !c.Entry.Can(model.CapabilityThinkingBudget) {
		p.OutputConfig.Effort = anthropic.OutputConfigEffort(effort)
		return nil
	}
	if effort == "" {
		return nil
	}
	budget, known := thinkingBudgets[effort]
	if !known {
		return fault.New(contract.ClassConfig, contract.CodeBadRequest, "effort %q for model %q is not low, medium or high", effort, c.Request.Choice.Model)
	}
	tokens := thinkingTokens(int64(budget), p.MaxTokens)
	// The API neither thinks before a call that it is made to make, nor in a turn that has begun without.
	forced := c.Request.Strict && len(c.Request.Tools) > 0
	if tokens > 0 && !forced && !begunWithoutThinking(p.Messages) {
		p.Thinking = anthropic.ThinkingConfigParamOfEnabled(tokens)
	}
	return nil
}

// thinkingTokens fits a budget into the output limit, which includes it: at most half of it, unless that
// would be less than the API accepts. 0 means that it does not fit.
func thinkingTokens(budget, maxTokens int64) int64 {
	tokens := max(min(budget, maxTokens/2), leastThinking)
	if tokens+leastAnswer > maxTokens {
		return 0
	}
	return tokens
}

// begunWithoutThinking reports whether the model is in the middle of a turn, with the results of its
// tools, that it began without thinking: before the effort was set, or as another model.
func begunWithoutThinking(turns []anthropic.MessageParam) bool {
	begun := false
	for i := len(turns) - 1; i >= 0; i-- {
		content := turns[i].Content
		if turns[i].Role == anthropic.MessageParamRoleUser {
			if len(content) == 0 || content[0].OfToolResult == nil {
				break // the turn begins here
			}
			continue
		}
		begun = len(content) > 0 && content[0].OfThinking == nil && content[0].OfRedactedThinking == nil
	}
	return begun
}

// thinkingOptions lets a model with a budget think again after each result of a tool. The clouds accept
// that for some models only.
func thinkingOptions(c *Call, p *anthropic.MessageNewParams) []option.RequestOption {
	if p.Thinking.OfEnabled == nil || c.Provider.Kind != model.KindAnthropic {
		return nil
	}
	return []option.RequestOption{option.WithHeaderAdd("Anthropic-Beta", anthropic.AnthropicBetaInterleavedThinking2025_05_14)}
}
