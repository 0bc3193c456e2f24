package ext4_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/ext4"
)

// BenchmarkComeAndGo creates and removes directories with 50 files each, as runs do, in a plain directory and in one
// whose subdirectories are spread, in turns, and reports the time for each file.
func BenchmarkComeAndGo(b *testing.B) {
	const files = 50
	dirs := map[string]string{}
	for _, name := range []string{"plain", "spread"} {
		dirs[name] = filepath.Join(b.TempDir(), name)
		require.NoError(b, os.Mkdir(dirs[name], 0o755))
	}
	ext4.SpreadSubdirectories(dirs["spread"])
	took := map[string]time.Duration{}
	n := 0
	for b.Loop() {
		for name, dir := range dirs {
			sub := filepath.Join(dir, fmt.Sprint(n))
			began := time.Now()
			require.NoError(b, os.Mkdir(sub, 0o755))
			for i := range files {
				require.NoError(b, os.WriteFile(filepath.Join(sub, fmt.Sprint(i)), []byte("text\n"), 0o600))
			}
			took[name] += time.Since(began)
			require.NoError(b, os.RemoveAll(sub))
		}
		n++
	}
	for name, d := range took {
		b.ReportMetric(float64(d.Microseconds())/float64(n*files), "µs/file-"+name)
	}
	b.ReportMetric(float64(took["plain"])/float64(took["spread"]), "times-as-long")
	b.ReportMetric(0, "ns/op")
}
