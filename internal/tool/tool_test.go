package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// toolFixture is a workspace to call tools on.
type toolFixture struct {
	t   testing.TB
	env Env
	set *Set
}

func newToolFixture(t testing.TB, files map[string]string) *toolFixture {
	t.Helper()
	// The workspace is beside a file that must never be reached.
	top := t.TempDir()
	root := filepath.Join(top, "work")
	require.NoError(t, os.Mkdir(root, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(top, "secret"), []byte("canary"), 0o644))
	b := &toolFixture{t: t, env: Env{Root: root}}
	for name, content := range files {
		b.write(name, content)
	}
	set, err := Builtin().Set()
	require.NoError(t, err)
	b.set = set
	return b
}

func (b *toolFixture) path(name string) string { return filepath.Join(b.env.Root, name) }

func (b *toolFixture) write(name, content string) {
	b.t.Helper()
	require.NoError(b.t, os.MkdirAll(filepath.Dir(b.path(name)), 0o755))
	require.NoError(b.t, os.WriteFile(b.path(name), []byte(content), 0o644))
}

func (b *toolFixture) content(name string) string {
	b.t.Helper()
	content, err := os.ReadFile(b.path(name))
	require.NoError(b.t, err)
	return string(content)
}

type args map[string]any

func (b *toolFixture) call(name string, a args) Result {
	b.t.Helper()
	raw, err := json.Marshal(a)
	require.NoError(b.t, err)
	result, err := b.set.Call(b.t.Context(), b.env, name, raw)
	require.NoError(b.t, err)
	return result
}

func (b *toolFixture) requireCanary() {
	b.t.Helper()
	content, err := os.ReadFile(filepath.Join(filepath.Dir(b.env.Root), "secret"))
	require.NoError(b.t, err)
	require.Equal(b.t, "canary", string(content))
}

func TestDefinitionsDescribeEachToolToModels(t *testing.T) {
	t.Parallel()
	set, err := Builtin().Set()
	require.NoError(t, err)
	var names, readOnly, long []string
	for _, d := range set.Definitions() {
		names = append(names, d.Name)
		if d.ReadOnly {
			readOnly = append(readOnly, d.Name)
		}
		if d.Long {
			long = append(long, d.Name)
		}
		require.NotEmpty(t, d.Description)
		var schema struct {
			Type       string         `json:"type"`
			Properties map[string]any `json:"properties"`
			Additional *bool          `json:"additionalProperties"`
		}
		require.NoError(t, json.Unmarshal(d.Parameters, &schema), d.Name)
		require.Equal(t, "object", schema.Type)
		require.NotNil(t, schema.Additional, "a misspelt argument must be refused")
		require.False(t, *schema.Additional)
		require.NotContains(t, string(d.Parameters), "$ref")
	}
	require.Equal(t, []string{
		ReadFile, ListFiles, Search, EditFile, CreateFile, DeleteFile, RevertFile, Diff, History,
		RunCommand, Check, CheckBase, ReadOutput, Todo, Summarize, AskBrain, ProposeSetup, Finish,
	}, names)
	require.Equal(t, []string{ReadFile, ListFiles, Search, Diff, History, Check, ReadOutput, Todo, Summarize, AskBrain, ProposeSetup, Finish}, readOnly)
	require.Equal(t, []string{History, RunCommand, Check, CheckBase}, long)
}

func TestSchemasSayWhatIsRequired(t *testing.T) {
	t.Parallel()
	set, err := Builtin().Set()
	require.NoError(t, err)
	want := map[string][]string{
		ReadFile: {"path"}, ListFiles: nil, Search: {"pattern"}, EditFile: {"path"},
		CreateFile: {"path", "content"}, DeleteFile: {"path"}, RunCommand: {"command"}, CheckBase: {"command"}, ProposeSetup: {"commands", "reason"}, Finish: {"summary"},
		RevertFile: {"path"}, Diff: nil, History: {"path"}, Check: {"name"}, ReadOutput: {"id"}, Todo: {"items"}, Summarize: {"summary"}, AskBrain: {"query"},
	}
	for _, d := range set.Definitions() {
		var schema struct{ Required []string }
		require.NoError(t, json.Unmarshal(d.Parameters, &schema))
		require.Equal(t, want[d.Name], schema.Required, d.Name)
	}
}

