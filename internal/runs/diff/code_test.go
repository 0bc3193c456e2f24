package diff_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/internal/runs/diff"
)

// repo is a git repository that makes patches like workspaces do.
type repo struct{ dir string }

// files are the files of a tree; one that begins with #! is executable.
type files map[string]string

func newRepo(tb testing.TB) repo {
	tb.Helper()
	r := repo{tb.TempDir()}
	r.git(tb, "", "init", "-q", ".")
	return r
}

// fataler is a test or a case of a property.
type fataler interface {
	require.TestingT
	Helper()
}

func (r repo) git(tb fataler, in string, args ...string) string {
	tb.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Stdin = r.dir, strings.NewReader(in)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "GIT_CONFIG_NOSYSTEM=1"}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	require.NoError(tb, err, "git %v\n%s\n%s", args, errs.String(), in)
	return strings.TrimSuffix(string(out), "\n")
}

func (r repo) tree(tb fataler, content files) string {
	r.git(tb, "", "read-tree", "--empty")
	for path, text := range content {
		mode := "100644"
		if strings.HasPrefix(text, "#!") {
			mode = "100755"
		}
		if link, is := strings.CutPrefix(text, "link:"); is {
			mode, text = "120000", link
		}
		id := r.git(tb, text, "hash-object", "-w", "--stdin")
		r.git(tb, "", "update-index", "--add", "--cacheinfo", mode+","+id+","+path)
	}
	return r.git(tb, "", "write-tree")
}

func (r repo) code(tb fataler, base, tree string) diff.Code {
	patch := r.git(tb, "", "diff-tree", "-r", "-p", "--binary", "--full-index", "--no-renames", "--no-color", "--src-prefix=a/", "--dst-prefix=b/", base, tree)
	return diff.Code{Tree: tree, Patch: []byte(patch + "\n")}
}

// compare makes the trees and compares what leads to them, without the trees.
func (r repo) compare(tb fataler, base, left, right files) (d diff.Diff, leftTree, rightTree string) {
	from := r.tree(tb, base)
	leftTree, rightTree = r.tree(tb, left), r.tree(tb, right)
	a, b := side(1), side(2)
	a.Code, b.Code = r.code(tb, from, leftTree), r.code(tb, from, rightTree)
	return diff.Compare(a, b), leftTree, rightTree
}

func lines(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	return b.String()
}

func TestThePatchBetweenTwoRunsLeadsFromOneToTheOther(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	base := files{"long": lines(1, 100), "gone": "x\ny\n", "same": "z\n", "empty": "", "run.sh": "echo\n", "kind": "text\n", "noeol": "a\nb"}
	for name, c := range map[string]struct{ left, right files }{
		"far apart":          {files{"long": strings.Replace(lines(1, 100), "line 5\n", "five\n", 1)}, files{"long": strings.Replace(lines(1, 100), "line 90\n", "", 1)}},
		"overlapping":        {files{"long": strings.Replace(lines(1, 100), "line 50\n", "fifty\n", 1)}, files{"long": strings.Replace(lines(1, 100), "line 51\n", "more\nlines\n", 1)}},
		"both ends":          {files{"long": "first\n" + lines(1, 100)}, files{"long": lines(1, 100) + "last\n"}},
		"the same and more":  {files{"long": "first\n" + lines(1, 100)}, files{"long": "first\n" + lines(1, 99)}},
		"deleted and edited": {files{"gone": "-", "long": "-"}, files{"gone": "x\nq\n", "long": lines(2, 100)}},
		"edited and deleted": {files{"long": lines(2, 100)}, files{"long": "-"}},
		"added twice":        {files{"new": "a\nb\nc\n"}, files{"new": "a\nB\nc\nd\n"}},
		"one side only":      {files{"new": "a\n", "gone": "-"}, files{"same": "y\nz\n"}},
		"modes":              {files{"run.sh": "#!echo\n"}, files{"run.sh": "echo\n# \n"}},
		"end of file":        {files{"noeol": "a\nb\n"}, files{"noeol": "a\nc"}},
		"filled":             {files{"empty": "1\n"}, files{"empty": "2\n2\n"}},
		"rewritten":          {files{"long": lines(200, 300)}, files{"long": lines(300, 350)}},
		"emptied":            {files{"long": ""}, files{"long": lines(1, 99)}},
		"unusual path":       {files{"a b\t\"ä": "1\n"}, files{"a b\t\"ä": "2\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, left, right := r.compare(t, base, over(base, c.left), over(base, c.right))
			require.Empty(t, d.Notes)
			require.True(t, d.Code.SameBase)
			require.False(t, d.Code.Same)
			r.leads(t, d, left, right)
		})
	}
}

