package artifact

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/memblob" // mem://
	_ "gocloud.dev/blob/s3blob"  // s3://

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// Option is an option of Open.
type Option func(*settings)

type settings struct {
	sync bool
}

// WithSync sets whether a directory store flushes each blob to disk before Put returns. It does by
// default: a database row that refers to a blob survives a power failure, so the blob must survive
// it as well. Without flushing, a blob still survives process crashes, and Put of 1 KiB takes about
// a fifth of the time, which suits tests and caches. Buckets ignore this option.
func WithSync(on bool) Option { return func(s *settings) { s.sync = on } }

// Open opens the artifact store at a URL:
//
//   - empty: the directory dir, created if it is missing
//   - file:///path: that directory
//   - s3://bucket?region=…&endpoint=https://…&prefix=…: an S3 bucket or one of
//     a compatible store, with credentials from the usual AWS environment,
//
// files or instance role. A custom endpoint implies path-style URLs and only the checksums that the
// protocol requires, which is what compatible
//
//	  stores understand; use_path_style and request_checksum_calculation in the
//	  URL override that.
//	- mem://: memory of this store only, for tests
//
// A URL that cannot be used is a CONFIG_ERROR. Open does not connect.
func Open(ctx context.Context, rawURL, dir string, opts ...Option) (*Store, error) {
	set := settings{sync: true}
	for _, o := range opts {
		o(&set)
	}
	if rawURL == "" {
		return openStore(dir, set)
	}
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "artifacts.url is not a URL; expected s3://bucket or file:///path, or an empty value to use a directory")
	}
	switch u.Scheme {
	case "file":
		return openStore(filepath.FromSlash(u.Path), set)
	case "s3":
		u = compatible(u)
		fallthrough
	case "mem":
		return openBucket(ctx, u)
	default:
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "artifacts.url: unsupported scheme %q; expected s3://bucket or file:///path, or an empty value to use a directory", u.Scheme)
	}
}

func openStore(dir string, set settings) (*Store, error) {
	if dir == "" {
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "artifacts: neither a URL nor a directory is set")
	}
	d, err := openDirectory(dir, set.sync)
	if err != nil {
		s := Store{backend: &directory{root: dir}}
		return nil, s.explain(err, "open the artifact store")
	}
	return &Store{backend: d}, nil
}

func openBucket(ctx context.Context, u *url.URL) (*Store, error) {
	name := u.Scheme + "://" + u.Host
	b, err := blob.OpenBucket(ctx, u.String())
	if err != nil {
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "could not open the artifact store %s: %s", name,
			strings.ReplaceAll(err.Error(), u.String(), name))
	}
	return &Store{backend: &bucket{Bucket: b, name: name}}, nil
}

// compatible adds the parameters that S3-compatible stores need to an S3 URL with a custom
// endpoint.
func compatible(u *url.URL) *url.URL {
	q := u.Query()
	if q.Get("endpoint") == "" {
		return u
	}
	fallbacks := [][2]string{
		{"use_path_style", "true"},
		{"request_checksum_calculation", "when_required"},
		{"response_checksum_validation", "when_required"},
		{"region", "us-east-1"}, // required for signatures; compatible stores ignore it
	}
	for _, f := range fallbacks {
		if !q.Has(f[0]) {
			q.Set(f[0], f[1])
		}
	}
	out := *u
	out.RawQuery = q.Encode()
	return &out
}
