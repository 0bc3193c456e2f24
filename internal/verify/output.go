package verify

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// output is what one command prints on its way to the log and to the caller.
type output struct {
	r    *run
	text *goText // non-nil: stdout is go test -json and is shown as text
	seen bool
}

func (r *run) output(inv invocation) *output {
	fmt.Fprintf(&r.log, "$ %s\n", fault.Clip(clean(inv.String()), maxMessage))
	o := &output{r: r}
	if inv.format == FormatGoTest {
		o.text = &goText{hidden: inv.hidden}
	}
	return o
}

func (o *output) write(stream sandbox.Stream, chunk []byte) {
	o.seen = o.seen || len(chunk) > 0
	if o.text != nil && stream == sandbox.Stdout {
		chunk = o.text.convert(chunk)
	}
	o.show(stream, chunk)
}

func (o *output) show(stream sandbox.Stream, chunk []byte) {
	if len(chunk) == 0 {
		return
	}
	o.r.log.add(chunk)
	if o.r.env.OnOutput != nil {
		o.r.env.OnOutput(stream, chunk)
	}
}

// close adds what a runner that does not stream has kept.
func (o *output) close(result sandbox.Result) {
	if !o.seen {
		o.write(sandbox.Stdout, result.Stdout)
		o.write(sandbox.Stderr, result.Stderr)
	}
	if o.text != nil {
		o.show(sandbox.Stdout, o.text.rest())
	}
	fmt.Fprintf(&o.r.log, "\n[%s]\n", ended(result))
}

// ended says in words how a command ended.
func ended(r sandbox.Result) string {
	switch {
	case r.TimedOut:
		return "ended at the time limit"
	case r.LimitExceeded != "":
		return "ended at the limit of " + r.LimitExceeded
	case r.Signal != "":
		return "ended by the signal " + r.Signal
	}
	return fmt.Sprintf("exit code %d", r.ExitCode)
}

// goText turns the lines of go test -json, which come in any pieces, into what
// go test would print without -json.
type goText struct {
	line   []byte
	hidden string // test that is left out
}

func (g *goText) convert(chunk []byte) []byte {
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
		return append(out, g.rest()...)
	}
	return out
}

func (g *goText) rest() []byte {
	out := g.text(g.line)
	g.line = nil
	return out
}

func (g *goText) text(line []byte) []byte {
	var event struct{ Action, Test, Output string }
	if len(line) == 0 || line[0] != '{' || json.Unmarshal(line, &event) != nil || event.Action == "" {
		return bytes.Clone(line)
	}
	if g.hidden != "" && event.Test == g.hidden {
		return nil
	}
	return []byte(event.Output)
}
