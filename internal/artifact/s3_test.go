package artifact_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/artifact"
)

// TestMain gives the AWS client credentials, which it takes only from the environment;
// t.Setenv would forbid parallel tests.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test",
		"AWS_EC2_METADATA_DISABLED": "true",
	} {
		if err := os.Setenv(name, value); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(stopGateway))
}

// s3Store opens a bucket of an S3-compatible server in this process.
func s3Store(t *testing.T) *artifact.Store {
	t.Helper()
	return s3StoreAt(t, fakeS3(t), "")
}

func fakeS3(t *testing.T) string {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket("rgpt"))
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(server.Close)
	return server.URL
}

func s3StoreAt(t *testing.T, endpoint, more string) *artifact.Store {
	t.Helper()
	s, err := artifact.Open(t.Context(), "s3://rgpt?endpoint="+url.QueryEscape(endpoint)+more, "")
	require.NoError(t, err)
	return s
}

func TestABucketIsSharedByPrefix(t *testing.T) {
	t.Parallel()
	endpoint := fakeS3(t)
	one := s3StoreAt(t, endpoint, "&prefix=one/")
	two := s3StoreAt(t, endpoint, "&prefix=two/")
	digest := put(t, one, "hello")
	_, err := two.Get(t.Context(), digest)
	require.ErrorIs(t, err, artifact.ErrNotFound)
	again := s3StoreAt(t, endpoint, "&prefix=one/")
	data, err := again.Get(t.Context(), digest)
	require.NoError(t, err)
	require.Equal(t, "hello", string(data))
}

func TestAnUnreachableBucketIsNamedWithoutItsQuery(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	endpoint := server.URL
	server.Close()
	s := s3StoreAt(t, endpoint, "")
	_, err := s.Put(t.Context(), []byte("hello"))
	require.ErrorContains(t, err, "s3://rgpt")
	message := err.Error()
	require.Contains(t, message[:strings.Index(message, ":")], "INFRA_ERROR")
}
