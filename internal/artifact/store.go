// Package artifact stores the files of runs as blobs named by the digest of their content: in a
// directory, in an S3-compatible store, or in memory for tests. A blob never changes, so storing it
// twice is harmless, and any worker can read the blobs of another.
package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Errors that callers distinguish with errors.Is. Each is wrapped in a fault that explains what to
// do.
var (
	// ErrNotFound: the store holds no blob with this digest.
	ErrNotFound = errors.New("artifact not found")
	// ErrCorrupt: the stored content does not match its digest.
	ErrCorrupt = errors.New("artifact is corrupt")
	// ErrTooLarge: the content is longer than the caller allows.
	ErrTooLarge = errors.New("artifact is too large")
	// ErrDigest: the text is not a digest.
	ErrDigest = errors.New("not an artifact digest")
)

// Store stores blobs by digest. It is safe for concurrent use, also by several
// processes on the same directory or bucket.
type Store struct {
	backend backend
	exclude func(ctx context.Context) (release func(), err error) // nil: nothing else removes blobs
}

// blobInfo is what a backend knows about a key.
type blobInfo struct {
	size     int64
	modified time.Time
}

// backend is where the bytes are stored. Keys are made from digests and need no
// checking. Errors of a missing key match ErrNotFound with errors.Is.
type backend interface {
	// stat returns the size and age of a key.
	stat(ctx context.Context, key string) (blobInfo, error)
	// refresh makes an existing key as young as a new one. It reports false if the key does not
	// exist, or if only writing it again makes it young.
	refresh(ctx context.Context, key string) (bool, error)
	// list calls fn with each key of a blob.
	list(ctx context.Context, fn func(key string, info blobInfo) error) error
	// removeOlder removes a key unless it was written or refreshed after a time, even if that
	// happens at the same moment. It reports whether it removed the key.
	removeOlder(ctx context.Context, key string, than time.Time) (bool, error)
	// put writes the bytes atomically: readers see all of them or none.
	put(ctx context.Context, key string, data []byte) error
	// stage receives bytes whose key is not known yet.
	stage(ctx context.Context) (stage, error)
	open(ctx context.Context, key string) (io.ReadCloser, error)
	// openAt is open from an offset on.
	openAt(ctx context.Context, key string, offset int64) (io.ReadCloser, error)
	// remove removes a key. A missing one is not an error.
	remove(ctx context.Context, key string) error
	// where returns a description of the location for users.
	where() string
	close() error
}

// stage collects bytes until their key is known. Exactly one of commit and discard ends it.
type stage interface {
	io.Writer
	commit(ctx context.Context, key string, size int64) error
	discard()
}

// refreshAge is the age at which a blob that is stored again becomes young again. The reclaim of
// unused blobs removes only those that have not been stored for longer than that.
const refreshAge = time.Hour

// RefreshAge is how much older than its last use a blob may look.
const RefreshAge = refreshAge

// keep makes sure that a key is stored with exactly size bytes and is young, because a blob that is
// about to be used must not be reclaimed as unused. If only write can do that, it calls write, and
// otherwise discard.
func (s *Store) keep(ctx context.Context, key string, size int64, write func() error, discard func()) error {
	info, err := s.backend.stat(ctx, key)
	switch {
	case errors.Is(err, ErrNotFound), err == nil && info.size != size:
		return write()
	case err == nil && time.Since(info.modified) < refreshAge:
		discard()
		return nil
	case err != nil:
		discard()
		return err
	}
	young, err := s.backend.refresh(ctx, key)
	if young || err != nil {
		discard()
		return err
	}
	// It is about to be written again, perhaps while a reclaim is about to remove it.
	release, err := s.alone(ctx)
	if err != nil {
		discard()
		return err
	}
	defer release()
	return write()
}

// alone excludes the reclaim of blobs until the returned function is called.
func (s *Store) alone(ctx context.Context) (release func(), err error) {
	if s.exclude == nil {
		return func() {}, nil
	}
	return s.exclude(ctx)
}

// Put stores data and returns its digest. Data that is already stored is not written
// again, but counts as stored just now. A full disk is an INFRA_ERROR with code disk_full.
func (s *Store) Put(ctx context.Context, data []byte) (string, error) {
	sum := sha256.Sum256(data)
	digest := format(sum[:])
	key := keyOf(digest)
	err := s.keep(ctx, key, int64(len(data)), func() error { return s.backend.put(ctx, key, data) }, func() {})
	if err != nil {
		return "", s.explain(err, "store a %d-byte artifact", len(data))
	}
	return digest, nil
}

