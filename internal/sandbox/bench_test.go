package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// BenchmarkRunTrue measures what a sandbox costs over the bare command: wall time, and the CPU time
// of this process and its children, also if this process has as much memory as a busy worker.
func BenchmarkRunTrue(b *testing.B) {
	b.Run("plain", func(b *testing.B) {
		reportCPU(b, func() { require.NoError(b, exec.Command("true").Run()) })
	})
	p, err := runner()
	require.NoError(b, err)
	root := b.TempDir()
	equipped, err := NewProcess(Options{Toolchains: DetectToolchains()})
	require.NoError(b, err)
	sandboxed := func(p *Process) func(b *testing.B) {
		return func(b *testing.B) {
			reportCPU(b, func() {
				res, err := p.Run(b.Context(), Command{Root: root, Args: []string{"true"}})
				require.NoError(b, err)
				require.True(b, res.OK())
			})
		}
	}
	b.Run("sandbox", sandboxed(p))
	b.Run("sandbox with toolchains", sandboxed(equipped))
	memory := bytes.Repeat([]byte("x"), benchWorkerBytes)
	b.Run("sandbox of a large worker", sandboxed(p))
	runtime.KeepAlive(memory)
}

// benchWorkerBytes is the memory of a busy worker.
const benchWorkerBytes = 256 << 20

// reportCPU repeats a call and reports the CPU time of each.
func reportCPU(b *testing.B, call func()) {
	before := cpuTime(b)
	for b.Loop() {
		call()
	}
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N)/float64(time.Millisecond), "cpu-ms/op")
}

// cpuTime returns the CPU time of this process and of its children that have ended.
func cpuTime(b *testing.B) time.Duration {
	var sum time.Duration
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		require.NoError(b, unix.Getrusage(who, &usage))
		sum += time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	return sum
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
