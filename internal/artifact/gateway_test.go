package artifact_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/internal/artifact"
	"github.com/rocketgpt/orchestrator/internal/freeport"
)

// gateway is a real S3 server, versitygw, on a directory. It is a second implementation besides the
// one in this process, by other people. Its module is tools/s3, so that the product does not depend
// on it; the go command caches the program.
type gateway struct {
	dir      string // of its buckets
	endpoint string
	stop     func()
}

var (
	gatewayOnce   sync.Once
	sharedGateway *gateway
	errGateway    error
)

// realS3 returns the gateway that the tests of this process share. It skips the test if the program
// cannot be built, or fails it if RGPT_S3 is set.
func realS3(t *testing.T) *gateway {
	t.Helper()
	gatewayOnce.Do(func() { sharedGateway, errGateway = startGateway("test", "test") })
	if errGateway != nil {
		if os.Getenv("RGPT_S3") != "" {
			require.NoError(t, errGateway)
		}
		t.Skipf("NOT TESTED against a real S3 server: %v", errGateway)
	}
	return sharedGateway
}

func startGateway(access, secret string) (*gateway, error) {
	program, err := exec.Command("go", "-C", "../../tools/s3", "tool", "-n", "versitygw").Output()
	if err != nil {
		return nil, fmt.Errorf("build versitygw (tools/s3): %w", err)
	}
	port, err := freeport.Take(context.Background())
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rgpt-s3-")
	if err != nil {
		return nil, err
	}
	for _, folder := range []string{"data/rgpt", "meta"} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o700); err != nil {
			return nil, err
		}
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	log, err := os.Create(filepath.Join(dir, "log")) // a buffer would need a goroutine
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.Command(strings.TrimSpace(string(program)), "--quiet", "--port", address, "--access", access, "--secret", secret,
		"posix", "--sidecar", filepath.Join(dir, "meta"), filepath.Join(dir, "data"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start versitygw: %w", err)
	}
	g := &gateway{dir: filepath.Join(dir, "data"), endpoint: "http://" + address}
	g.stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	for late := time.After(20 * time.Second); ; {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return g, conn.Close()
		}
		select {
		case <-late:
			said, _ := os.ReadFile(log.Name())
			g.stop()
			return nil, fmt.Errorf("versitygw does not answer at %s: %s", address, said)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// stopGateway ends the gateway after the last test.
func stopGateway(code int) {
	if sharedGateway != nil {
		sharedGateway.stop()
	}
	os.Exit(code)
}

// realStore opens a place of its own in the bucket of the gateway, with special characters in keys.
func realStore(t *testing.T) *artifact.Store {
	t.Helper()
	return s3StoreAt(t, realS3(t).endpoint, "&prefix="+url.QueryEscape("a b+ü&=%/"+rand.Text()+"/"))
}

func TestALargeStreamIsUploadedInPartsAndReadInParts(t *testing.T) {
	t.Parallel()
	g := realS3(t)
	s := s3StoreAt(t, g.endpoint, "&prefix=large/")
	content := make([]byte, 23<<20+7) // more than four parts
	_, err := rand.Read(content)
	require.NoError(t, err)
	digest, size, err := s.PutReader(t.Context(), bytes.NewReader(content), 0)
	require.NoError(t, err)
	require.EqualValues(t, len(content), size)
	require.Equal(t, artifact.Digest(content), digest)
	back, err := s.Get(t.Context(), digest)
	require.NoError(t, err)
	require.True(t, bytes.Equal(content, back))
	section, err := s.Section(t.Context(), digest, size)
	require.NoError(t, err)
	part := make([]byte, 100)
	_, err = section.ReadAt(part, 11<<20)
	require.NoError(t, err)
	require.NoError(t, section.Close())
	require.Equal(t, content[11<<20:11<<20+100], part)
	_, _, err = s.PutReader(t.Context(), io.LimitReader(zeros{}, 30<<20), 20<<20)
	require.ErrorIs(t, err, artifact.ErrTooLarge)
	require.Len(t, blobsOf(t, s), 1, "nothing is left of what was too large")
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestBlobsOfABucketAreListedOverSeveralPages(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *artifact.Store{"in this process": s3Store, "gateway": realStore} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			const blobs = 1005 // a page has at most 1,000
			group, ctx := errgroup.WithContext(t.Context())
			group.SetLimit(16)
			for n := range blobs {
				group.Go(func() error { _, err := s.Put(ctx, fmt.Append(nil, n)); return err })
			}
			require.NoError(t, group.Wait())
			require.Len(t, blobsOf(t, s), blobs)
		})
	}
}

func TestDamageInTheBucketIsNoticed(t *testing.T) {
	t.Parallel()
	g := realS3(t)
	s := s3StoreAt(t, g.endpoint, "&prefix=damage/")
	digest := put(t, s, "hello")
	file := filepath.Join(g.dir, "rgpt", "damage", digest[7:9], digest[9:])
	require.NoError(t, os.WriteFile(file, []byte("hallo"), 0o600))
	_, err := s.Get(t.Context(), digest)
	require.ErrorIs(t, err, artifact.ErrCorrupt)
	require.NoError(t, os.Remove(file))
	_, err = s.Get(t.Context(), digest)
	require.ErrorIs(t, err, artifact.ErrNotFound)
}

func TestABlobThatIsOldInABucketBecomesYoungWhenItIsStoredAgain(t *testing.T) {
	t.Parallel()
	g := realS3(t)
	s := s3StoreAt(t, g.endpoint, "&prefix=old/")
	locked := 0
	s.Excluding(func(context.Context) (func(), error) { locked++; return func() {}, nil })
	digest := put(t, s, "hello")
	file := filepath.Join(g.dir, "rgpt", "old", digest[7:9], digest[9:])
	old := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(file, old, old))
	require.WithinDuration(t, old, blobsOf(t, s)[digest].Stored, time.Minute)
	put(t, s, "hello")
	require.Equal(t, 1, locked, "a removal at this moment would lose it")
	count, _, err := s.RemoveOlder(t.Context(), []artifact.Blob{{Digest: digest}}, time.Now().Add(-time.Hour))
	require.NoError(t, err)
	require.Zero(t, count)
}

func TestABucketThatIsMissingAndWrongCredentialsAreNamed(t *testing.T) {
	t.Parallel()
	g := realS3(t)
	other, err := startGateway("someone", "else")
	require.NoError(t, err)
	t.Cleanup(other.stop)
	for name, address := range map[string]string{
		"a missing bucket":  "s3://nothing?endpoint=" + url.QueryEscape(g.endpoint),
		"wrong credentials": "s3://rgpt?endpoint=" + url.QueryEscape(other.endpoint),
	} {
		s, err := artifact.Open(t.Context(), address, "")
		require.NoError(t, err, name)
		_, err = s.Put(t.Context(), []byte("hello"))
		require.ErrorContains(t, err, "could not store a 5-byte artifact in s3://", name)
		_, err = s.Get(t.Context(), helloDigest)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, artifact.ErrNotFound, name)
		require.NoError(t, s.Close())
	}
}
