package forgehttp

import (
	"bytes"
	"container/list"
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"sync"
)

// Limits of the responses that are kept for conditional requests.
const (
	maxCached      = 8 << 20   // bytes of all kept responses of a forge
	maxCachedEntry = 512 << 10 // bytes of one
)

// cache keeps the last responses with an ETag. A forge that confirms such a response does not send
// it again, and GitHub does not count the request towards the rate limit.
type cache struct {
	mu      sync.Mutex
	entries map[cacheKey]*list.Element
	order   *list.List // of *cached, the last used first
	size    int
}

// cacheKey identifies a request, including who sends it: the response to one credential is never
// the response to another.
type cacheKey [sha256.Size]byte

type cached struct {
	key    cacheKey
	header http.Header
	body   []byte
}

func newCache() *cache {
	return &cache{entries: map[cacheKey]*list.Element{}, order: list.New()}
}

// keyOf returns the key of a request with its credentials.
func keyOf(req *http.Request) cacheKey {
	sum := sha256.New()
	for _, part := range []string{req.URL.String(), req.Header.Get("Accept"), req.Header.Get("Authorization"), req.Header.Get("Private-Token")} {
		_, _ = io.WriteString(sum, part+"\x00")
	}
	return cacheKey(sum.Sum(nil))
}

// get returns a kept response, nil if there is none.
func (c *cache) get(key cacheKey) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.entries[key]
	if at == nil {
		return nil
	}
	c.order.MoveToFront(at)
	kept, _ := at.Value.(*cached)
	return kept
}

func (c *cache) put(one *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(c.entries[one.key])
	c.entries[one.key] = c.order.PushFront(one)
	c.size += len(one.body)
	for c.size > maxCached {
		c.remove(c.order.Back())
	}
}

func (c *cache) remove(at *list.Element) {
	if at == nil {
		return
	}
	kept, _ := c.order.Remove(at).(*cached)
	delete(c.entries, kept.key)
	c.size -= len(kept.body)
}

// response returns the kept response with the headers that the forge has sent now, such as those
// about rate limits.
func (e *cached) response(now *http.Response) *http.Response {
	out := *now
	out.Status, out.StatusCode = "200 OK", http.StatusOK
	out.Header = e.header.Clone()
	for name, values := range now.Header {
		if name != "Content-Length" && name != "Content-Type" {
			out.Header[name] = values
		}
	}
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(e.body)), int64(len(e.body))
	return &out
}

// keeping keeps a body that is read to its end.
type keeping struct {
	io.ReadCloser
	store func([]byte)
	read  []byte
	over  bool
}

// Read reads from the body.
func (k *keeping) Read(p []byte) (int, error) {
	n, err := k.ReadCloser.Read(p)
	if k.over = k.over || len(k.read)+n > maxCachedEntry; k.over {
		k.read = nil
	} else {
		k.read = append(k.read, p[:n]...)
	}
	if errors.Is(err, io.EOF) && !k.over && k.store != nil {
		k.store(k.read)
		k.store = nil
	}
	return n, err
}