func TestACallThatBreaksTheSchemaSaysWhatWasExpected(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, nil)
	for _, c := range []struct{ tool, args, says string }{
		{"no_such_tool", `{}`, "Unknown tool \"no_such_tool\". Available tools: "},
		{ReadFile, `{`, "not JSON"},
		{ReadFile, `[]`, "object"},
		{ReadFile, ``, "path"},
		{ReadFile, `{"path":"a","lines":3}`, "lines"},
		{ReadFile, `{"path":"a","start_line":0}`, "start_line"},
		{ReadFile, `{"path":"a","start_line":1.0}`, "start_line"},
		{ReadFile, `{"path":"a","start_line":1e99}`, "start_line"},
		{ReadFile, `{"path":7}`, "string"},
		{EditFile, `{"path":"a","old_text":"","new_text":"x"}`, "old_text"},
		{RunCommand, `{"command":""}`, "command"},
		{Finish, `{}`, "summary"},
		{Search, `{"pattern":"("}`, "regular expression"},
		{ListFiles, `{"glob":"[a"}`, "glob"},
		{Search, `{"pattern":"x","path":"src/[a"}`, "glob"},
	} {
		result, err := b.set.Call(t.Context(), b.env, c.tool, json.RawMessage(c.args))
		require.NoError(t, err)
		require.False(t, result.OK)
		require.Equal(t, contract.CodeInvalidOutput, result.Code, "%s %s: %s", c.tool, c.args, result.Text)
		require.Contains(t, result.Text, c.says, "%s %s", c.tool, c.args)
	}
}

func TestAnAgentCanUseOnlyTheToolsOfItsSet(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, nil)
	set, err := Builtin().Set(ReadFile, ListFiles)
	require.NoError(t, err)
	result, err := set.Call(t.Context(), b.env, CreateFile, json.RawMessage(`{"path":"x","content":""}`))
	require.NoError(t, err)
	require.Equal(t, contract.CodeForbidden, result.Code)
	require.NoFileExists(t, b.path("x"))
	_, ok := set.Definition(CreateFile)
	require.False(t, ok)
	_, err = Builtin().Set("no_such_tool")
	require.True(t, fault.Is(err, contract.CodeInvalidConfig))
	_, err = NewRegistry(finish(), finish())
	require.True(t, fault.Is(err, contract.CodeInvalidConfig))
}

// escapes are paths that must reach nothing, in any tool.
var escapes = []string{
	"../secret", "a/../../secret", "a/..", "..", "./../secret", "/etc/passwd", "/", "//etc/passwd", `\etc`, `C:\x`, "C:/x", `..\secret`, `a\..\..\secret`,
	".git", ".git/config", ".GIT/config", ".GiT", "a/.git/hooks/pre-commit", "git~1", "GIT~1/config", ".git./x", ".git /x", ".git::$INDEX_ALLOCATION/x",
	`.git\config`, ".g\u200cit/config", ".gi\u200dt", "\ufeff.git/config", ".git . ./x", "a\x00b", "\x00", "../secret\x00.txt",
	"out", "out/secret", "outdir/secret", "abs/passwd", "deep/er/out/secret", "loop2/../../secret",
}

func TestNoPathLeavesTheWorkspaceOrEntersAGitDirectory(t *testing.T) {
	t.Parallel()
	for _, name := range escapes {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			t.Parallel()
			b := newToolFixture(t, map[string]string{"a/b.txt": "x\n", "deep/er/f": ""})
			require.NoError(t, os.Symlink("../secret", b.path("out")))
			require.NoError(t, os.Symlink("..", b.path("outdir")))
			require.NoError(t, os.Symlink("/etc", b.path("abs")))
			require.NoError(t, os.Symlink("../../..", b.path("deep/er/out")))
			isLink := name == "out"
			for tool, a := range map[string]args{
				ReadFile:   {"path": name},
				ListFiles:  {"path": name},
				Search:     {"pattern": "canary|root", "path": name},
				EditFile:   {"path": name, "old_text": "canary", "new_text": "stolen"},
				CreateFile: {"path": name, "content": "stolen"},
				DeleteFile: {"path": name},
			} {
				if isLink && (tool == DeleteFile || tool == CreateFile) {
					continue // the link itself belongs to the workspace
				}
				result := b.call(tool, a)
				require.False(t, result.OK, "%s: %s", tool, result.Text)
				require.Equal(t, contract.CodePathEscape, result.Code, "%s: %s", tool, result.Text)
				require.NotContains(t, result.Text, "canary")
			}
			b.requireCanary()
		})
	}
}

