package tester

import (
	"fmt"
	"slices"
	"sync"

	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// loggedBytes limits the output of a setup in a log, which has its beginning and its end.
const loggedBytes = 4 << 20

// Output collects the beginning and the end of a command's output for its log. The zero value is
// empty and ready to use.
type Output struct {
	mu      sync.Mutex
	head    []byte
	tail    []byte
	dropped int64
}

// Add appends to the output, whose middle may be dropped.
func (o *Output) Add(chunk []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if room := loggedBytes/2 - len(o.head); room > 0 {
		n := min(room, len(chunk))
		o.head, chunk = append(o.head, chunk[:n]...), chunk[n:]
	}
	o.tail = append(o.tail, chunk...)
	if over := len(o.tail) - loggedBytes/2; over > loggedBytes/4 {
		o.dropped += int64(over)
		o.tail = slices.Clone(o.tail[over:])
	}
}

// Log returns the whole output, redacted.
func (o *Output) Log() []byte {
	o.mu.Lock()
	defer o.mu.Unlock()
	whole := slices.Clone(o.head)
	if o.dropped > 0 {
		whole = fmt.Appendf(whole, "\n[… %d bytes omitted …]\n", o.dropped)
	}
	return []byte(telemetry.Redact(string(append(whole, o.tail...))))
}
