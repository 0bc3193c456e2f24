package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestProcessesAreTheEntriesWhoseNamesAreNumbersHoweverManyThereAre(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	var want []int
	for _, name := range []string{"1", "self", "sys", "12a", "-3", "a-name-that-is-longer-than-most-of-those-in-proc"} {
		require.NoError(t, os.Mkdir(filepath.Join(root, name), 0o700))
	}
	for pid := 2; pid < 2000; pid++ { // more than fit in one call
		require.NoError(t, os.WriteFile(filepath.Join(root, fmt.Sprint(pid*7)), nil, 0o600))
		want = append(want, pid*7)
	}
	dir, err := os.Open(root)
	require.NoError(t, err)
	defer dir.Close()
	p := &processes{dir: dir}
	for range 2 {
		found := p.list()
		slices.Sort(found)
		require.Equal(t, want, found, "without the helper, whose number is 1")
	}
}

// BenchmarkListProcesses measures how long it takes to list the processes of this host.
func BenchmarkListProcesses(b *testing.B) {
	dir, err := os.Open("/proc")
	require.NoError(b, err)
	defer dir.Close()
	p := &processes{dir: dir}
	b.ReportAllocs()
	for b.Loop() {
		require.NotEmpty(b, p.list())
	}
}