func TestALinkOutOfTheWorkspaceCanBeDeletedButNotWrittenThrough(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, nil)
	require.NoError(t, os.Symlink("../secret", b.path("out")))
	require.False(t, b.call(CreateFile, args{"path": "out", "content": "stolen"}).OK)
	b.requireCanary()
	require.True(t, b.call(DeleteFile, args{"path": "out"}).OK)
	b.requireCanary()
}

func TestNamesThatOnlyLookDangerousAreOrdinary(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, nil)
	for _, name := range []string{".gitignore", ".github/workflows/x.yml", "..hidden", "a..b", "．．/x", "git~2", ".gitx", "~/x", "...", "%2e%2e/x", "sp ace", "ü"} {
		require.True(t, b.call(CreateFile, args{"path": name, "content": "x"}).OK, name)
		require.Equal(t, "x", b.content(name))
	}
	b.requireCanary()
}

// A directory that turns into a link and back while files are written must never lead a
// write outside.
func TestALinkThatIsSwappedInDuringCallsLeadsNowhere(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"real/secret": "inside"})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			_ = os.Rename(b.path("real"), b.path("kept"))
			_ = os.Symlink("..", b.path("real"))
			_ = os.Remove(b.path("real"))
			_ = os.Rename(b.path("kept"), b.path("real"))
		}
	}()
	for range 300 {
		for _, c := range []struct {
			tool string
			args args
		}{
			{ReadFile, args{"path": "real/secret"}},
			{EditFile, args{"path": "real/secret", "old_text": "canary", "new_text": "stolen"}},
			{CreateFile, args{"path": "real/planted", "content": "x"}},
			{DeleteFile, args{"path": "real/planted"}},
			{Search, args{"pattern": "canary"}},
		} {
			require.NotContains(t, b.call(c.tool, c.args).Text, "canary")
		}
	}
	close(stop)
	<-done
	b.requireCanary()
	require.NoFileExists(t, filepath.Join(filepath.Dir(b.env.Root), "planted"))
}

func TestReadFileNumbersLinesAndReadsRanges(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"f": "one\ntwo\r\nthree\nfour", "empty": ""})
	require.Equal(t, "1\tone\n2\ttwo\n3\tthree\n4\tfour\n", b.call(ReadFile, args{"path": "f"}).Text)
	require.Equal(t, "2\ttwo\n3\tthree\n[lines 2 to 3 of 4]\n", b.call(ReadFile, args{"path": "f", "start_line": 2, "end_line": 3}).Text)
	require.Equal(t, "4\tfour\n[lines 4 to 4 of 4]\n", b.call(ReadFile, args{"path": "f", "start_line": 4, "end_line": 99}).Text)
	require.Equal(t, "[empty is empty]\n", b.call(ReadFile, args{"path": "empty"}).Text)
	result := b.call(ReadFile, args{"path": "f", "start_line": 9})
	require.False(t, result.OK)
	require.Contains(t, result.Text, "only 4 lines")
	require.False(t, b.call(ReadFile, args{"path": "f", "start_line": 3, "end_line": 2}).OK)
}

func TestReadFileReturnsALongFileInPartsThatFitTogether(t *testing.T) {
	t.Parallel()
	var content strings.Builder
	for i := range 9000 {
		fmt.Fprintf(&content, "line %d %s\n", i+1, strings.Repeat("x", 60))
	}
	b := newToolFixture(t, map[string]string{"f": content.String(), "wide": strings.Repeat("y", 5<<20) + "\nend\n"})
	var got strings.Builder
	next := 1
	for calls := 0; next > 0; calls++ {
		require.Less(t, calls, 9)
		result := b.call(ReadFile, args{"path": "f", "start_line": next})
		require.True(t, result.OK)
		require.Less(t, len(result.Text), DefaultLimits.ReadBytes+500)
		next = 0
		for line := range strings.Lines(result.Text) {
			if number, text, ok := strings.Cut(line, "\t"); ok && number != "" {
				got.WriteString(text)
			} else if i := strings.Index(line, "start_line "); i >= 0 {
				_, err := fmt.Sscanf(line[i:], "start_line %d", &next)
				require.NoError(t, err)
			}
		}
	}
	require.Equal(t, content.String(), got.String())
	wide := b.call(ReadFile, args{"path": "wide"})
	require.Less(t, len(wide.Text), 3000)
	require.Contains(t, wide.Text, "line truncated")
	require.Contains(t, wide.Text, "2\tend\n")
}

