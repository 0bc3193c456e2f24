package harness

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAMountPointAloneDoesNotMakeAProcessOneOfAStack(t *testing.T) {
	t.Parallel()
	const copied = "640 1 0:77 / /tmp/stack/data/artifacts rw,relatime - tmpfs tmpfs rw,size=48m\n"
	const bound = "641 1 254:0 /tmp/stack/data/cache/go /cache rw,relatime master:1 - ext4 /dev/vda rw\n"
	const overlay = "642 1 0:78 / /workspace rw,relatime - overlay overlay rw,upperdir=/tmp/stack/data/runs/1\n"
	require.NotContains(t, string(mountSources([]byte(copied))), "/tmp/stack")
	require.Contains(t, string(mountSources([]byte(copied+bound))), "/tmp/stack/data/cache/go")
	require.Contains(t, string(mountSources([]byte(overlay))), "/tmp/stack/data/runs/1")
}
