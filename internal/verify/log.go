package verify

import (
	"fmt"
	"strings"
)

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
