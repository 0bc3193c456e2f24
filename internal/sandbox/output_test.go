package sandbox

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestCaptureKeepsHeadAndTail compares with keeping everything.
func TestCaptureKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(0, 40).Draw(t, "limit")
		c := &capture{limit: limit, sink: &sink{}}
		var all []byte
		for _, chunk := range rapid.SliceOf(rapid.SliceOfN(rapid.Byte(), 0, 30)).Draw(t, "chunks") {
			n, err := c.Write(chunk)
			require.NoError(t, err)
			require.Len(t, chunk, n)
			all = append(all, chunk...)
		}
		got, truncated := c.result()
		require.EqualValues(t, len(all), c.written())
		if limit == 0 || int64(len(all)) <= limit {
			require.False(t, truncated)
			require.True(t, bytes.Equal(all, got))
			return
		}
		head, tail := (limit+1)/2, limit/2
		marker := fmt.Sprintf("\n[... %d bytes dropped ...]\n", int64(len(all))-limit)
		want := append(append(append([]byte{}, all[:head]...), marker...), all[int64(len(all))-tail:]...)
		require.True(t, truncated)
		require.Equal(t, string(want), string(got))
	})
}
