package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/eval/commits"
	"github.com/rocketgpt/orchestrator/internal/scripted"
	"github.com/rocketgpt/orchestrator/internal/tool"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// history is a repository that grows commit by commit.
type history struct {
	t   testing.TB
	dir string
}

func newHistory(t testing.TB) *history {
	t.Helper()
	h := &history{t: t, dir: t.TempDir()}
	harness.Git(t, h.dir, "init", "--quiet", "--initial-branch", "main")
	return h
}

// commit makes the files of the repository exactly these and returns the commit.
// Names that end in .sh can be run.
func (h *history) commit(subject string, files map[string]string) string {
	h.t.Helper()
	entries, err := os.ReadDir(h.dir)
	require.NoError(h.t, err)
	for _, e := range entries {
		if e.Name() != ".git" {
			require.NoError(h.t, os.RemoveAll(filepath.Join(h.dir, e.Name())))
		}
	}
	harness.WriteFiles(h.t, h.dir, files)
	return h.commitAll(subject)
}

func (h *history) commitAll(subject string) string {
	h.t.Helper()
	harness.Git(h.t, h.dir, "-c", "core.autocrlf=false", "add", "--all", "--force")
	harness.Git(h.t, h.dir, "commit", "--quiet", "--allow-empty", "--message", subject)
	return harness.Git(h.t, h.dir, "rev-parse", "HEAD")
}

// actor asks the scripted model as the product does, and carries out what it
// says.
type actor struct {
	t      testing.TB
	server *scripted.Server
	dir    string
}

func newActor(t testing.TB, scenario []byte, dir string) *actor {
	t.Helper()
	s, err := scripted.Parse("scenario.yaml", scenario)
	require.NoError(t, err, "%s", scenario)
	server, err := scripted.New(s, scripted.Options{LogPath: filepath.Join(t.TempDir(), "log.jsonl")})
	require.NoError(t, err)
	return &actor{t: t, server: server, dir: dir}
}

type answer struct {
	Choices []struct {
		Message struct {
			Content   string `json:"content"`
			ToolCalls []struct {
				Function struct{ Name, Arguments string } `json:"function"`
			} `json:"tool_calls"`
		} `json:"message"`
	} `json:"choices"`
}

// ask returns the answer to a request, or the status of a refusal.
func (a *actor) ask(agent, step string, turn int, text string) (answer, int) {
	a.t.Helper()
	body, err := json.Marshal(map[string]any{"model": "any", "messages": []map[string]any{{"role": "user", "content": text}}})
	require.NoError(a.t, err)
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader(body))
	for k, v := range map[string]string{"X-RGPT-Run": "1", "X-RGPT-Agent": agent, "X-RGPT-Step": step, "X-RGPT-Attempt": "1", "X-RGPT-Turn": fmt.Sprint(turn)} {
		r.Header.Set(k, v)
	}
	w := httptest.NewRecorder()
	a.server.ServeHTTP(w, r)
	var out answer
	if w.Code == http.StatusOK {
		require.NoError(a.t, json.Unmarshal(w.Body.Bytes(), &out))
	}
	return out, w.Code
}

// build carries out the builder's turns until it finishes, and returns the tools
// that were called.
func (a *actor) build(mark string) (called []string) {
	a.t.Helper()
	set, err := tool.Builtin().Set()
	require.NoError(a.t, err)
	for turn := 1; ; turn++ {
		out, code := a.ask("builder", stepID, turn, "The goal: "+mark)
		require.Equal(a.t, http.StatusOK, code, "turn %d", turn)
		calls := out.Choices[0].Message.ToolCalls
		require.LessOrEqual(a.t, len(calls), commits.TurnCalls)
		for _, c := range calls {
			r, err := set.Call(a.t.Context(), tool.Env{Root: a.dir}, c.Function.Name, json.RawMessage(c.Function.Arguments))
			require.NoError(a.t, err)
			require.True(a.t, r.OK, "%s %s: %s", c.Function.Name, c.Function.Arguments, r.Text)
			called = append(called, c.Function.Name)
			if r.Finish {
				require.NoError(a.t, a.server.Close())
				return called
			}
		}
	}
}

