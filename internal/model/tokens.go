package model

// EstimateTokens estimates the tokens of a request before it is sent, to reserve budgets and to
// check whether it fits the context window. It errs on the high side for English and code:
//
//	bytes of all texts, reasoning, tool calls and tool definitions / 4, plus a tenth,
//	plus 8 for each message, 8 for each tool call, 16 for each tool and 1600 for each picture, plus 3
//
// Bytes, not characters: scripts with long encodings also need more tokens.
func EstimateTokens(messages []Message, tools []Tool) int64 {
	const (
		perMessage, perCall, perTool, perPicture, perRequest = 8, 8, 16, 1600, 3
		bytesPerToken                                        = 4
	)
	size, fixed := int64(0), int64(perRequest)
	for _, m := range messages {
		size += int64(len(m.Text))
		if m.Reasoning != nil {
			size += int64(len(m.Reasoning.Items))
		}
		fixed += perMessage + perPicture*int64(len(m.Images))
		for _, c := range m.ToolCalls {
			size += int64(len(c.Name) + len(c.Arguments))
			fixed += perCall
		}
	}
	for _, t := range tools {
		size += int64(len(t.Name) + len(t.Description) + len(t.Parameters))
		fixed += perTool
	}
	tokens := (size + bytesPerToken - 1) / bytesPerToken
	return tokens + (tokens+9)/10 + fixed
}
