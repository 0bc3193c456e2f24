package vectors_test

import (
	"cmp"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/brain/vectors"
)

var space = vectors.Space{Model: "p/m"}

func key(n int) vectors.Key {
	var k vectors.Key
	binary.BigEndian.PutUint32(k[:], uint32(n))
	return k
}

func random(r *rand.Rand, dims int) []float32 {
	v := make([]float32, dims)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

func cosine(a, b []float32) float64 {
	var dot, x, y float64
	for i := range a {
		dot, x, y = dot+float64(a[i])*float64(b[i]), x+float64(a[i])*float64(a[i]), y+float64(b[i])*float64(b[i])
	}
	return dot / math.Sqrt(x*y)
}

func compact(t testing.TB, v []float32) []byte {
	t.Helper()
	b, err := vectors.Compact(v)
	require.NoError(t, err)
	return b
}

func open(t testing.TB, dir string) *vectors.File {
	t.Helper()
	f, err := vectors.Open(dir, space)
	require.NoError(t, err)
	return f
}

// fill stores vectors of documents, some of which have several, and returns them.
func fill(t testing.TB, f *vectors.File, docs, dims int) (keys []vectors.Key, all [][][]float32) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	var list []vectors.Entry
	for doc := range docs {
		e := vectors.Entry{Key: key(doc)}
		var own [][]float32
		for range 1 + doc%3 {
			v := random(r, dims)
			own, e.Parts = append(own, v), append(e.Parts, compact(t, v))
		}
		keys, all, list = append(keys, e.Key), append(all, own), append(list, e)
	}
	require.NoError(t, f.Add(list))
	return keys, all
}

func TestTheNearestDocumentsAreThoseOfAnExactComparison(t *testing.T) {
	t.Parallel()
	for _, dims := range []int{3, 8, 61, 384} {
		f := open(t, t.TempDir())
		keys, all := fill(t, f, 5000, dims)
		question := random(rand.New(rand.NewPCG(3, uint64(dims))), dims)
		found, err := f.Select(keys).Nearest(question, 20, func(doc uint32) bool { return doc%2 == 0 })
		require.NoError(t, err)
		require.Len(t, found, 20)
		exact := make([]float64, len(all))
		for doc, own := range all {
			exact[doc] = -2
			for _, v := range own {
				exact[doc] = max(exact[doc], cosine(question, v))
			}
		}
		order := []float64{}
		for doc := 0; doc < len(exact); doc += 2 {
			order = append(order, exact[doc])
		}
		slices.SortFunc(order, func(a, b float64) int { return cmp.Compare(b, a) })
		for i, s := range found {
			require.Zero(t, s.Doc%2)
			require.InDelta(t, exact[s.Doc], s.Score, 0.02, "what is stored is almost what was computed")
			require.InDelta(t, order[i], exact[s.Doc], 0.02)
			require.True(t, i == 0 || s.Score <= found[i-1].Score)
		}
	}
}

func TestVectorsOutliveTheProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, _ := fill(t, open(t, dir), 100, 8)
	again := open(t, dir)
	require.Equal(t, 8, again.Dimensions())
	require.Equal(t, 100, again.Select(keys).Documents())
	require.False(t, again.Has(key(100)))
	other, err := vectors.Open(dir, vectors.Space{Model: "p/m", Dimensions: 8})
	require.NoError(t, err)
	require.Zero(t, other.Select(keys).Documents(), "another space has other vectors")
}

func TestWhatAnotherProcessAddsIsFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	mine, its := open(t, dir), open(t, dir)
	keys, _ := fill(t, its, 10, 8)
	before := mine.Generation()
	require.NoError(t, mine.Refresh())
	require.NotEqual(t, before, mine.Generation())
	require.Equal(t, 10, mine.Select(keys).Documents())
	require.NoError(t, mine.Add([]vectors.Entry{{Key: key(10), Parts: [][]byte{compact(t, make8(1))}}}))
	require.NoError(t, its.Refresh())
	require.True(t, its.Has(key(10)))
}

func make8(x float32) []float32 { return []float32{x, 2, 3, 4, 5, 6, 7, 8} }

func TestVectorsOfAnotherLengthAreRefused(t *testing.T) {
	t.Parallel()
	f := open(t, t.TempDir())
	keys, _ := fill(t, f, 10, 8)
	err := f.Add([]vectors.Entry{{Key: key(11), Parts: [][]byte{compact(t, []float32{1, 2})}}})
	require.ErrorIs(t, err, vectors.ErrDimensions)
	_, err = f.Select(keys).Nearest([]float32{1, 2}, 5, nil)
	require.ErrorIs(t, err, vectors.ErrDimensions)
	require.False(t, f.Has(key(11)))
}

