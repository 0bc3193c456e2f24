package scripted

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
	"time"
)

// segment is a part of a request as a provider's cache sees it: a tool, a system text, or a message
// or a block of one.
type segment struct {
	text  []byte // its JSON
	chars int    // of what it says
	mark  bool   // a breakpoint follows: Anthropic caches the request up to here
}

// Rules of the providers' caches.
const (
	cacheMinimum = 1024 // tokens of the shortest prefix that is cached
	cacheStep    = 128  // OpenAI counts cached tokens in steps

	oldGeminiMinimum = 2048 // of Gemini 2.5
	geminiMinimum    = 4096 // of Gemini 3

	cacheLookback = 20 // segments before a breakpoint that Anthropic looks at
	cacheLifetime = 5 * time.Minute
	maxCached     = 100_000 // prefixes; the oldest are forgotten all at once
)

// promptCache simulates the caches of providers, as they document them: Anthropic caches prefixes up
// to the breakpoints of a request, OpenAI and Gemini any long prefix.
type promptCache struct {
	mu    sync.Mutex
	until map[[32]byte]time.Time // by the digest of a prefix
}

// account returns how many tokens of a request are read from the cache and written to it.
func (c *promptCache) account(r *chatRequest) (read, written int64) {
	digests, sizes := r.prefixes()
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if c.until == nil || len(c.until) > maxCached {
		c.until = map[[32]byte]time.Time{}
	}
	least, step := r.cacheRules()
	known := func(i int) bool { return sizes[i] >= least && c.until[digests[i]].After(now) }
	if !r.cachedByMarks() {
		for i := range digests {
			if known(i) {
				read = sizes[i] / step * step
			}
			c.until[digests[i]] = now.Add(cacheLifetime)
		}
		return read, 0
	}
	last := int64(0)
	for i := range digests {
		if !r.prefix[i].mark || sizes[i] < cacheMinimum {
			continue
		}
		last = sizes[i]
		for j := i; j >= 0 && j > i-cacheLookback; j-- {
			if known(j) {
				read = max(read, sizes[j])
				break
			}
		}
	}
	for i := range digests {
		if r.prefix[i].mark {
			c.until[digests[i]] = now.Add(cacheLifetime)
		}
	}
	return read, last - read
}

// cachedByMarks reports whether the request is cached up to its breakpoints, as Anthropic's models do.
func (r *chatRequest) cachedByMarks() bool {
	switch r.form.(type) {
	case messagesForm, bedrockForm:
		return true
	}
	return false
}

// cacheRules returns the tokens of the shortest prefix that is cached, and in which steps they count.
func (r *chatRequest) cacheRules() (least, step int64) {
	if _, ok := r.form.(geminiForm); !ok {
		return cacheMinimum, cacheStep
	}
	if beforeGemini3(r.Model) {
		return oldGeminiMinimum, 1
	}
	return geminiMinimum, 1
}

// prefixes returns, for each segment, the digest of the request up to its end, and the tokens.
func (r *chatRequest) prefixes() (digests [][32]byte, sizes []int64) {
	chars := 0
	digest := sha256.Sum256([]byte(r.Model + "\n" + r.CacheKey)) // a key sends requests to a cache of its own
	for _, s := range r.prefix {
		h := sha256.New()
		h.Write(digest[:])
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(s.text))))
		h.Write(s.text)
		h.Sum(digest[:0])
		chars += s.chars
		digests, sizes = append(digests, digest), append(sizes, tokens(chars))
	}
	return digests, sizes
}
