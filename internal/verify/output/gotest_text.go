package output

import (
	"bytes"
	"encoding/json"
)

// GoText converts the output of go test -json, in chunks of any size, into the output of go test
// without -json.
type GoText struct {
	line   []byte
	Hidden string // test that is left out
}

// Convert returns the text of the lines that a chunk completes.
func (g *GoText) Convert(chunk []byte) []byte {
	var out []byte
	for {
		n := bytes.IndexByte(chunk, '\n')
		if n < 0 {
			break
		}
		out = append(out, g.text(append(g.line, chunk[:n+1]...))...)
		g.line, chunk = g.line[:0], chunk[n+1:]
	}
	if g.line = append(g.line, chunk...); len(g.line) > 1<<20 {
		return append(out, g.Rest()...)
	}
	return out
}

// Rest returns the text of the incomplete last line.
func (g *GoText) Rest() []byte {
	out := g.text(g.line)
	g.line = nil
	return out
}

func (g *GoText) text(line []byte) []byte {
	var event struct{ Action, Test, Output string }
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &event) != nil || event.Action == "" {
		return bytes.Clone(line)
	}
	if g.Hidden != "" && event.Test == g.Hidden {
		return nil
	}
	return []byte(event.Output)
}