// played checks that the scenario of the newest commit makes its tree from its
// parent's, and returns the tools that were called.
func (h *history) played() []string {
	h.t.Helper()
	s, err := commits.Write(h.t.Context(), h.dir, "HEAD")
	require.NoError(h.t, err)
	scenario, err := Scenarios(s)
	require.NoError(h.t, err)
	dir := filepath.Join(h.t.TempDir(), "clone")
	require.NoError(h.t, s.Clone(h.t.Context(), dir))
	called := newActor(h.t, scenario, dir).build(Mark(s.Commit))
	harness.Git(h.t, dir, "-c", "core.autocrlf=false", "add", "--all", "--force")
	want := harness.Git(h.t, h.dir, "rev-parse", "HEAD^{tree}")
	require.Equal(h.t, want, harness.Git(h.t, dir, "write-tree"), "%s", harness.Git(h.t, h.dir, "show", "HEAD"))
	return called
}

func TestAScenarioMakesTheCommitsTree(t *testing.T) {
	t.Parallel()
	many, fewer := map[string]string{}, map[string]string{}
	for i := range 45 {
		many[fmt.Sprintf("f%d.txt", i)] = fmt.Sprint(i)
		fewer["keep.txt"] = "x\n"
	}
	repeated := strings.Repeat("same\n", 40)
	for _, c := range []struct {
		name          string
		before, after map[string]string
		calls         string
	}{
		{"a plain edit", map[string]string{"a.go": "one\ntwo\nthree\n"}, map[string]string{"a.go": "one\n2\nthree\n"}, "edit_file finish"},
		{"a line among equal ones", map[string]string{"a": repeated}, map[string]string{"a": repeated[:100] + "new\n" + repeated[100:]}, "edit_file finish"},
		{"equal lines less", map[string]string{"a": "x\n" + repeated}, map[string]string{"a": "x\n" + repeated[:50]}, "edit_file finish"},
		{"several hunks", map[string]string{"a": "1\na\n2\na\n3\na\n4\n"}, map[string]string{"a": "0\n1\na\na\n3\na\n4\nb\n"}, "edit_file edit_file edit_file finish"},
		{"line ends of Windows", map[string]string{"a": "one\r\ntwo\r\nthree\r\n"}, map[string]string{"a": "one\r\ntwo\r\nfour\r\nfive\r\n"}, "edit_file finish"},
		{"line ends that change", map[string]string{"a": "one\r\ntwo\r\nthree\r\n"}, map[string]string{"a": "one\ntwo\nthree\n"}, "delete_file create_file finish"},
		{"no line end at the end", map[string]string{"a": "one\ntwo"}, map[string]string{"a": "one\ntwo\n"}, "edit_file finish"},
		{"a line end less", map[string]string{"a": "one\none\n"}, map[string]string{"a": "one\none"}, "edit_file finish"},
		{"a file that was empty", map[string]string{"a": ""}, map[string]string{"a": "x\n"}, "delete_file create_file finish"},
		{"a file that becomes empty", map[string]string{"a": "x\n"}, map[string]string{"a": ""}, "edit_file finish"},
		{"a new file in a new folder", map[string]string{"a": "x\n"}, map[string]string{"a": "x\n", "deep/er/b": "y"}, "create_file finish"},
		{"a file less", map[string]string{"a": "x\n", "b": "y\n"}, map[string]string{"a": "x\n"}, "delete_file finish"},
		{"a rename", map[string]string{"a": "x\ny\nz\n"}, map[string]string{"b": "x\ny\nz\n"}, "delete_file create_file finish"},
		{"a file that becomes a folder", map[string]string{"a": "x\n"}, map[string]string{"a/b": "x\n"}, "delete_file create_file finish"},
		{"names and texts of the world", map[string]string{"größe/日本 🚀.txt": "ä\n\u2028\u0085\n"}, map[string]string{"größe/日本 🚀.txt": "ä\n\u2028\u0085🚀\x7f\x1b\n\ufeff"}, "edit_file finish"},
		{"a file that can be run", map[string]string{"a.sh": "x\ny\n"}, map[string]string{"a.sh": "x\nz\n"}, "edit_file finish"},
		{"what YAML and diffs might take for theirs", map[string]string{"a": "@@ -1,2 +3 @@\n---\n- x: |\n"}, map[string]string{"a": "@@ -9 +9 @@\n---\n- x: >\n%TAG\n"}, ""},
		{"more calls than a turn has", fewer, many, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(t)
			h.commit("before", c.before)
			h.commit("after: "+c.name, c.after)
			called := h.played()
			if c.calls != "" {
				require.Equal(t, c.calls, strings.Join(called, " "))
			}
		})
	}
}