func TestWhatIsNoTextFileIsRefusedWithoutWaiting(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"bin": "PNG\x00\x01", "dir/f": ""})
	require.NoError(t, syscall.Mkfifo(b.path("pipe"), 0o644))
	require.NoError(t, os.Symlink("loop", b.path("loop")))
	for _, c := range []struct{ path, says string }{
		{"bin", "binary file of 5 bytes"}, {"dir", "is a directory"}, {"pipe", "not a regular file"}, {"none", "does not exist"},
		{"bin/x", "is a file, not a directory"}, {"loop", "symbolic link"}, {strings.Repeat("n", 300), "too long"},
	} {
		for tool, a := range map[string]args{ReadFile: {"path": c.path}, EditFile: {"path": c.path, "old_text": "P", "new_text": "Q"}} {
			result := b.call(tool, a)
			require.False(t, result.OK)
			require.Contains(t, result.Text, c.says, "%s %s", tool, c.path)
			require.False(t, result.Changed)
			require.Empty(t, result.Code)
		}
	}
}

func TestListFilesIsSortedCappedAndLeavesOutIgnoredFiles(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{
		"a.go": "", "a/z.go": "", "a/b/c.ts": "", "a-b.go": "", "node_modules/x/y.js": "", "keep.log": "", "x.log": "", "build/out": "", "src/build/out": "",
		".gitignore": "node_modules/\n*.log\n!keep.log\n/build\n# comment\n", "a/.gitignore": "z.*\n", ".git/config": "",
	})
	b.write("bad\xffname", "")
	require.Equal(t, ".gitignore\na-b.go\na.go\na/.gitignore\na/b/c.ts\nbad\uFFFDname\nkeep.log\nsrc/build/out\n", b.call(ListFiles, args{}).Text)
	require.Equal(t, "a/.gitignore\na/b/c.ts\n", b.call(ListFiles, args{"path": "a"}).Text)
	require.Equal(t, "node_modules/x/y.js\n", b.call(ListFiles, args{"path": "node_modules"}).Text)
	require.Equal(t, "a-b.go\na.go\n", b.call(ListFiles, args{"glob": "**/*.go"}).Text)
	require.Equal(t, "a/b/c.ts\n", b.call(ListFiles, args{"path": "a", "glob": "b/*.ts"}).Text)
	require.Equal(t, "a/b/c.ts\n", b.call(ListFiles, args{"path": "a", "glob": "a/**/*.ts"}).Text)
	require.Equal(t, "[no files]\n", b.call(ListFiles, args{"glob": "*.rs"}).Text)
	require.Contains(t, b.call(ListFiles, args{"path": "a.go"}).Text, "is a file")
	b.env.Limits.ListEntries = 2
	require.Equal(t, ".gitignore\na-b.go\n[2 of 8 files shown; narrow the list with path or glob]\n", b.call(ListFiles, args{}).Text)
	b.env.Limits.WalkEntries = 3
	require.Contains(t, b.call(ListFiles, args{}).Text, "too many to check")
}

func TestSearchFindsLinesAndSkipsWhatIsNoText(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{
		"a.go": "package a\n\nfunc Name() {}\n", "b/b.go": "func name() {}\r\n// Name\n", "bin": "Name\x00", "big": strings.Repeat("x", 1<<20) + "Name",
		".gitignore": "skip\n", "skip": "Name", "long.txt": strings.Repeat("é", 400) + "xName\n",
	})
	require.Equal(t, "a.go:3:func Name() {}\nb/b.go:2:// Name\n", b.call(Search, args{"pattern": `\bName`}).Text)
	require.Equal(t, "b/b.go:1:func name() {}\n", b.call(Search, args{"pattern": `(?i)func name\(\) \{\}$`, "path": "b"}).Text)
	require.Equal(t, "a.go:3:func Name() {}\n", b.call(Search, args{"pattern": "Name", "path": "*.go"}).Text)
	require.Equal(t, "b/b.go:2:// Name\n", b.call(Search, args{"pattern": "Name", "path": "b/b.go"}).Text)
	require.Equal(t, "long.txt:1:"+strings.Repeat("é", 150)+"…\n", b.call(Search, args{"pattern": "xName"}).Text)
	require.Equal(t, "[nothing matches]\n", b.call(Search, args{"pattern": "nowhere"}).Text)
	require.False(t, b.call(Search, args{"pattern": "x", "path": "none"}).OK)
	require.False(t, b.call(Search, args{"pattern": "x", "path": "bin"}).OK)
	b.write("many", strings.Repeat("hit\n", 500))
	result := b.call(Search, args{"pattern": "hit"})
	require.Equal(t, DefaultLimits.SearchHits+1, strings.Count(result.Text, "\n"))
	require.Contains(t, result.Text, "first 200 matching lines")
}

