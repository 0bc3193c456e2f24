package verify

import (
	"fmt"

	"github.com/rocketgpt/orchestrator/internal/verify/output"

	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// liveOutput is what one command prints on its way to the log and to the caller.
type liveOutput struct {
	r    *run
	text *output.GoText // non-nil: stdout is go test -json and is shown as text
	seen bool
}

func (o *liveOutput) write(stream sandbox.Stream, chunk []byte) {
	o.seen = o.seen || len(chunk) > 0
	if o.text != nil && stream == sandbox.Stdout {
		chunk = o.text.Convert(chunk)
	}
	o.show(stream, chunk)
}

func (o *liveOutput) show(stream sandbox.Stream, chunk []byte) {
	if len(chunk) == 0 {
		return
	}
	o.r.log.add(chunk)
	if o.r.env.OnOutput != nil {
		o.r.env.OnOutput(stream, chunk)
	}
}

// close adds what a runner that does not stream has kept.
func (o *liveOutput) close(result sandbox.Result) {
	if !o.seen {
		o.write(sandbox.Stdout, result.Stdout)
		o.write(sandbox.Stderr, result.Stderr)
	}
	if o.text != nil {
		o.show(sandbox.Stdout, o.text.Rest())
	}
	fmt.Fprintf(&o.r.log, "\n[%s]\n", ended(result))
}

func (r *run) newOutput(inv checks.Invocation) *liveOutput {
	fmt.Fprintf(&r.log, "$ %s\n", fault.Clip(output.Clean(inv.String()), output.MaxMessage))
	o := &liveOutput{r: r}
	if inv.Format == output.FormatGoTest {
		o.text = &output.GoText{Hidden: inv.HiddenTest}
	}
	return o
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