// over adds files, replacing others; "-" removes one.
func over(base, more files) files {
	out := files{}
	for path, text := range base {
		out[path] = text
	}
	for path, text := range more {
		if out[path] = text; text == "-" {
			delete(out, path)
		}
	}
	return out
}

// leads checks that git makes the right's tree from the left's with the patch, and
// finds the same changed files.
func (r repo) leads(tb fataler, d diff.Diff, left, right string) {
	r.git(tb, "", "read-tree", left)
	if d.Code.Patch != "" {
		r.git(tb, d.Code.Patch, "apply", "--cached", "--allow-empty", "-")
	}
	require.Equal(tb, right, r.git(tb, "", "write-tree"), "%s", d.Code.Patch)
	var paths []string
	for _, f := range d.Code.Files {
		require.False(tb, f.Unsure)
		paths = append(paths, f.Path)
	}
	var changed []string
	for p := range strings.SplitSeq(strings.TrimSuffix(r.git(tb, "", "diff-tree", "-r", "-z", "--name-only", "--no-renames", left, right), "\x00"), "\x00") {
		if p != "" {
			changed = append(changed, p)
		}
	}
	require.Equal(tb, changed, paths)
}

func TestThePatchBetweenAnyTwoRunsLeadsFromOneToTheOther(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	content := func(t *rapid.T, from []string, label string) string {
		out := []string{}
		for _, l := range from {
			switch rapid.IntRange(0, 9).Draw(t, label) {
			case 0: // removed
			case 1:
				out = append(out, rapid.SampledFrom([]string{"x", "y", "line 3"}).Draw(t, label+" edited"))
			case 2:
				out = append(out, l, rapid.SampledFrom([]string{"x", "y", ""}).Draw(t, label+" added"))
			default:
				out = append(out, l)
			}
		}
		end := rapid.SampledFrom([]string{"\n", ""}).Draw(t, label+" end")
		if len(out) == 0 {
			return ""
		}
		return strings.Join(out, "\n") + end
	}
	rapid.Check(t, func(t *rapid.T) {
		base := make([]string, rapid.IntRange(0, 60).Draw(t, "lines"))
		for i := range base {
			base[i] = fmt.Sprintf("line %d", i%rapid.SampledFrom([]int{7, 100}).Draw(t, "repeats"))
		}
		text := strings.Join(base, "\n") + "\n"
		d, left, right := r.compare(t, files{"f": text}, files{"f": content(t, base, "left")}, files{"f": content(t, base, "right")})
		require.Empty(t, d.Notes)
		r.leads(t, d, left, right)
	})
}

func TestBinaryFilesAndOtherKindsAreNamedWithoutLines(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	d, _, _ := r.compare(t, files{"b": "\x00old", "k": "text\n"}, files{"b": "\x00left", "k": "text\n"}, files{"b": "\x00right", "k": "link:elsewhere"})
	require.Equal(t, []diff.FileDiff{{Path: "b", Status: diff.FileModified, Binary: true}, {Path: "k", Status: diff.FileModified, Added: 1, Removed: 1}}, d.Code.Files)
	require.Contains(t, d.Code.Patch, "Binary files a/b and b/b differ")
}

func TestTheSameTreeIsTheSameCodeWhereverItCameFrom(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	one, two, end := r.tree(t, files{"f": "1\n"}), r.tree(t, files{"f": "2\n"}), r.tree(t, files{"f": "3\n"})
	a, b := side(1), side(2)
	a.Code, b.Code, b.Base = r.code(t, one, end), r.code(t, two, end), "beef"
	d := diff.Compare(a, b)
	require.True(t, d.Code.Same)
	require.False(t, d.Code.SameBase)
	require.Empty(t, d.Code.Files)
}