func TestEditFileReplacesExactlyOneOccurrence(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"f": "a\nb\na\n"})
	require.NoError(t, os.Chmod(b.path("f"), 0o755))
	result := b.call(EditFile, args{"path": "f", "old_text": "a", "new_text": "c"})
	require.False(t, result.OK)
	require.Contains(t, result.Text, "2 times in f (lines 1, 3)")
	require.Equal(t, "a\nb\na\n", b.content("f"))
	require.Equal(t, "Changed f at line 2.\n1\ta\n2\tx\n", b.call(EditFile, args{"path": "f", "old_text": "b\na", "new_text": "x"}).Text)
	require.Equal(t, "a\nx\n", b.content("f"))
	require.True(t, b.call(EditFile, args{"path": "f", "old_text": "\n", "new_text": "", "replace_all": true}).Changed)
	require.Equal(t, "ax", b.content("f"))
	require.Equal(t, contract.CodeInvalidOutput, b.call(EditFile, args{"path": "f", "old_text": "a", "new_text": "a"}).Code)
	info, err := os.Stat(b.path("f"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode())
}

func TestEditFileNamesWhereSimilarTextIs(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"f.go": "package f\n\nfunc A() {\n\treturn  1\n}\n\nfunc Hello(name string) error {\n"})
	spaces := b.call(EditFile, args{"path": "f.go", "old_text": "func A() {\n    return 1\n}", "new_text": ""})
	require.Contains(t, spaces.Text, "different spaces or line breaks is at line 3")
	require.Contains(t, spaces.Text, "4\t\treturn  1\n")
	alike := b.call(EditFile, args{"path": "f.go", "old_text": "func Hello(name string) (err error) {", "new_text": ""})
	require.Contains(t, alike.Text, "7\tfunc Hello(name string) error {")
	require.Contains(t, b.call(EditFile, args{"path": "f.go", "old_text": "zzzzz", "new_text": ""}).Text, "Nothing similar")
	require.Contains(t, b.call(EditFile, args{"path": "f.go", "old_text": "  \t   ", "new_text": ""}).Text, "only whitespace")
}

func TestEditFileKeepsTheLineEndingsOfTheFile(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, old, new, want string }{
		"a model's plain breaks in a Windows file": {"a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"},
		"one line becomes two in a Windows file":   {"a\r\nb\r\n", "a", "x\ny", "x\r\ny\r\nb\r\n"},
		"Windows breaks given":                     {"a\r\nb\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\n"},
		"a plain part of a mixed file":             {"a\r\nb\r\nc\nd\n\r\n", "c\nd", "x\ny", "a\r\nb\r\nx\ny\n\r\n"},
		"a plain file":                             {"a\nb\n", "a", "x\ny", "x\ny\nb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newToolFixture(t, map[string]string{"f": c.content})
			require.True(t, b.call(EditFile, args{"path": "f", "old_text": c.old, "new_text": c.new}).OK)
			require.Equal(t, c.want, b.content("f"))
		})
	}
}

func TestEditFileIsAReplacementWhateverTheTexts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringMatching(`[ab\n]{0,12}`)
		before, old, replacement := text.Draw(rt, "before"), rapid.StringMatching(`[ab\n]{1,3}`).Draw(rt, "old"), text.Draw(rt, "new")
		b := newToolFixture(t, map[string]string{"f": before})
		result := b.call(EditFile, args{"path": "f", "old_text": old, "new_text": replacement})
		want := before
		if strings.Count(before, old) == 1 && old != replacement {
			want = strings.Replace(before, old, replacement, 1)
			require.True(rt, result.OK)
		}
		require.Equal(rt, want != before || result.OK, result.Changed)
		require.Equal(rt, want, b.content("f"))
	})
}

