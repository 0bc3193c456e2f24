package artifact

import (
	"bytes"
	"context"
	"io"
	"os"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// bucket stores blobs in a bucket that gocloud.dev/blob opens by URL.
type bucket struct {
	*blob.Bucket
	name string // the URL without its query, which may contain secrets
}

// memoryStage is the size up to which a stream is buffered in memory; longer ones go to a temporary
// file. Most artifacts are smaller.
const memoryStage = 1 << 20

func (b *bucket) has(ctx context.Context, key string, size int64) (bool, error) {
	attrs, err := b.Attributes(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return size < 0 || attrs.Size == size, nil
}

// options returns writer options that avoid content type detection, and multipart uploads of
// content that fits into one request.
func options() *blob.WriterOptions {
	return &blob.WriterOptions{ContentType: "application/octet-stream"}
}

func (b *bucket) put(ctx context.Context, key string, data []byte) error {
	return b.WriteAll(ctx, key, data, options())
}

func (b *bucket) open(ctx context.Context, key string) (io.ReadCloser, error) {
	return b.openAt(ctx, key, 0)
}

func (b *bucket) openAt(ctx context.Context, key string, offset int64) (io.ReadCloser, error) {
	r, err := b.NewRangeReader(ctx, key, offset, -1, nil)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

func (b *bucket) remove(ctx context.Context, key string) error {
	err := b.Delete(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return nil
	}
	return err
}

func (b *bucket) where() string { return b.name }

func (b *bucket) close() error { return b.Close() }

func (b *bucket) stage(context.Context) (stage, error) { return &spool{bucket: b}, nil }

// spool buffers a stream until its digest is known: first in memory, then in a temporary file if it
// is long.
type spool struct {
	bucket *bucket
	memory bytes.Buffer
	file   *os.File
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && s.memory.Len()+len(p) <= memoryStage {
		return s.memory.Write(p)
	}
	if s.file == nil {
		if err := s.overflow(); err != nil {
			return 0, err
		}
	}
	return s.file.Write(p)
}

func (s *spool) overflow() error {
	f, err := os.CreateTemp("", "rgpt-artifact-*")
	if err != nil {
		return err
	}
	s.file = f
	_, err = s.memory.WriteTo(f)
	return err
}

func (s *spool) commit(ctx context.Context, key string, _ int64) error {
	defer s.discard()
	if s.file == nil {
		return s.bucket.put(ctx, key, s.memory.Bytes())
	}
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	return s.bucket.Upload(ctx, key, s.file, options())
}

func (s *spool) discard() {
	if s.file != nil {
		_ = s.file.Close()
		_ = os.Remove(s.file.Name())
	}
}
