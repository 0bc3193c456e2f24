package artifact

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Section reads parts of a blob without reading the rest. It implements io.Reader, io.Seeker,
// io.ReaderAt and io.Closer. The content is not verified, because the digest covers the whole blob.
// It is not safe for concurrent use.
type Section struct {
	ctx    context.Context
	store  *Store
	digest string
	size   int64
	at     int64         // where the next Read begins
	open   io.ReadCloser // positioned at from; nil if nothing is open
	from   int64
}

// Section opens a blob of a known size for reading parts of it. The context applies to all reads.
// The caller must close it.
func (s *Store) Section(ctx context.Context, digest string, size int64) (*Section, error) {
	there, err := s.Exists(ctx, digest)
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, s.explain(ErrNotFound, "read artifact %s", digest)
	}
	return &Section{ctx: ctx, store: s, digest: digest, size: size}, nil
}

// Read continues from where the last Read or Seek ended.
func (c *Section) Read(p []byte) (int, error) {
	if c.at >= c.size {
		return 0, io.EOF
	}
	if c.open != nil && c.from != c.at {
		if err := c.Close(); err != nil {
			return 0, err
		}
	}
	if c.open == nil {
		r, err := c.store.backend.openAt(c.ctx, keyOf(c.digest), c.at)
		if err != nil {
			return 0, c.store.explain(err, "read artifact %s", c.digest)
		}
		c.open, c.from = r, c.at
	}
	n, err := c.open.Read(p[:min(int64(len(p)), c.size-c.at)])
	c.at += int64(n)
	c.from = c.at
	if err != nil && !errors.Is(err, io.EOF) {
		err = c.store.explain(err, "read artifact %s", c.digest)
	}
	if errors.Is(err, io.EOF) && n > 0 {
		err = nil
	}
	return n, err
}

// Seek sets where the next Read begins.
func (c *Section) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += c.at
	case io.SeekEnd:
		offset += c.size
	}
	if offset < 0 {
		return 0, fmt.Errorf("seek in artifact %s: negative offset %d", c.digest, offset)
	}
	c.at = offset
	return offset, nil
}

// ReadAt reads a part.
func (c *Section) ReadAt(p []byte, offset int64) (int, error) {
	if _, err := c.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(c, p)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = io.EOF
	}
	return n, err
}

// Close closes the open reader. The section can be read again.
func (c *Section) Close() error {
	if c.open == nil {
		return nil
	}
	err := c.open.Close()
	c.open = nil
	return err
}
