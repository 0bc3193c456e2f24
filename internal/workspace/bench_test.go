package workspace

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/contract"
)

// cpuTime is the CPU time of this process and of those that it waited for.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var sum int64
	for _, who := range []int{unix.RUSAGE_SELF, unix.RUSAGE_CHILDREN} {
		var usage unix.Rusage
		require.NoError(b, unix.Getrusage(who, &usage))
		sum += usage.Utime.Nano() + usage.Stime.Nano()
	}
	return time.Duration(sum)
}

// toolCall opens a step's directory, changes one file and saves, as each call
// of a tool that writes does.
func toolCall(b *testing.B, m *Manager, ws contract.Workspace, key, path, content string) contract.Workspace {
	b.Helper()
	d, err := m.Open(b.Context(), ws, key)
	require.NoError(b, err)
	defer d.Close()
	write(b, d.Path(), path, content)
	after, err := d.SaveFile(b.Context(), path)
	require.NoError(b, err)
	return after
}

func view(b *testing.B, m *Manager, ws contract.Workspace, key string) {
	b.Helper()
	d, err := m.View(b.Context(), ws, key)
	require.NoError(b, err)
	d.Close()
}

// A run's share of this package: steps side by side, each with some tool calls, then
// integration, a clean checkout for verification, and release.
func BenchmarkRun(b *testing.B) {
	for _, shape := range []struct{ files, steps, calls int }{{10, 6, 1}, {200, 6, 3}, {5000, 6, 3}} {
		b.Run(fmt.Sprintf("files=%d/steps=%d/calls=%d", shape.files, shape.steps, shape.calls), func(b *testing.B) {
			files := map[string]string{".gitignore": "node_modules/\n*.log\nbin/\n"}
			for i := range shape.files {
				files[fmt.Sprintf("dir%d/sub%d/file%d.go", i%7, i%31, i)] = fmt.Sprintf("package p\n\n// %d\n", i)
			}
			m := newManager(b)
			repo, ws := start(b, m, newRepo(b, files))
			run := 0
			began, processes := cpuTime(b), m.GitProcesses()
			for b.Loop() {
				run++
				benchRun(b, m, repo, ws, run, shape.steps, shape.calls)
			}
			b.ReportMetric(float64(m.GitProcesses()-processes)/float64(b.N), "git/op")
			b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

func benchRun(b *testing.B, m *Manager, repo contract.Repo, ws contract.Workspace, run, steps, calls int) {
	b.Helper()
	var changes []contract.Change
	for step := range steps {
		_, err := m.Files(b.Context(), ws)
		require.NoError(b, err)
		key := fmt.Sprintf("%d/step-%03d/1", run, step)
		now := ws
		for c := range calls {
			path := fmt.Sprintf("dir%d/new%d.go", step, step)
			if c == 1 {
				path = fmt.Sprintf("dir%d/sub%d/file%d.go", step, step, step) // there already
			}
			now = toolCall(b, m, now, key, path, fmt.Sprintf("package p\n\n// run %d, step %d, call %d\n", run, step, c))
			view(b, m, now, key)
		}
		changes = append(changes, contract.Change{Step: key, From: ws.Slim(), To: now.Slim()})
	}
	final, stages, conflict, err := m.Fold(b.Context(), ws, changes)
	require.NoError(b, err)
	require.Nil(b, conflict)
	view(b, m, final, fmt.Sprint(run)+"/tester_running/1/plan")
	d, err := m.Open(b.Context(), final, fmt.Sprint(run)+"/tester_running/1/test")
	require.NoError(b, err)
	_, err = os.Stat(filepath.Join(d.Path(), "dir0", "new0.go"))
	d.Close()
	require.NoError(b, err)
	commit, err := m.Commits(b.Context(), repo, stages, make([]CommitMessage, len(stages)))
	require.NoError(b, err)
	require.NoError(b, m.Publish(b.Context(), repo, commit, fmt.Sprintf("rgpt/run-%d", run), PublishOptions{}))
	_, err = m.Diff(b.Context(), final, 0)
	require.NoError(b, err)
	_, err = m.DiffStat(b.Context(), final)
	require.NoError(b, err)
	require.NoError(b, m.CleanUp(b.Context(), fmt.Sprint(run)))
}

// The release of a run into a repository that has the branches of earlier runs: the CPU time of all
// processes must hardly depend on their number.
func BenchmarkPublish(b *testing.B) {
	for _, branches := range []int{10, 2000} {
		b.Run(fmt.Sprintf("branches=%d", branches), func(b *testing.B) {
			m := newManager(b)
			repo, ws := start(b, m, newRepo(b, map[string]string{"a.txt": "a\n"}))
			publish := func(n int) {
				after := toolCall(b, m, ws, fmt.Sprint(n), "b.txt", fmt.Sprint(n))
				require.NoError(b, m.CleanUp(b.Context(), fmt.Sprint(n)))
				commit, err := m.Commits(b.Context(), repo, []contract.Workspace{after}, []CommitMessage{{Subject: "Change"}})
				require.NoError(b, err)
				require.NoError(b, m.Publish(b.Context(), repo, commit, fmt.Sprintf("rgpt/run-%d", n), PublishOptions{}))
			}
			n := 0
			for ; n < branches; n++ {
				publish(n)
			}
			began := cpuTime(b)
			for b.Loop() {
				n++
				publish(n)
			}
			b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

// The directory of a check: a new one that is removed with its run, and one that the next check uses again.
// The check's command changes one file and adds ten.
func BenchmarkCheckDirectory(b *testing.B) {
	for _, count := range []int{90, 5000} {
		files := map[string]string{}
		for i := range count {
			files[fmt.Sprintf("dir%d/sub%d/file%d.go", i%7, i%31, i)] = fmt.Sprintf("package p\n\n// %d\n", i)
		}
		repo := newRepo(b, files)
		command := func(b *testing.B, dir string, n int) {
			b.Helper()
			write(b, dir, "dir0/sub0/file0.go", fmt.Sprint(n))
			for i := range 10 {
				write(b, dir, fmt.Sprintf("build/out%d", i), "out")
			}
		}
		for name, check := range map[string]func(b *testing.B, m *Manager, ws contract.Workspace, n int){
			"Open+CleanUp": func(b *testing.B, m *Manager, ws contract.Workspace, n int) {
				b.Helper()
				d, err := m.Open(b.Context(), ws, fmt.Sprint(n))
				require.NoError(b, err)
				command(b, d.Path(), n)
				d.Close()
				require.NoError(b, m.CleanUp(b.Context(), fmt.Sprint(n)))
			},
			"OpenCheckout+GiveBack": func(b *testing.B, m *Manager, ws contract.Workspace, n int) {
				b.Helper()
				c, err := m.OpenCheckout(b.Context(), ws, fmt.Sprint(n), true)
				require.NoError(b, err)
				command(b, c.Path(), n)
				require.NoError(b, c.GiveBack(b.Context()))
			},
		} {
			b.Run(fmt.Sprintf("files=%d/%s", count, name), func(b *testing.B) {
				m := newManager(b, onDisk(b))
				_, ws := start(b, m, repo)
				check(b, m, ws, 0)
				n := 0
				began, processes := cpuTime(b), m.GitProcesses()
				for b.Loop() {
					n++
					check(b, m, ws, n)
				}
				b.ReportMetric(float64(m.GitProcesses()-processes)/float64(b.N), "git/op")
				b.ReportMetric(float64((cpuTime(b)-began).Microseconds())/1000/float64(b.N), "cpu-ms/op")
			})
		}
	}
}
