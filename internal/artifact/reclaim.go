package artifact

import (
	"context"
	"strings"
	"time"
)

// Blob is a stored blob as Blobs lists it.
type Blob struct {
	Digest string
	Size   int64
	// Stored is when the blob was last stored. A blob that was stored again within RefreshAge may
	// have an earlier time.
	Stored time.Time
}

// Blobs calls fn with each stored blob, in no particular order, until fn returns an error, which
// Blobs returns. Other objects of a shared bucket are skipped.
func (s *Store) Blobs(ctx context.Context, fn func(Blob) error) error {
	var stopped error
	err := s.backend.list(ctx, func(key string, info blobInfo) error {
		folder, rest, _ := strings.Cut(key, "/")
		if own, ok := keyOfDigits(folder + rest); !ok || own != key {
			return nil
		}
		stopped = fn(Blob{Digest: digestPrefix + folder + rest, Size: info.size, Stored: info.modified})
		return stopped
	})
	if err == nil || stopped != nil {
		return stopped
	}
	return s.explain(err, "list the artifacts")
}

// keyOfDigits returns the key of a digest without its prefix.
func keyOfDigits(digits string) (string, bool) {
	if Validate(digestPrefix+digits) != nil {
		return "", false
	}
	return keyOf(digestPrefix + digits), true
}

// Excluding lets the writers and the reclaim of a bucket exclude each other: lock returns once
// nobody else, in any process, is between its own lock and release. Without it, a reclaim may remove
// an old blob of a bucket in the moment in which it is stored again. It must be called before the
// store is used.
func (s *Store) Excluding(lock func(ctx context.Context) (release func(), err error)) {
	if _, ok := s.backend.(*bucket); ok { // a directory needs no lock
		s.exclude = lock
	}
}

// RemoveOlder removes those of the given blobs that were not stored after a time, not even in this
// moment, and returns their number and size. The caller knows that nothing refers to them, and that
// nobody uses blobs that were not stored since.
func (s *Store) RemoveOlder(ctx context.Context, blobs []Blob, than time.Time) (count, bytes int64, err error) {
	release, err := s.alone(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer release()
	for _, b := range blobs {
		if err := Validate(b.Digest); err != nil {
			return count, bytes, err
		}
		removed, err := s.backend.removeOlder(ctx, keyOf(b.Digest), than)
		if err != nil {
			return count, bytes, s.explain(err, "remove artifact %s", b.Digest)
		}
		if removed {
			count++
			bytes += b.Size
		}
	}
	return count, bytes, nil
}
