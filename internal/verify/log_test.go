package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestALongLogKeepsHeadAndTail(t *testing.T) {
	t.Parallel()
	b := headTail{limit: 100}
	for n := range 1000 {
		fmt.Fprintf(&b, "line %04d\n", n)
	}
	text := string(b.Bytes())
	require.True(t, strings.HasPrefix(text, "line 0000\n"))
	require.True(t, strings.HasSuffix(text, "line 0999\n"))
	require.Contains(t, text, "bytes omitted")
	require.Less(t, len(text), 200)
}
