package brain_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain"
	"github.com/rocketgpt/orchestrator/internal/brain/extract"
	"github.com/rocketgpt/orchestrator/internal/brain/history"
	"github.com/rocketgpt/orchestrator/internal/brain/index"
	"github.com/rocketgpt/orchestrator/internal/brain/terms"
)

// sources returns files that people wrote: those below BRAIN_SOURCES or, if it is not set, those of
// this project.
func sources(tb testing.TB) map[string]string {
	tb.Helper()
	root := os.Getenv("BRAIN_SOURCES")
	if root == "" {
		root = "../.."
	}
	files := map[string]string{}
	require.NoError(tb, filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() || strings.Contains(path, "/.git/") {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if ok, _ := extract.WantedPath(filepath.ToSlash(rel), info.Size(), extract.DefaultMaxFileSize); err != nil || !ok {
			return err
		}
		content, err := os.ReadFile(path)
		if ok, _ := extract.WantedContent(rel, content); ok {
			files[filepath.ToSlash(rel)] = string(content)
		}
		return err
	}))
	return files
}

// synthetic are files made of real ones: copies in other directories, each with a definition of its own,
// so that no two have the same content. Contents are made when they are read, so that they do not count
// as memory.
type synthetic struct {
	names []string // ascending
	of    []string // of each, the real one
	real  map[string]string
}

func newSynthetic(tb testing.TB, n int) *synthetic {
	tb.Helper()
	s := &synthetic{real: sources(tb)}
	paths := slices.Sorted(maps.Keys(s.real))
	for i := range n {
		s.names = append(s.names, fmt.Sprintf("part%03d/%s", i/len(paths), paths[i%len(paths)]))
	}
	slices.Sort(s.names)
	for _, name := range s.names {
		_, of, _ := strings.Cut(name, "/")
		s.of = append(s.of, of)
	}
	return s
}

func (s *synthetic) content(i int) []byte {
	return fmt.Appendf(nil, "%s\nfunction own%d() {}\n", s.real[s.of[i]], i)
}

// BenchmarkExtraction measures how many files are extracted and counted in a second, by one processor.
func BenchmarkExtraction(b *testing.B) {
	files := newSynthetic(b, 2000)
	contents := make([][]byte, len(files.names))
	size := 0
	for i := range contents {
		contents[i] = files.content(i)
		size += len(contents[i])
	}
	b.SetBytes(int64(size))
	for b.Loop() {
		for i, name := range files.names {
			index.NewRecord(name, contents[i])
		}
	}
	b.ReportMetric(float64(len(contents)*b.N)/b.Elapsed().Seconds(), "files/s")
}

const benchFiles = 100_000

