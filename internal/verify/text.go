package verify

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Bounds on what hostile tools can make us keep.
const (
	maxFindings    = 500
	maxCases       = 20_000
	maxMessage     = 1_000   // bytes of a finding's or a case's message
	maxName        = 300     // bytes of a case's or a rule's name
	maxMessages    = 2 << 20 // bytes of all messages of a check's cases together
	maxLog         = 512 << 10
	maxReportBytes = 8 << 20
	maxReports     = 500
	maxArtifacts   = 200
	// maxOutput is what is kept of a stream that is a report itself.
	maxOutput = 16 << 20
	maxLine   = 64 << 10
)

// ansi matches the escape sequences that colour and move: CSI, OSC, and the
// short ones.
var ansi = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\-_])")

// clean makes one line or text of a tool fit for people: valid UTF-8, without
// terminal codes and control characters.
func clean(s string) string {
	s = strings.ToValidUTF8(s, "�")
	if strings.IndexByte(s, 0x1b) >= 0 {
		s = ansi.ReplaceAllString(s, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20, r >= 0x7f && r < 0xa0:
			return -1
		case r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x2069:
			return -1 // reorders the text around it
		}
		return r
	}, s)
}

// message is a text as findings and cases show it.
func message(s string) string {
	return fault.Clip(strings.TrimSpace(clean(bound(s, 8*maxMessage))), maxMessage)
}

// name is a text as names of cases and rules show it, in one line.
func name(s string) string {
	return fault.Clip(strings.Join(strings.Fields(clean(bound(s, 8*maxName))), " "), maxName)
}

// bound keeps the cost of cleaning a text within reason.
func bound(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

// firstLine is the first line that says something.
func firstLine(s string) string {
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			return line
		}
	}
	return ""
}

// lines cuts an output into lines without their ends. A line longer than any
// tool's is cut.
func lines(data []byte) []string {
	text := strings.ReplaceAll(strings.ToValidUTF8(string(data), "�"), "\r\n", "\n")
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = bound(all[i], maxLine)
	}
	return all
}

// headTail keeps the first and the last half of limit bytes.
type headTail struct {
	limit      int
	head, tail []byte
	total      int64
}

// Write makes it a writer; it never fails.
func (b *headTail) Write(p []byte) (int, error) {
	b.add(p)
	return len(p), nil
}

func (b *headTail) add(p []byte) {
	b.total += int64(len(p))
	if room := b.limit/2 - len(b.head); room > 0 {
		take := min(room, len(p))
		b.head = append(b.head, p[:take]...)
		p = p[take:]
	}
	b.tail = append(b.tail, p...)
	if keep := b.limit / 2; len(b.tail) > 2*keep {
		b.tail = append(b.tail[:0], b.tail[len(b.tail)-keep:]...)
	}
}

// Bytes returns what is kept, as valid UTF-8.
func (b *headTail) Bytes() []byte {
	tail := b.tail[max(0, len(b.tail)-b.limit/2):]
	out := append([]byte{}, b.head...)
	if dropped := b.total - int64(len(b.head)+len(tail)); dropped > 0 {
		out = fmt.Appendf(out, "\n[... %d bytes left out ...]\n", dropped)
	}
	return []byte(strings.ToValidUTF8(string(append(out, tail...)), "�"))
}