func TestCreateFileMakesDirectoriesAndNeverOverwrites(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"there": "x\n", "file": ""})
	result := b.call(CreateFile, args{"path": "a/b/c.txt", "content": "1\n2"})
	require.Equal(t, Result{OK: true, Changed: true, Path: "a/b/c.txt", Text: "Created a/b/c.txt with 2 lines."}, result)
	require.Equal(t, "1\n2", b.content("a/b/c.txt"))
	result = b.call(CreateFile, args{"path": "there", "content": "y"})
	require.False(t, result.OK)
	require.Contains(t, result.Text, "already exists")
	require.Equal(t, "x\n", b.content("there"))
	again := b.call(CreateFile, args{"path": "there", "content": "x\n"})
	require.True(t, again.OK)
	require.False(t, again.Changed)
	require.False(t, b.call(CreateFile, args{"path": "file/x", "content": ""}).OK)
	require.False(t, b.call(CreateFile, args{"path": ".", "content": ""}).OK)
	require.Contains(t, b.call(CreateFile, args{"path": "big", "content": strings.Repeat("x", 1<<20+1)}).Text, "at most 1048576")
	require.NoFileExists(t, b.path("big"))
}

func TestDeleteFileDeletesFilesAlone(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"f": "", "dir/f": ""})
	require.Equal(t, Result{OK: true, Changed: true, Path: "f", Text: "Deleted f."}, b.call(DeleteFile, args{"path": "f"}))
	require.NoFileExists(t, b.path("f"))
	require.False(t, b.call(DeleteFile, args{"path": "f"}).OK)
	require.Contains(t, b.call(DeleteFile, args{"path": "dir"}).Text, "is a directory")
	require.False(t, b.call(DeleteFile, args{"path": "."}).OK)
}

// fakeRunner replaces the sandbox.
type fakeRunner struct {
	got    sandbox.Command
	result sandbox.Result
	err    error
}

func (f *fakeRunner) Run(_ context.Context, c sandbox.Command) (sandbox.Result, error) {
	f.got = c
	return f.result, f.err
}

func TestRunCommandGivesTheModelExitCodeAndOutput(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		result sandbox.Result
		want   Result
	}{
		"green":     {sandbox.Result{Stdout: []byte("ok")}, Result{OK: true, Text: "exit code: 0\n--- stdout ---\nok\n"}},
		"red":       {sandbox.Result{ExitCode: 2, Stdout: []byte("a\n"), Stderr: []byte("b\xff\n")}, Result{Text: "exit code: 2\n--- stdout ---\na\n--- stderr ---\nb\uFFFD\n"}},
		"coloured":  {sandbox.Result{Stdout: []byte("\x1b[31m\x1b[1mTypeError\x1b[22m: no\x1b[39m")}, Result{OK: true, Text: "exit code: 0\n--- stdout ---\nTypeError: no\n"}},
		"silent":    {sandbox.Result{}, Result{OK: true, Text: "exit code: 0\n(no output)\n"}},
		"timed out": {sandbox.Result{TimedOut: true, ExitCode: 137, Signal: "killed"}, Result{Code: contract.CodeTimeout, Text: "The command was stopped: it ran longer than 2m0s.\n(no output)\n"}},
		"memory":    {sandbox.Result{LimitExceeded: "memory", ExitCode: 137, Signal: "killed"}, Result{Code: contract.CodeCommandCrashed, Text: "The command was stopped: it exceeded its limit of memory.\n(no output)\n"}},
		"refused": {sandbox.Result{ExitCode: 1, Refused: []string{"b.org:8443", "a.org:443", "a.org:443"}}, Result{Text: "exit code: 1\n(no output)\n--- network ---\n" +
			"refused: \"a.org:443\"\nrefused: \"b.org:8443\"\nCommands are not allowed to reach these hosts. Only the operator can allow a host, with a configuration line such as\n" +
			"  execution.sandbox.network: [a.org]\nRetrying will not help; work without these hosts.\n"}},
		"crashed": {sandbox.Result{Signal: "segmentation fault", ExitCode: 139}, Result{Code: contract.CodeCommandCrashed, Text: "The command was terminated by a signal (segmentation fault).\n(no output)\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newToolFixture(t, nil)
			b.env.Runner = &fakeRunner{result: c.result}
			c.want.Changed = true
			require.Equal(t, c.want, b.call(RunCommand, args{"command": "make"}))
		})
	}
}