func TestVectorsWithoutADirectionAreRefused(t *testing.T) {
	t.Parallel()
	for _, v := range [][]float32{nil, {0, 0}, {float32(math.NaN()), 1}, {float32(math.Inf(1)), 1}} {
		_, err := vectors.Compact(v)
		require.Error(t, err)
	}
}

func TestWhatAKilledProcessLeftIsWrittenOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keys, _ := fill(t, open(t, dir), 9, 8)
	name := only(t, dir)
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	for _, cut := range []int{1, 30, 40, 100} {
		require.NoError(t, os.WriteFile(name, content[:len(content)-cut], 0o600))
		f := open(t, dir)
		require.Less(t, f.Select(keys).Documents(), 9)
		require.False(t, f.Has(keys[8]), "a key with fewer vectors than it should have is missing")
		fill(t, f, 9, 8)
		require.Equal(t, 9, f.Select(keys).Documents())
		require.Equal(t, 9, open(t, dir).Select(keys).Documents())
	}
	content[len(content)-1] ^= 1
	require.NoError(t, os.WriteFile(name, content, 0o600))
	require.False(t, open(t, dir).Has(keys[8]), "its checksum is wrong")
}

// only returns the file with vectors in a directory.
func only(t *testing.T, dir string) string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.vectors"))
	require.NoError(t, err)
	require.Len(t, names, 1)
	return names[0]
}

func TestUnusedVectorsLeaveTheDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, dir)
	keys, _ := fill(t, f, 6000, 8)
	set := f.Select(keys)
	require.NoError(t, f.Prune(keys))
	before, err := os.Stat(only(t, dir))
	require.NoError(t, err)
	kept := keys[:60]
	require.NoError(t, f.Prune(kept))
	after, err := os.Stat(only(t, dir))
	require.NoError(t, err)
	require.Less(t, after.Size(), before.Size()/50)
	require.Equal(t, 60, f.Select(keys).Documents())
	found, err := set.Nearest(make8(1), 5, nil)
	require.NoError(t, err, "a set in use keeps its file")
	require.Len(t, found, 5)
	fill(t, f, 100, 8)
	require.Equal(t, 100, open(t, dir).Select(keys).Documents())
}

func TestTheVectorsOfAnotherModelLeaveTheDiskAfterADay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fill(t, open(t, dir), 3, 8)
	old := only(t, dir)
	f, err := vectors.Open(dir, vectors.Space{Model: "p/other"})
	require.NoError(t, err)
	keys, _ := fill(t, f, 3, 4)
	require.NoError(t, f.Prune(keys))
	require.FileExists(t, old)
	past := time.Now().Add(-48 * time.Hour)
	require.NoError(t, os.Chtimes(old, past, past))
	require.NoError(t, f.Prune(keys))
	require.NoFileExists(t, old)
	require.Equal(t, 3, f.Select(keys).Documents())
}

func TestStoredVectorsAreReadAgainOrRefused(t *testing.T) {
	t.Parallel()
	parts := [][]byte{compact(t, make8(1)), compact(t, make8(5))}
	got, err := vectors.Decode(vectors.Encode(parts))
	require.NoError(t, err)
	require.Equal(t, parts, got)
	for _, b := range [][]byte{nil, {1}, {0, 0}, {8, 0}, {8, 0, 1, 2, 3}, []byte(strings.Repeat("x", 100))} {
		_, err := vectors.Decode(b)
		require.Error(t, err, "%v", b)
	}
}

func BenchmarkNearest(b *testing.B) {
	f := open(b, b.TempDir())
	r := rand.New(rand.NewPCG(1, 2))
	var keys []vectors.Key
	for first := 0; first < 100_000; first += 1000 {
		var list []vectors.Entry
		for i := range 1000 {
			e := vectors.Entry{Key: key(first + i)}
			for range 3 {
				e.Parts = append(e.Parts, compact(b, random(r, 384)))
			}
			keys, list = append(keys, e.Key), append(list, e)
		}
		require.NoError(b, f.Add(list))
	}
	set := f.Select(keys)
	question := random(r, 384)
	before := processor(b)
	for b.Loop() {
		_, err := set.Nearest(question, 200, nil)
		require.NoError(b, err)
	}
	b.ReportMetric(float64(processor(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
}

// processor returns the time that processors have worked for this process.
func processor(b *testing.B) time.Duration {
	b.Helper()
	var use syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &use))
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func TestFilesHaveTheTextsThatSayWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	texts := vectors.Texts("internal/http/retryPolicy.go", []byte("// Package http sends requests.\npackage http\n\n// Delay returns the time before an HTTP request is repeated.\nfunc (p *RetryPolicy) nextDelay() {}\n"))
	require.Contains(t, texts[0], "internal http retry Policy go")
	require.Contains(t, strings.Join(texts, "\n"), "next Delay")
	require.Contains(t, strings.Join(texts, "\n"), "Delay returns the time before an HTTP request is repeated.")
	require.NotEmpty(t, vectors.Texts("empty.txt", nil)[0])
}
