package artifact_test

import (
	"bytes"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/artifact"
)

func TestAnyPartOfABlobCanBeRead(t *testing.T) {
	t.Parallel()
	everyStore(t, func(t *testing.T, s *artifact.Store) {
		content := bytes.Repeat([]byte("0123456789"), 5000)
		digest, err := s.Put(t.Context(), content)
		require.NoError(t, err)
		section, err := s.Section(t.Context(), digest, int64(len(content)))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, section.Close()) })
		require.NoError(t, iotest.TestReader(section, content), "reads, seeks and reads at places")
		part := make([]byte, 20)
		n, err := section.ReadAt(part, int64(len(content))-10)
		require.Equal(t, 10, n)
		require.ErrorIs(t, err, io.EOF)
		_, err = section.Seek(-1, io.SeekStart)
		require.Error(t, err)
		_, err = s.Section(t.Context(), helloDigest, 5)
		require.ErrorIs(t, err, artifact.ErrNotFound)
		_, err = s.Section(t.Context(), "../x", 5)
		require.ErrorIs(t, err, artifact.ErrDigest)
	})
}
