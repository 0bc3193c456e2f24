package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// BenchmarkRunTrue measures what a sandbox costs over the bare command.
func BenchmarkRunTrue(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		for b.Loop() {
			require.NoError(b, exec.Command("true").Run())
		}
	})
	b.Run("sandbox", func(b *testing.B) {
		p, err := runner()
		require.NoError(b, err)
		root := b.TempDir()
		for b.Loop() {
			res, err := p.Run(b.Context(), Command{Root: root, Args: []string{"true"}})
			require.NoError(b, err)
			require.True(b, res.OK())
		}
	})
}

// A node_modules of usual size.
const (
	benchFiles     = 30_000
	benchFileBytes = 10_000 // 300 MB in all
	benchPerDir    = 50
)

// BenchmarkBase measures what a large base costs a command, as a ratio to the same
// command without one, and what a copy of it would cost.
func BenchmarkBase(b *testing.B) {
	base, err := filepath.EvalSymlinks(b.TempDir())
	require.NoError(b, err)
	content := bytes.Repeat([]byte("x"), benchFileBytes)
	for n := range benchFiles {
		dir := filepath.Join(base, "node_modules", fmt.Sprint("p", n/benchPerDir))
		if n%benchPerDir == 0 {
			require.NoError(b, os.MkdirAll(dir, 0o755))
		}
		require.NoError(b, os.WriteFile(filepath.Join(dir, fmt.Sprint("f", n)), content, 0o644))
	}
	p, err := runner()
	require.NoError(b, err)
	run := func(base string) time.Duration {
		root, err := filepath.EvalSymlinks(b.TempDir())
		require.NoError(b, err)
		res, err := p.Run(b.Context(), Command{Root: root, WorkspaceBase: base, Args: []string{"true"}})
		require.NoError(b, err)
		require.True(b, res.OK())
		require.False(b, res.BaseCopied)
		return res.Duration
	}
	b.Run("overlay", func(b *testing.B) {
		var without, with time.Duration
		for b.Loop() {
			without += run("")
			with += run(base)
		}
		b.ReportMetric(float64(with)/float64(without), "with-base/without")
	})
	b.Run("copy", func(b *testing.B) {
		root, err := filepath.EvalSymlinks(b.TempDir())
		require.NoError(b, err)
		c, err := p.complete(Command{Root: root, WorkspaceBase: base, Args: []string{"true"}})
		require.NoError(b, err)
		for b.Loop() {
			c.Root = filepath.Join(root, fmt.Sprint(b.N, time.Now().UnixNano()))
			require.NoError(b, os.Mkdir(c.Root, 0o755))
			require.NoError(b, copyBases(b.Context(), c, time.Now()))
			b.StopTimer()
			require.NoError(b, os.RemoveAll(c.Root))
			b.StartTimer()
		}
	})
}
