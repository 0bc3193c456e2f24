package policy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCompilingTheBuiltInPoliciesDoesNotUseUpTheTimeOfOthers(t *testing.T) {
	t.Parallel()
	limit, err := helperTask{Package: Operator, Timeout: time.Millisecond}.limit()
	require.NoError(t, err)
	require.Greater(t, limit, time.Millisecond, "the time that they took is added")
	limit, err = helperTask{Package: Repository, Timeout: time.Millisecond}.limit()
	require.NoError(t, err)
	require.Equal(t, time.Millisecond, limit, "a repository's are compiled alone")
}
