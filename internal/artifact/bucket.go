package artifact

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"time"

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

func (b *bucket) stat(ctx context.Context, key string) (blobInfo, error) {
	attrs, err := b.Attributes(ctx, key)
	if gcerrors.Code(err) == gcerrors.NotFound {
		return blobInfo{}, ErrNotFound
	}
	if err != nil {
		return blobInfo{}, err
	}
	return blobInfo{attrs.Size, attrs.ModTime}, nil
}

// refresh leaves the work to another write: only that changes an object's time.
func (b *bucket) refresh(context.Context, string) (bool, error) { return false, nil }

func (b *bucket) list(ctx context.Context, fn func(key string, info blobInfo) error) error {
	all := b.List(nil)
	for {
		o, err := all.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := fn(o.Key, blobInfo{o.Size, o.ModTime}); err != nil {
			return err
		}
	}
}

// removeOlder relies on Store.exclude: S3 has no conditional deletion.
func (b *bucket) removeOlder(ctx context.Context, key string, than time.Time) (bool, error) {
	info, err := b.stat(ctx, key)
	if errors.Is(err, ErrNotFound) || err == nil && info.modified.After(than) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, b.remove(ctx, key)
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
	if gcerrors.Code(err) == gcerrors.NotFound && !noBucket(err) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// noBucket reports whether an error means that the bucket itself does not exist. Then nothing is known
// about its objects.
func noBucket(err error) bool {
	var code interface{ ErrorCode() string }
	return errors.As(err, &code) && code.ErrorCode() == "NoSuchBucket"
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