func TestRunCommandPassesOnWhatTheAgentMayUseAndBoundsTheTime(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, nil)
	runner := &fakeRunner{result: sandbox.Result{Stdout: []byte("head\n" + strings.Repeat("x", 100_000) + "\ntail")}}
	b.env.Runner = runner
	b.env.Command = sandbox.Command{Args: []string{"no"}, Root: "/", Env: map[string]string{"CI": "1"}, Limits: sandbox.Limits{Processes: 7}}
	result := b.call(RunCommand, args{"command": "make test", "timeout_seconds": 1 << 40})
	require.Equal(t, pipefail+"make test", runner.got.Shell)
	require.Empty(t, runner.got.Args)
	require.Equal(t, b.env.Root, runner.got.Root)
	require.Equal(t, "1", runner.got.Env["CI"])
	require.Equal(t, 7, runner.got.Limits.Processes)
	require.Equal(t, DefaultLimits.MaxTimeout, runner.got.Limits.Timeout)
	require.Less(t, len(result.Text), DefaultLimits.OutputBytes+500)
	require.Contains(t, result.Text, "head\n")
	require.Contains(t, result.Text, "\ntail")
	require.Contains(t, result.Text, "bytes omitted")
	b.call(RunCommand, args{"command": "x", "timeout_seconds": 5})
	require.Equal(t, 5*time.Second, runner.got.Limits.Timeout)
	b.env.Runner = nil
	require.Equal(t, contract.CodeForbidden, b.call(RunCommand, args{"command": "x"}).Code)
}

func TestACommandThatCannotBeIsolatedIsAnErrorNotAResult(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, nil)
	for want, err := range map[contract.Code]error{
		contract.CodeIsolation:     errors.New("no namespaces"),
		contract.CodeInvalidConfig: fmt.Errorf("%w: root", sandbox.ErrInvalid),
		contract.CodeDiskFull:      syscall.ENOSPC,
		contract.CodeCancelled:     context.Canceled,
	} {
		b.env.Runner = &fakeRunner{err: err}
		_, got := b.set.Call(t.Context(), b.env, RunCommand, json.RawMessage(`{"command":"x"}`))
		require.True(t, fault.Is(got, want), "%v", got)
	}
	b.env.Root = b.path("gone")
	_, err := b.set.Call(t.Context(), b.env, ReadFile, json.RawMessage(`{"path":"x"}`))
	require.Error(t, err)
}

func TestFinishEndsTheLoopWithASummary(t *testing.T) {
	t.Parallel()
	require.Equal(t, Result{OK: true, Text: "Done.", Finish: true, Summary: "did it"}, newToolFixture(t, nil).call(Finish, args{"summary": "did it"}))
}

func FuzzCallsNeverTouchWhatLiesOutside(f *testing.F) {
	for _, name := range escapes {
		f.Add(name, "x")
	}
	f.Fuzz(func(t *testing.T, name, content string) {
		b := newToolFixture(t, map[string]string{"a/b": "x"})
		require.NoError(t, os.Symlink("..", b.path("outdir")))
		for tool, a := range map[string]args{
			ReadFile: {"path": name}, CreateFile: {"path": name, "content": content}, DeleteFile: {"path": name},
			EditFile: {"path": name, "old_text": "canary", "new_text": content}, ListFiles: {"path": name, "glob": content}, Search: {"pattern": "canary", "path": name},
		} {
			raw, err := json.Marshal(a)
			require.NoError(t, err)
			result, err := b.set.Call(t.Context(), b.env, tool, raw)
			require.NoError(t, err)
			require.NotContains(t, strings.ReplaceAll(result.Text, name, ""), "canary")
		}
		b.requireCanary()
		entries, err := os.ReadDir(filepath.Dir(b.env.Root))
		require.NoError(t, err)
		require.Len(t, entries, 2)
	})
}

func TestANullForWhatMayBeLeftOutIsNothing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		tool              Tool
		given, understood string
	}{
		{readFile(), `{"path":null,"start_line": null ,"end_line":1}`, `{"path":null,"end_line":1}`},
		{readFile(), `null`, `null`},
		{readFile(), `{"path":"a","other":null}`, `{"path":"a","other":null}`},
		{editFile(), `{"path":"a","old_text":null,"edits":[{"old_text":null,"replace_all":null}]}`, `{"path":"a","edits":[{"old_text":null}]}`},
	} {
		s, err := compile(c.tool.Definition().Parameters)
		require.NoError(t, err)
		require.JSONEq(t, c.understood, string(s.withoutNulls([]byte(c.given))))
	}
}