// PutReader stores the content of r without buffering it in memory, and returns its digest and its
// size in bytes. If there are more than limit bytes, it stores nothing and returns ErrTooLarge; a
// limit of 0 means no limit.
func (s *Store) PutReader(ctx context.Context, r io.Reader, limit int64) (digest string, size int64, err error) {
	staged, err := s.backend.stage(ctx)
	if err != nil {
		return "", 0, s.explain(err, "store an artifact")
	}
	hash := sha256.New()
	size, err = copyLimited(io.MultiWriter(staged, hash), &contextReader{ctx, r}, limit)
	if err != nil {
		staged.discard()
		return "", 0, s.explain(err, "store an artifact")
	}
	digest = format(hash.Sum(nil))
	key := keyOf(digest)
	if err := s.keep(ctx, key, size, func() error { return staged.commit(ctx, key, size) }, staged.discard); err != nil {
		return "", 0, s.explain(err, "store a %d-byte artifact", size)
	}
	return digest, size, nil
}

// Get returns the whole content of a blob, checked against its digest.
func (s *Store) Get(ctx context.Context, digest string) ([]byte, error) {
	r, err := s.Reader(ctx, digest)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }()
	var buf bytes.Buffer
	if _, err := buf.ReadFrom(r); err != nil {
		return nil, s.explain(err, "read artifact %s", digest)
	}
	return buf.Bytes(), nil
}

// Reader returns the content of a blob as a stream. The last Read returns ErrCorrupt instead of
// io.EOF if the content does not match the digest, so the content is valid only after io.EOF. The
// caller must close it.
func (s *Store) Reader(ctx context.Context, digest string) (io.ReadCloser, error) {
	if err := Validate(digest); err != nil {
		return nil, err
	}
	r, err := s.backend.open(ctx, keyOf(digest))
	if err != nil {
		return nil, s.explain(err, "read artifact %s", digest)
	}
	return &verifier{ReadCloser: r, hash: sha256.New(), digest: digest, store: s}, nil
}

// Exists reports whether a blob is stored. It does not read the content.
func (s *Store) Exists(ctx context.Context, digest string) (bool, error) {
	if err := Validate(digest); err != nil {
		return false, err
	}
	_, err := s.backend.stat(ctx, keyOf(digest))
	if errors.Is(err, ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, s.explain(err, "find artifact %s", digest)
	}
	return true, nil
}

// Remove permanently removes a blob, also for others that stored the same content: call it only if
// nothing else can refer to its digest. A missing blob is not an error. Open readers of the blob
// may fail.
func (s *Store) Remove(ctx context.Context, digest string) error {
	if err := Validate(digest); err != nil {
		return err
	}
	if err := s.backend.remove(ctx, keyOf(digest)); err != nil {
		return s.explain(err, "remove artifact %s", digest)
	}
	return nil
}

// Close releases the resources of the store. Open readers remain usable.
func (s *Store) Close() error { return s.backend.close() }

// Digest returns the digest that data is stored under: sha256:<hex>.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return format(sum[:])
}

const digestPrefix = "sha256:"

// Validate checks that a text is exactly a digest: keys are derived from it, so it must not contain
// a path.
func Validate(digest string) error {
	if len(digest) != len(digestPrefix)+2*sha256.Size || digest[:len(digestPrefix)] != digestPrefix {
		return badDigest(digest)
	}
	for _, c := range []byte(digest[len(digestPrefix):]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return badDigest(digest)
		}
	}
	return nil
}

func badDigest(digest string) error {
	const shown = 80
	if len(digest) > shown {
		digest = digest[:shown] + "…"
	}
	return fault.Wrap(ErrDigest, contract.ClassRuntime, contract.CodeUnknown,
		"%q is not an artifact digest; expected \"sha256:\" followed by 64 lower-case hexadecimal digits", digest)
}

func format(sum []byte) string { return digestPrefix + hex.EncodeToString(sum) }

// keyOf distributes blobs over 256 directories, because directories with very many files are slow
// to list and to back up. The digest has been validated.
func keyOf(digest string) string {
	digits := digest[len(digestPrefix):]
	return digits[:2] + "/" + digits[2:]
}

// explain converts an error to a fault that describes the failed operation, the location, and what
// to do.
func (s *Store) explain(err error, format string, args ...any) error {
	var known *fault.Error
	if errors.As(err, &known) {
		return err
	}
	what := fmt.Sprintf(format, args...)
	f := fault.Of(err)
	switch {
	case errors.Is(err, ErrNotFound):
		return fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown,
			"could not %s: not found in %s; workers on several hosts need a shared store (artifacts.url)", what, s.backend.where())
	case errors.Is(err, ErrTooLarge):
		return fault.Wrap(err, contract.ClassRuntime, contract.CodeUnknown,
			"could not %s: it exceeds artifacts.max_file", what)
	case f.Code == contract.CodeDiskFull:
		return fault.Wrap(err, contract.ClassInfra, contract.CodeDiskFull,
			"could not %s: no space left in %s; free disk space or move the store (artifacts.url)", what, s.backend.where())
	default:
		return fault.Wrap(err, f.Class, f.Code, "could not %s in %s", what, s.backend.where())
	}
}
