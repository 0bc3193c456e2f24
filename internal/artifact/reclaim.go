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

// maxFailures is the number of blobs that RemoveOlder fails to remove before it gives up.
const maxFailures = 10

// RemoveOlder removes those of the given blobs that were not stored after a time, not even in this
// moment, and returns their number and size. The caller knows that nothing refers to them, and that
// nobody uses blobs that were not stored since. A blob that cannot be removed does not prevent the
// removal of the others; the error is about the first.
func (s *Store) RemoveOlder(ctx context.Context, blobs []Blob, than time.Time) (count, bytes int64, err error) {
	release, err := s.alone(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer release()
	var first error
	failures := 0
	for _, b := range blobs {
		removed, err := s.removeOlder(ctx, b.Digest, than)
		if removed {
			count++
			bytes += b.Size
		}
		if err == nil {
			continue
		}
		if failures++; failures == 1 {
			first = err
		}
		if ctx.Err() != nil || failures == maxFailures {
			break
		}
	}
	return count, bytes, first
}

func (s *Store) removeOlder(ctx context.Context, digest string, than time.Time) (bool, error) {
	if err := Validate(digest); err != nil {
		return false, err
	}
	removed, err := s.backend.removeOlder(ctx, keyOf(digest), than)
	if err != nil {
		return false, s.explain(err, "remove artifact %s", digest)
	}
	return removed, nil
}
