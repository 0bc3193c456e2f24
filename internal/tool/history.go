package tool

import (
	"context"
	_ "embed"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

//go:embed history.md
var historyDescription string

type historyParams struct {
	Path      string `json:"path" jsonschema:"minLength=1" jsonschema_description:"File or directory, as named in the base commit."`
	StartLine int    `json:"start_line,omitempty" jsonschema:"minimum=1" jsonschema_description:"First line whose origin to show."`
	EndLine   int    `json:"end_line,omitempty" jsonschema:"minimum=1" jsonschema_description:"Last one."`
}

func history() Tool {
	return define(Definition{Name: History, Description: historyDescription, ReadOnly: true, Long: true}, runHistory)
}

// maxBlamed limits the lines whose origin is shown.
const maxBlamed = 200

func runHistory(ctx context.Context, env Env, p historyParams) (Result, error) {
	if env.History == nil {
		return failed(contract.CodeForbidden, "The history of the repository is not available here."), nil
	}
	name, err := cleanPath(p.Path)
	if err != nil {
		return answer(Result{}, err)
	}
	q := HistoryQuery{Path: name, First: p.StartLine, Last: max(p.EndLine, p.StartLine)}
	switch {
	case p.EndLine > 0 && p.StartLine == 0:
		return failed(contract.CodeInvalidOutput, "end_line requires start_line."), nil
	case p.EndLine > 0 && p.EndLine < p.StartLine:
		return failed("", "end_line %d is before start_line %d.", p.EndLine, p.StartLine), nil
	case q.Last-q.First >= maxBlamed:
		return failed("", "At most %d lines can be traced at once.", maxBlamed), nil
	}
	text, known, err := env.History(ctx, q)
	if err != nil || !known {
		return Result{Text: text}, err
	}
	var b strings.Builder
	err = env.show(ctx, &b, []section{{text: cleanOutput([]byte(text))}})
	return Result{OK: true, Text: b.String()}, err
}
