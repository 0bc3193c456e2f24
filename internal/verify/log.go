package verify

import (
	"fmt"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// liveOutput passes the output of one command to the log and to the caller.
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
	_, _ = o.r.log.Write(chunk) // it never fails
	if o.r.env.OnOutput != nil {
		o.r.env.OnOutput(stream, chunk)
	}
}

// close writes the output of a runner that does not stream.
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

// ended describes how a command ended.
func ended(r sandbox.Result) string {
	switch {
	case r.TimedOut:
		return "stopped at the time limit"
	case r.LimitExceeded != "":
		return "stopped at the " + r.LimitExceeded + " limit"
	case r.Signal != "":
		return "terminated by signal " + r.Signal
	}
	return fmt.Sprintf("exit code %d", r.ExitCode)
}

// headTail keeps the first and the last half of limit bytes.
type headTail struct {
	limit      int
	head, tail []byte
	total      int64
}

// Write implements io.Writer; it never fails.
func (b *headTail) Write(p []byte) (int, error) {
	n := len(p)
	b.total += int64(n)
	if room := b.limit/2 - len(b.head); room > 0 {
		take := min(room, len(p))
		b.head = append(b.head, p[:take]...)
		p = p[take:]
	}
	b.tail = append(b.tail, p...)
	if keep := b.limit / 2; len(b.tail) > 2*keep {
		b.tail = append(b.tail[:0], b.tail[len(b.tail)-keep:]...)
	}
	return n, nil
}

// Bytes returns the kept bytes as valid UTF-8.
func (b *headTail) Bytes() []byte {
	tail := b.tail[max(0, len(b.tail)-b.limit/2):]
	out := append([]byte{}, b.head...)
	if dropped := b.total - int64(len(b.head)+len(tail)); dropped > 0 {
		out = fmt.Appendf(out, "\n[... %d bytes omitted ...]\n", dropped)
	}
	return []byte(strings.ToValidUTF8(string(append(out, tail...)), "�"))
}

// Limits on the stored data of a check.
const (
	maxMessages  = 2 << 20 // total bytes of the messages of its cases
	maxLog       = 512 << 10
	maxReports   = 500
	maxArtifacts = 2000     // listed; the caller's limits decide which of them are stored
	maxOutput    = 16 << 20 // bytes of a stream that is itself a report
)