// BenchmarkIndexOf100000Files measures the first indexing by one processor, without git and database,
// one changed file, an index that a new process opens, queries, and the memory.
func BenchmarkIndexOf100000Files(b *testing.B) {
	all := newSynthetic(b, benchFiles)
	files := make([]index.File, len(all.names))
	for i, name := range all.names {
		files[i] = index.File{Path: name, Key: index.KeyOf(fmt.Sprint(i), name, extract.DefaultMaxFileSize)}
	}
	fetch := func(missing []int, add func(int, *index.Record) error) error {
		for _, i := range missing {
			r := index.NewRecord(all.names[i], all.content(i))
			if err := add(i, &r); err != nil {
				return err
			}
		}
		return nil
	}
	open := func(root string) *index.Dir {
		d, err := index.Open(root, "repo")
		require.NoError(b, err)
		b.Cleanup(d.Close)
		return d
	}
	for b.Loop() {
		root := b.TempDir()
		runtime.GC()
		stop := peak()
		began := time.Now()
		d := open(root)
		_, err := d.Update(b.Context(), "first", files, fetch)
		require.NoError(b, err)
		b.ReportMetric(float64(len(files))/time.Since(began).Seconds(), "files/s")
		b.ReportMetric(float64(stop())/(1<<20), "peak-MB")
		b.ReportMetric(float64(d.Size())/(1<<20), "disk-MB")

		files[777].Key = index.KeyOf(fmt.Sprint("edited", b.N, time.Now()), all.names[777], extract.DefaultMaxFileSize)
		began = time.Now()
		snapshot, err := d.Update(b.Context(), "second", files, fetch)
		require.NoError(b, err)
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "one-changed-ms")

		began = time.Now()
		files[778].Key = index.KeyOf(fmt.Sprint("edited", b.N, time.Now()), all.names[778], extract.DefaultMaxFileSize)
		_, err = open(root).Update(b.Context(), "third", files, fetch)
		require.NoError(b, err)
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "one-changed-new-process-ms")

		view := brain.View{Corpus: snapshot, Contents: func(_ context.Context, docs []uint32) ([][]byte, error) {
			out := make([][]byte, len(docs))
			for i, doc := range docs {
				at, _ := slices.BinarySearch(all.names, snapshot.Path(doc))
				out[i] = all.content(at)
			}
			return out, nil
		}}
		began = time.Now()
		view.Past = pastOf(all)
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "history-ms")
		stop = peak()
		b.ReportMetric(queries(b, view, all), "query-p95-ms")
		began = time.Now()
		_, err = view.Map("serve requests", 1500)
		require.NoError(b, err)
		b.ReportMetric(float64(time.Since(began).Milliseconds()), "map-ms")
		b.ReportMetric(float64(stop())/(1<<20), "query-peak-MB")
	}
}

// pastOf is a history of as many commits as a search uses by default, each of which changes up to 8
// files and has words of one of them as its message.
func pastOf(all *synthetic) *history.History {
	const most = 5000
	random := rand.New(rand.NewPCG(3, 4))
	commits := make([]history.Commit, most)
	for i := range commits {
		text := all.content(random.IntN(len(all.names)))
		start := random.IntN(len(text))
		c := history.Commit{
			ID: fmt.Sprintf("%040d", i), Time: time.Unix(1_700_000_000-int64(i)*3600, 0), Message: string(text[start:min(len(text), start+300)]),
		}
		for range 1 + random.IntN(8) {
			c.Changes = append(c.Changes, history.Change{Path: all.names[random.IntN(len(all.names))]})
		}
		commits[i] = c
	}
	return history.New(commits, most, history.Tuned())
}

// queries returns the 95th percentile of the time of a question of 12 words, each taken from random
// places of the files.
func queries(b *testing.B, v brain.View, all *synthetic) float64 {
	b.Helper()
	began := time.Now()
	_, err := v.Search(b.Context(), brain.Query{Text: "warm"})
	require.NoError(b, err)
	b.ReportMetric(float64(time.Since(began).Milliseconds()), "first-query-ms")
	random := rand.New(rand.NewPCG(1, 2))
	var times []time.Duration
	for range 200 {
		var words []string
		text := all.content(random.IntN(len(all.names)))
		start := random.IntN(len(text))
		terms.Split(text[start:min(len(text), start+400)], func(term []byte) {
			if len(words) < 12 {
				words = append(words, string(term))
			}
		})
		if len(words) == 0 {
			continue
		}
		began := time.Now()
		_, err := v.Search(b.Context(), brain.Query{Text: strings.Join(words, " ")})
		require.NoError(b, err)
		times = append(times, time.Since(began))
	}
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "query-p50-ms")
	return float64(times[len(times)*95/100].Microseconds()) / 1000
}

// peak measures the memory in use beyond what is in use now, until the returned function is called.
func peak() func() uint64 {
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan uint64)
	go func() {
		most := uint64(0)
		ticker := time.NewTicker(50 * time.Millisecond)
		defer ticker.Stop()
		for {
			var now runtime.MemStats
			runtime.ReadMemStats(&now)
			if now.HeapInuse > before.HeapInuse {
				most = max(most, now.HeapInuse-before.HeapInuse)
			}
			select {
			case <-ctx.Done():
				result <- most
				return
			case <-ticker.C:
			}
		}
	}()
	return func() uint64 {
		cancel()
		return <-result
	}
}