func TestWhatTheToolsCannotMakeIsNamed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, h *history)
		path   string
		why    string
	}{
		"a binary file":    {func(t *testing.T, h *history) { h.write("logo.png", "\x00\x01") }, "logo.png", "binary"},
		"another encoding": {func(t *testing.T, h *history) { h.write("latin.txt", "\xe4\n") }, "latin.txt", "UTF-8"},
		"a link": {func(t *testing.T, h *history) {
			require.NoError(t, os.Symlink("a.txt", filepath.Join(h.dir, "link")))
		}, "link", "symbolic link"},
		"a mode":                     {func(t *testing.T, h *history) { require.NoError(t, os.Chmod(filepath.Join(h.dir, "a.txt"), 0o755)) }, "a.txt", "mode"},
		"a new file that can be run": {func(t *testing.T, h *history) { h.write("new.sh", "x\n") }, "new.sh", "mode"},
		"a large file": {func(t *testing.T, h *history) {
			h.write("large.txt", strings.Repeat("x\n", tool.DefaultLimits.WriteBytes))
		}, "large.txt", "the limit of the tools"},
		"nothing": {func(*testing.T, *history) {}, "", "any file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHistory(t)
			h.commit("before", map[string]string{"a.txt": "x\n"})
			c.change(t, h)
			h.commitAll("after")
			_, err := Scenario(h.dir, "HEAD")
			var u *commits.Unplayable
			require.ErrorAs(t, err, &u)
			require.Equal(t, c.path, u.Path)
			require.ErrorContains(t, err, c.why)
		})
	}
}

func (h *history) write(name, text string) {
	h.t.Helper()
	harness.WriteFiles(h.t, h.dir, map[string]string{name: text})
}

func TestMergesAndFirstCommitsHaveNoScenario(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.commit("first", map[string]string{"a": "x\n"})
	_, err := Scenario(h.dir, "HEAD")
	require.ErrorContains(t, err, "first commit")
	harness.Git(t, h.dir, "checkout", "--quiet", "-b", "side")
	h.commit("side", map[string]string{"a": "x\n", "b": "y\n"})
	harness.Git(t, h.dir, "checkout", "--quiet", "main")
	h.commit("main", map[string]string{"a": "z\n"})
	harness.Git(t, h.dir, "merge", "--quiet", "--no-edit", "side")
	_, err = Scenario(h.dir, "HEAD")
	require.ErrorContains(t, err, "merge")
}

func TestAnyEditsMakeTheCommitsTree(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	line := rapid.SampledFrom([]string{"", "a", "b", "aa", "\t}", "}", "@@ -1 +1 @@", "ü", "🚀", "x\r", "\\n \"q\"", "last: 'y'"})
	end := rapid.SampledFrom([]string{"\n", "\n", "\n", "\r\n"})
	text := rapid.Custom(func(rt *rapid.T) string {
		lines := rapid.SliceOfN(line, 0, 14).Draw(rt, "lines")
		out := strings.Join(lines, end.Draw(rt, "end"))
		if rapid.Bool().Draw(rt, "closed") {
			out += "\n"
		}
		return out
	})
	files := rapid.MapOfN(rapid.SampledFrom([]string{"a.go", "b/c.py", "b/ü.md", "d e/f.txt", "x.sh"}), text, 1, 4)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		before, after := files.Draw(rt, "before"), files.Draw(rt, "after")
		if _, there := before["x.sh"]; !there {
			delete(after, "x.sh") // a new file that can be run cannot be played
		}
		h.commit(fmt.Sprintf("before %d", n), before)
		h.commit(fmt.Sprintf("after %d", n), after)
		s, err := commits.Write(t.Context(), h.dir, "HEAD")
		if u := (*commits.Unplayable)(nil); err != nil {
			require.ErrorAs(rt, err, &u)
			require.True(rt, u.Path == "" || u.Path == "x.sh", "%v", err)
			rt.Skip("nothing changed, or a file that can be run cannot be made again")
		}
		scenario, err := Scenarios(s)
		require.NoError(rt, err)
		dir := filepath.Join(t.TempDir(), fmt.Sprint(n))
		harness.WriteFiles(t, dir, before)
		newActor(t, scenario, dir).build(Mark(s.Commit))
		require.Equal(rt, after, filesIn(t, dir))
	})
}