func TestRunsOnDifferentBasesAreComparedOnlyWhereKnown(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	one, two := files{"moved": "1\n", "both": "1\n", "left": "1\n", "stays": "1\n2\n"}, files{"moved": "2\n", "both": "2\n", "left": "1\n", "stays": "1\n2\n"}
	a, b := side(1), side(2)
	a.Code = r.code(t, r.tree(t, one), r.tree(t, over(one, files{"both": "1\nl\n", "left": "1\nl\n", "stays": "0\n1\n2\n", "new": "a\n"})))
	b.Code, b.Base = r.code(t, r.tree(t, two), r.tree(t, over(two, files{"both": "2\nr\nr\n", "stays": "1\n2\n3\n", "new": "a\n"}))), "beef"
	d := diff.Compare(a, b)
	require.False(t, d.Code.SameBase)
	require.Equal(t, []diff.FileDiff{
		{Path: "both", Status: diff.FileModified, Unsure: true},
		{Path: "left", Status: diff.FileModified, Removed: 1, Unsure: true},
		{Path: "stays", Status: diff.FileModified, Added: 1, Removed: 1},
	}, d.Code.Files, "a file that both found the same is compared exactly; one that both made the same is the same")
	require.Contains(t, strings.Join(d.Notes, "\n"), "started from different commits")
}

func TestALongPatchIsCutAndTheListOfFilesIsNot(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	big := files{}
	for i := range 5 {
		big[fmt.Sprintf("f%d", i)] = strings.Repeat("a line of some length that is added\n", 3000)
	}
	d, _, _ := r.compare(t, files{}, files{}, big)
	require.True(t, d.Code.PatchCut)
	require.LessOrEqual(t, len(d.Code.Patch), diff.MaxPatch)
	require.True(t, strings.HasSuffix(d.Code.Patch, "\n"))
	require.Len(t, d.Code.Files, 5)
	require.EqualValues(t, 15000, d.Code.Added)
}

func TestSecretsInTheCodeAreNotShown(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	secret := "https://user:hunter2hunter2@example.com/x"
	d, _, _ := r.compare(t, files{"f": "a\n"}, files{"f": "a\n"}, files{"f": "a\n" + secret + "\n"})
	require.NotContains(t, d.Code.Patch, "hunter2")
	require.Contains(t, d.Code.Patch, "example.com")
}

func TestCodeThatIsMissingOrBrokenIsSaidAndNotGuessed(t *testing.T) {
	t.Parallel()
	a, b := side(1), side(2)
	a.Code = diff.Code{Why: "no code is recorded: the builder did not run"}
	b.Code = diff.Code{Tree: "beef"}
	d := diff.Compare(a, b)
	require.False(t, d.Code.LeftRecorded)
	require.True(t, d.Code.RightRecorded)
	require.False(t, d.Code.Same)
	require.Contains(t, d.Notes, "1: no code is recorded: the builder did not run")
	for _, patch := range []string{"garbage", "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1,9 +1,9 @@\n x\n"} {
		a.Code = diff.Code{Tree: "c0ffee", Patch: []byte(patch)}
		d = diff.Compare(a, b)
		require.False(t, d.Code.LeftRecorded, patch)
		require.Contains(t, strings.Join(d.Notes, "\n"), "cannot be parsed", patch)
		require.Empty(t, d.Code.Files)
	}
}

func FuzzPatchesNeverCrashTheComparison(f *testing.F) {
	r := newRepo(f)
	from := r.tree(f, files{"f": lines(1, 30)})
	f.Add(r.code(f, from, r.tree(f, files{"f": lines(2, 30)})).Patch, r.code(f, from, r.tree(f, files{"f": lines(1, 31)})).Patch)
	f.Add(r.code(f, from, r.tree(f, files{"f": "\x00"})).Patch, r.code(f, from, r.tree(f, files{"g": "link:x"})).Patch)
	f.Fuzz(func(t *testing.T, left, right []byte) {
		a, b := side(1), side(2)
		a.Code, b.Code = diff.Code{Tree: "a", Patch: left}, diff.Code{Tree: "b", Patch: right}
		d := diff.Compare(a, b)
		for _, file := range d.Code.Files {
			require.GreaterOrEqual(t, file.Added, int64(0))
		}
	})
}
