package pages

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"

	"github.com/rocketgpt/orchestrator/internal/runs/diff"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/server/ui"
)

// Limits of the patches that pages show.
const (
	// shownPatchBytes is the number of bytes after which a patch is cut.
	shownPatchBytes = 16 << 20
	// patchCacheBytes limits the patches cached in memory. Without the cache, a page that shows a
	// large patch file by file would read it repeatedly.
	patchCacheBytes = 64 << 20
)

// patchText is a patch ready to be shown, with its files, whose texts are substrings of it.
type patchText struct {
	text  string
	cut   bool
	files []ui.ChangedFile
}

// patchCache caches recently shown patches, keyed by the digests of their sources. The content of a
// digest never changes, so entries never become stale. The zero value is ready to use.
type patchCache struct {
	mu    sync.Mutex
	known map[string]patchText
	order []string // most recently used last
	bytes int
}

func (c *patchCache) get(key string) (patchText, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.known[key]
	if ok {
		c.touch(key)
	}
	return p, ok
}

func (c *patchCache) put(key string, p patchText) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil {
		c.known = map[string]patchText{}
	}
	if _, there := c.known[key]; !there {
		c.known[key] = p
		c.bytes += len(p.text)
	}
	c.touch(key)
	for c.bytes > patchCacheBytes && len(c.order) > 1 {
		c.bytes -= len(c.known[c.order[0]].text)
		delete(c.known, c.order[0])
		c.order = c.order[1:]
	}
}

func (c *patchCache) touch(key string) {
	for i, k := range c.order {
		if k == key {
			c.order = append(c.order[:i:i], c.order[i+1:]...)
			break
		}
	}
	c.order = append(c.order, key)
}

// patchBetween returns the difference between two patches of the same base, ready to be shown: as
// text, without secrets. An empty digest means the base itself.
func (s *Server) patchBetween(ctx context.Context, from, to string) (patchText, error) {
	return s.cachedPatch(from+".."+to, func() (patchText, error) {
		var sides [2][]byte
		for i, digest := range []string{from, to} {
			if digest == "" {
				continue
			}
			content, cut, err := s.readPatch(ctx, digest)
			if err != nil {
				return patchText{}, err
			}
			if cut {
				return patchText{cut: true}, nil // a truncated patch is useless
			}
			sides[i] = content
		}
		text, err := diff.Between(sides[0], sides[1])
		if err != nil {
			return patchText{}, fmt.Errorf("compare the patches %s and %s: %w", from, to, err)
		}
		return patchText{text: telemetry.Redact(text)}, nil
	})
}

// storedPatch returns a patch of an artifact, which contains no secrets.
func (s *Server) storedPatch(ctx context.Context, digest string) (patchText, error) {
	return s.cachedPatch(digest, func() (patchText, error) {
		content, cut, err := s.readPatch(ctx, digest)
		return patchText{text: strings.ToValidUTF8(string(content), "\uFFFD"), cut: cut}, err
	})
}

func (s *Server) cachedPatch(key string, read func() (patchText, error)) (patchText, error) {
	if p, ok := s.patches.get(key); ok {
		return p, nil
	}
	p, err := read()
	if err == nil {
		p.files = filesOf(p.text)
		s.patches.put(key, p)
	}
	return p, err
}

func (s *Server) readPatch(ctx context.Context, digest string) (content []byte, cut bool, err error) {
	r, err := s.Artifacts.Reader(ctx, digest)
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	content, err = io.ReadAll(io.LimitReader(r, shownPatchBytes+1))
	if len(content) > shownPatchBytes {
		content, cut = content[:bytes.LastIndexByte(content[:shownPatchBytes], '\n')+1], true
	}
	return content, cut, err
}

// filesOf splits a patch by file. It relies only on the lines with which git starts a file, so it
// can also split a patch from which parts were removed.
func filesOf(patch string) []ui.ChangedFile {
	const begin = "diff --git "
	var files []ui.ChangedFile
	for len(patch) > 0 {
		end := len(patch)
		if next := strings.Index(patch, "\n"+begin); next >= 0 {
			end = next + 1
		}
		if strings.HasPrefix(patch, begin) {
			files = append(files, fileOf(patch[:end]))
		}
		patch = patch[end:]
	}
	return files
}

// digestOf returns a short digest that distinguishes the texts of a page.
func digestOf(text string) string {
	const digestBytes = 8
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:digestBytes])
}

// fileOf parses the part of a patch for one file.
func fileOf(patch string) ui.ChangedFile {
	f := ui.ChangedFile{Status: "modified", Text: patch, Bytes: len(patch), Digest: digestOf(patch)}
	head, body := patch, ""
	if at := strings.Index(patch, "\n@@ "); at >= 0 {
		head, body = patch[:at+1], patch[at+1:]
	}
	for line := range strings.Lines(head) {
		readHead(&f, strings.TrimRight(line, "\r\n"))
	}
	for line := range strings.Lines(body) {
		switch line[0] {
		case '+':
			f.Added++
		case '-':
			f.Removed++
		}
	}
	return f
}

// readHead parses one of the lines before a file's changes.
func readHead(f *ui.ChangedFile, line string) {
	word := func(prefix string) (string, bool) { return strings.CutPrefix(line, prefix) }
	if rest, is := word("diff --git "); is {
		f.Path = nameOfBoth(rest)
	} else if name, is := word("+++ "); is && name != "/dev/null" {
		f.Path = nameIn(name)
	} else if name, is := word("--- "); is && name != "/dev/null" {
		f.Path = nameIn(name)
	} else if name, is := word("rename from "); is {
		f.Status, f.From = "renamed", unquoted(name)
	} else if name, is := word("rename to "); is {
		f.Path = unquoted(name)
	} else if _, is := word("new file mode"); is {
		f.Status = "new"
	} else if _, is := word("deleted file mode"); is {
		f.Status = "deleted"
	} else if mode, is := word("new mode "); is {
		f.Mode = mode
	} else if strings.HasPrefix(line, "Binary files ") || line == "GIT binary patch" {
		f.Binary = true
	}
}

// nameOfBoth returns the name in "a/NAME b/NAME", where NAME may contain spaces.
func nameOfBoth(both string) string {
	if strings.HasPrefix(both, `"`) {
		if end := strings.Index(both, `" "`); end >= 0 {
			return nameIn(both[:end+1])
		}
	}
	return nameIn(both[:len(both)/2])
}

// nameIn returns a name without its leading a/ or b/. Git ends a name that contains a space with a
// tab.
func nameIn(name string) string {
	name = unquoted(strings.TrimSuffix(name, "\t"))
	if _, rest, ok := strings.Cut(name, "/"); ok {
		return rest
	}
	return name
}

// unquoted decodes a name that git quoted because of unusual bytes.
func unquoted(name string) string {
	if strings.HasPrefix(name, `"`) {
		if plain, err := strconv.Unquote(name); err == nil {
			return strings.ToValidUTF8(plain, "\uFFFD")
		}
	}
	return name
}