// filesIn returns the files of a folder as WriteFiles takes them, and checks that
// exactly those that end in .sh can be run.
func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		require.NoError(t, err)
		require.Equal(t, strings.HasSuffix(path, ".sh"), info.Mode().Perm()&0o100 != 0, path)
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name, err := filepath.Rel(dir, path)
		files[name] = string(text)
		return err
	}))
	return files
}

func TestRunsOfOneStackAreDistinguishedAndHealsHaveNoAnswer(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.commit("start", map[string]string{"a": "x\n"})
	h.commit("one", map[string]string{"a": "y\n"})
	one, err := commits.Write(t.Context(), h.dir, "HEAD")
	require.NoError(t, err)
	h.commit("two", map[string]string{"a": "z\n", "b": "\n"})
	two, err := commits.Write(t.Context(), h.dir, "HEAD")
	require.NoError(t, err)
	scenario, err := Scenarios(one, two)
	require.NoError(t, err)
	a := newActor(t, scenario, t.TempDir())
	for _, s := range []*Script{one, two} {
		out, code := a.ask("planner", "", 1, "Goal: "+Mark(s.Commit))
		require.Equal(t, http.StatusOK, code)
		var plan contract.Plan
		require.NoError(t, json.Unmarshal([]byte(out.Choices[0].Message.Content), &plan))
		require.Empty(t, plan.Problems())
		require.Equal(t, s.Files, plan.Steps[0].Files)
		_, code = a.ask("repair", stepID, 1, "Goal: "+Mark(s.Commit))
		require.Equal(t, http.StatusBadRequest, code)
	}
	require.NoError(t, a.server.Close())
}

func TestACloneEndsAtTheParent(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.commit("one", map[string]string{"a": "1\n"})
	harness.Git(t, h.dir, "tag", "-a", "-m", "first", "v1")
	h.commit("two", map[string]string{"a": "2\n"})
	later := h.commit("three", map[string]string{"a": "3\n"})
	harness.Git(t, h.dir, "tag", "v3")
	s, err := commits.Write(t.Context(), h.dir, later)
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "clone")
	require.NoError(t, s.Clone(t.Context(), dir))
	require.Equal(t, "v1", harness.Git(t, dir, "tag"))
	require.Equal(t, "2", harness.Git(t, dir, "rev-list", "--count", "--all"))
	require.Empty(t, harness.Git(t, dir, "status", "--porcelain"))
	require.NotContains(t, harness.Git(t, dir, "cat-file", "--batch-all-objects", "--batch-check"), later)

	different, err := s.Differences(t.Context(), dir, "main")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, different)
	different, err = s.Differences(t.Context(), h.dir, later)
	require.NoError(t, err)
	require.Empty(t, different)
}

func TestAPickTakesSmallCommitsOfCodeWithTests(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	files := map[string]string{"a.go": "1\n", "a_test.go": "1\n", "README.md": "1\n"}
	h.commit("start", files)
	step := func(subject string, changes map[string]string) {
		for name, text := range changes {
			files[name] = text
		}
		h.commit(subject, files)
	}
	step("good one", map[string]string{"a.go": "2\n", "a_test.go": "2\n"})
	step("without a test", map[string]string{"a.go": "3\n"})
	step("without code", map[string]string{"a_test.go": "3\n", "README.md": "2\n"})
	step("with a lock file", map[string]string{"a.go": "4\n", "a_test.go": "4\n", "go.sum": "x\n"})
	step("large", map[string]string{"a.go": strings.Repeat("x\n", commits.MaxLines), "a_test.go": "5\n"})
	step("binary", map[string]string{"a.go": "6\n", "a_test.go": "6\n", "logo.png": "\x00"})
	step("good two", map[string]string{"a.go": "7\n", "a_test.go": "7\n"})
	p, err := commits.Pick(t.Context(), h.dir, 5)
	require.NoError(t, err)
	var subjects []string
	for _, s := range p.Scripts {
		subjects = append(subjects, s.Subject)
	}
	require.Equal(t, []string{"good two", "good one"}, subjects)
	require.Len(t, p.Refused, 1)
	require.Contains(t, p.Refused[0], "logo.png")
	require.Equal(t, 3, p.Suitable)
}

