package sandbox

import (
	"fmt"
	"sync"
)

// capture keeps the head and the tail of one output stream in bounded memory.
type capture struct {
	stream Stream
	limit  int64 // bytes to keep; 0 keeps all
	sink   *sink

	mu    sync.Mutex
	total int64
	head  []byte
	tail  []byte // a ring once full
	next  int    // next write position in the ring
}

// sink passes chunks of both streams to the caller one at a time.
type sink struct {
	mu sync.Mutex
	fn func(Stream, []byte)
}

func (s *sink) send(stream Stream, chunk []byte) {
	if s.fn == nil || len(chunk) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fn(stream, chunk)
}

// Write never fails and uses bounded memory: the command must not be able to stop the reader.
func (c *capture) Write(p []byte) (int, error) {
	c.sink.send(c.stream, p[:c.live(int64(len(p)))])
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total += int64(len(p))
	c.keep(p)
	return len(p), nil
}

// live returns how many of the next n bytes still go to OnOutput.
func (c *capture) live(n int64) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit == 0 {
		return n
	}
	return max(0, min(n, c.limit-c.total))
}

func (c *capture) keep(p []byte) {
	if c.limit == 0 {
		c.head = append(c.head, p...)
		return
	}
	room := (c.limit+1)/2 - int64(len(c.head))
	if room > 0 {
		n := min(room, int64(len(p)))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	c.keepTail(p)
}

func (c *capture) keepTail(p []byte) {
	size := int(c.limit / 2)
	if len(p) >= size {
		c.tail = append(c.tail[:0], p[len(p)-size:]...)
		c.next = 0
		return
	}
	if grow := min(size-len(c.tail), len(p)); grow > 0 {
		c.tail = append(c.tail, p[:grow]...)
		p = p[grow:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.next:], p)
		c.next = (c.next + n) % size
		p = p[n:]
	}
}

// written returns the number of bytes that the command has written so far.
func (c *capture) written() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}

// result joins head and tail, with a line between them that reports the dropped bytes.
func (c *capture) result() (out []byte, truncated bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	dropped := c.total - int64(len(c.head)+len(c.tail))
	out = append(out, c.head...)
	if dropped > 0 {
		out = fmt.Appendf(out, "\n[... %d bytes dropped ...]\n", dropped)
	}
	out = append(out, c.tail[c.next:]...)
	return append(out, c.tail[:c.next]...), dropped > 0
}
