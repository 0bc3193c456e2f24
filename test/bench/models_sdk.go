package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"
	"github.com/openai/openai-go/v3/shared"
)

// plainOptions are those of a program that uses only the SDK.
func plainOptions(url string) []option.RequestOption {
	return []option.RequestOption{option.WithBaseURL(url), option.WithAPIKey("key"), option.WithMaxRetries(0), option.WithHTTPClient(&http.Client{Transport: http.DefaultTransport})}
}

// toolParameters are those of the builder's tool, as the SDK wants them.
func toolParameters() (out map[string]any, err error) {
	return out, json.Unmarshal(readFileTool, &out)
}

// inTurn tells the scripted model the turn, without which all its messages have the same ids.
func inTurn(turn int) option.RequestOption {
	return option.WithHeader("X-RGPT-Turn", strconv.Itoa(turn+1))
}

// explained adds what the server said, which the error of the SDK leaves out.
func explained(err error) error {
	var said *openai.Error
	if errors.As(err, &said) {
		return fmt.Errorf("%w: %s", err, said.Message)
	}
	return err
}

// chatPlainly is the builder's conversation by openai-go's chat completions alone.
func chatPlainly(ctx context.Context, url, model string, run int64) ([]time.Duration, error) {
	parameters, err := toolParameters()
	if err != nil {
		return nil, err
	}
	client := openai.NewClient(plainOptions(url)...)
	params := openai.ChatCompletionNewParams{
		Model: model, MaxCompletionTokens: param.NewOpt[int64](maxOutput),
		StreamOptions: openai.ChatCompletionStreamOptionsParam{IncludeUsage: param.NewOpt(true)},
		Messages:      []openai.ChatCompletionMessageParamUnion{openai.SystemMessage(systemText(run)), openai.UserMessage(userText)},
		Tools: []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(shared.FunctionDefinitionParam{
			Name: "read_file", Description: param.NewOpt("Reads a file."), Parameters: parameters,
		})},
	}
	var took []time.Duration
	for turn := range conversationTurns {
		start := time.Now()
		stream := client.Chat.Completions.NewStreaming(ctx, params, inTurn(turn))
		var answer openai.ChatCompletionAccumulator
		for stream.Next() {
			answer.AddChunk(stream.Current())
		}
		if err := errors.Join(stream.Err(), stream.Close()); err != nil {
			return nil, explained(err)
		}
		took = append(took, time.Since(start))
		message := answer.Choices[0].Message
		params.Messages = append(params.Messages, message.ToParam())
		for i, call := range message.ToolCalls {
			params.Messages = append(params.Messages, openai.ToolMessage(resultText(turn, i), call.ID))
		}
	}
	return took, nil
}

// respondPlainly is the builder's conversation by openai-go's Responses alone.
func respondPlainly(ctx context.Context, url, model string, run int64) ([]time.Duration, error) {
	parameters, err := toolParameters()
	if err != nil {
		return nil, err
	}
	client := openai.NewClient(plainOptions(url)...)
	tool := responses.ToolParamOfFunction("read_file", parameters, false)
	tool.OfFunction.Description = param.NewOpt("Reads a file.")
	params := responses.ResponseNewParams{
		Model: model, MaxOutputTokens: param.NewOpt[int64](maxOutput), Store: param.NewOpt(false), Instructions: param.NewOpt(systemText(run)),
		Tools: []responses.ToolUnionParam{tool},
	}
	items := responses.ResponseInputParam{responses.ResponseInputItemParamOfMessage(userText, responses.EasyInputMessageRoleUser)}
	var took []time.Duration
	for turn := range conversationTurns {
		params.Input = responses.ResponseNewParamsInputUnion{OfInputItemList: items}
		start := time.Now()
		stream := client.Responses.NewStreaming(ctx, params, inTurn(turn))
		var answer responses.Response
		for stream.Next() {
			if event := stream.Current(); event.Type == "response.completed" {
				answer = event.Response
			}
		}
		if err := errors.Join(stream.Err(), stream.Close()); err != nil {
			return nil, explained(err)
		}
		took = append(took, time.Since(start))
		var results responses.ResponseInputParam
		for _, o := range answer.Output {
			switch o.Type {
			case "message":
				text := responses.ResponseOutputTextParam{Text: answer.OutputText(), Annotations: []responses.ResponseOutputTextAnnotationUnionParam{}}
				items = append(items, responses.ResponseInputItemParamOfOutputMessage(
					[]responses.ResponseOutputMessageContentUnionParam{{OfOutputText: &text}}, o.ID, responses.ResponseOutputMessageStatusCompleted))
			case "function_call":
				items = append(items, responses.ResponseInputItemParamOfFunctionCall(o.Arguments.OfString, o.CallID, o.Name))
				result := responses.ResponseInputItemParamOfFunctionCallOutput(resultText(turn, len(results)))
				result.OfFunctionCallOutput.CallID = param.NewOpt(o.CallID)
				results = append(results, result)
			}
		}
		if len(results) == 0 {
			return nil, errors.New("the scripted model called no tool")
		}
		items = append(items, results...)
	}
	return took, nil
}