func TestTestsThatACommitTouchedAreFoundByName(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.commit("start", map[string]string{
		"a_test.go":       "func TestOld(t *testing.T) {\n\tx()\n}\n\nfunc TestChanged(t *testing.T) {\n\tx()\n}\n",
		"tests/test_b.py": "def test_old():\n    pass\n",
		"src/lib.rs":      "fn helper() {}\n#[test]\nfn works() {\n}\n",
	})
	h.commit("change", map[string]string{
		"a_test.go":       "func TestOld(t *testing.T) {\n\tx()\n}\n\nfunc TestChanged(t *testing.T) {\n\ty()\n}\n",
		"tests/test_b.py": "def test_old():\n    pass\n\n\nasync def test_new():\n    pass\n",
		"src/lib.rs":      "fn helper() { 1; }\n#[test]\nfn works() {\n1;\n}\n",
		"c.test.ts":       "describe('group', () => {\n  it('does what it says', () => {})\n})\n",
	})
	s, err := commits.Write(t.Context(), h.dir, "HEAD")
	require.NoError(t, err)
	require.Equal(t, []commits.Test{
		{File: "a_test.go", Name: "TestChanged"}, {File: "c.test.ts", Name: "does what it says"}, {File: "src/lib.rs", Name: "works"}, {File: "tests/test_b.py", Name: "test_new"},
	}, s.Tests)

	own := commits.OwnTestsOf(s.Tests, []contract.TestCase{
		{Name: "example/a/TestChanged", Status: contract.TestSkipped}, {Name: "example/a/TestChanged/sub", Status: contract.TestPassed},
		{Name: "group > does what it says", Status: contract.TestFailed}, {Name: "tests::works", Status: contract.TestSkipped},
		{Name: "tests/test_b.py::test_newer", Status: contract.TestPassed},
	})
	require.Equal(t, OwnTests{Passed: s.Tests[:1], Failed: s.Tests[1:2], Skipped: s.Tests[2:3], Missing: s.Tests[3:]}, own)
	require.True(t, commits.OwnTestsOf(s.Tests, nil).Unnamed)
}

func TestTheTableThatIsKeptIsValid(t *testing.T) {
	t.Parallel()
	table, err := ReadTable("commits.yaml")
	require.NoError(t, err)
	repositories, ids := map[string]bool{}, map[string]bool{}
	for _, e := range table {
		require.True(t, strings.HasPrefix(e.Repo, commits.GitHub), e.Repo)
		require.False(t, repositories[e.Repo], "%s stands there twice", e.Repo)
		repositories[e.Repo] = true
		for _, c := range e.Commits {
			require.NotEmpty(t, c.Subject)
			require.False(t, ids[c.ID], "%s stands there twice", c.ID)
			ids[c.ID] = true
		}
	}
	require.GreaterOrEqual(t, len(repositories), 20)
}

func TestARepositoryIsFoundWhereMirrorsLie(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "o+n", "repo"), fs.FileMode(0o755)))
	for _, mirrors := range []string{dir, filepath.Join(dir, "{owner}+{name}", "repo")} {
		for _, repo := range []string{"o/n", "https://github.com/o/n", "https://github.com/o/n.git"} {
			found, err := commits.Repositories{Mirrors: mirrors}.Find(t.Context(), repo)
			require.NoError(t, err)
			require.Equal(t, filepath.Join(dir, "o+n", "repo"), found)
		}
	}
	_, err := commits.Repositories{}.Find(t.Context(), "nothing of the kind")
	require.ErrorContains(t, err, "neither a directory")
}

func TestResultsAreATableThatTheirTextsCannotBreak(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	require.NoError(t, WriteMarkdown(&out, []Result{
		{Commit: Commit{Repo: "o/n", ID: "0123456789abcdef", Subject: "a | b\n<i>"}, Status: "done", OK: true, Seconds: 1.25, WarmSeconds: 0.5},
		{Commit: Commit{Repo: "o/n", ID: "1"}, Status: "failed", Failure: &contract.Failure{Code: "test_failed"}, Problems: []string{"the run ended failed"}},
	}))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 6)
	require.Contains(t, lines[2], `a \| b &lt;i&gt;`)
	require.Contains(t, lines[3], "test_failed")
	require.Equal(t, "1 of 2 commits are fine.", lines[5])
}
