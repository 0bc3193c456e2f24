package tool

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

//go:embed read_output.md
var readOutputDescription string

type readOutputParams struct {
	ID        string `json:"id" jsonschema:"minLength=1,maxLength=300" jsonschema_description:"Id of the output."`
	StartLine int    `json:"start_line,omitempty" jsonschema:"minimum=1" jsonschema_description:"First line, from 1."`
	EndLine   int    `json:"end_line,omitempty" jsonschema:"minimum=1" jsonschema_description:"Last line."`
	Offset    int    `json:"offset,omitempty" jsonschema:"minimum=0" jsonschema_description:"Instead of lines: byte position, for very long lines."`
}

func readOutput() Tool {
	return define(Definition{Name: ReadOutput, Description: readOutputDescription, ReadOnly: true}, readKept)
}

func readKept(ctx context.Context, env Env, p readOutputParams) (Result, error) {
	if p.Offset > 0 && (p.StartLine > 0 || p.EndLine > 0) {
		return failed(contract.CodeInvalidOutput, "Use either lines or an offset, but not both."), nil
	}
	if env.Kept == nil {
		return failed("", "No output is stored here."), nil
	}
	text, found, err := env.Kept(ctx, p.ID)
	if err != nil {
		return Result{}, err
	}
	if !found {
		return failed("", "There is no output with the id %q. Use an id from a result that was shortened or omitted.", fault.Clip(p.ID, 100)), nil
	}
	if p.Offset > 0 {
		return bytesFrom(text, p, env.Limits.PageBytes), nil
	}
	return linesFrom(text, p, env.Limits), nil
}

// bytesFrom returns a part of a text by its position.
func bytesFrom(text string, p readOutputParams, most int) Result {
	if p.Offset >= len(text) {
		return failed("", "The output is only %d bytes long.", len(text))
	}
	end := min(p.Offset+most, len(text))
	note := fmt.Sprintf("\n[bytes %d to %d of %d]\n", p.Offset, end, len(text))
	if end < len(text) {
		note = fmt.Sprintf("\n[bytes %d to %d of %d; continue with offset %d]\n", p.Offset, end, len(text), end)
	}
	return Result{OK: true, Text: strings.ToValidUTF8(text[p.Offset:end], "") + note}
}

// linesFrom returns lines of a text with their numbers.
func linesFrom(text string, p readOutputParams, l Limits) Result {
	start := max(p.StartLine, 1)
	if p.EndLine > 0 && p.EndLine < start {
		return failed("", "end_line %d is before start_line %d.", p.EndLine, start)
	}
	total := countLines([]byte(text))
	if start > total {
		return failed("", "The output has only %d lines; there is no line %d.", total, start)
	}
	var b strings.Builder
	n, last := 0, 0
	for line := range strings.Lines(text) {
		n++
		if n < start || p.EndLine > 0 && n > p.EndLine {
			continue
		}
		if b.Len()+min(len(line), l.LineBytes) > l.PageBytes && last > 0 {
			break
		}
		numbered(&b, n, line, l.LineBytes)
		last = n
	}
	if last < total && (p.EndLine == 0 || last < p.EndLine) {
		fmt.Fprintf(&b, "[lines %d to %d of %d; continue with start_line %d]\n", start, last, total, last+1)
	} else if start > 1 || last < total {
		fmt.Fprintf(&b, "[lines %d to %d of %d]\n", start, last, total)
	}
	return Result{OK: true, Text: b.String()}
}
