package artifact

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// verifier is a reader that compares a blob's digest at the end.
type verifier struct {
	io.ReadCloser
	hash   hash.Hash
	digest string
	store  *Store
	result error // returned by every Read after the end
}

func (v *verifier) Read(p []byte) (int, error) {
	if v.result != nil {
		return 0, v.result
	}
	n, err := v.ReadCloser.Read(p)
	v.hash.Write(p[:n])
	if err == nil {
		return n, nil
	}
	switch {
	case !errors.Is(err, io.EOF):
		v.result = v.store.explain(err, "read artifact %s", v.digest)
	case format(v.hash.Sum(nil)) != v.digest:
		v.result = fault.Wrap(ErrCorrupt, contract.ClassRuntime, contract.CodeUnknown,
			"artifact %s in %s is damaged: its content does not match its digest; restore it from a backup or rerun the phase that created it", v.digest, v.store.backend.where())
	default:
		v.result = io.EOF
	}
	return n, v.result
}

// contextReader fails reads once its context is done.
type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c *contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// copyLimited copies r to w and fails if there are more than limit bytes; 0 means no limit.
func copyLimited(w io.Writer, r io.Reader, limit int64) (int64, error) {
	if limit <= 0 {
		return io.Copy(w, r)
	}
	n, err := io.Copy(w, io.LimitReader(r, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("%w: more than %d bytes", ErrTooLarge, limit)
	}
	return n, err
}
