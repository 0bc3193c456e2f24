package tool

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

func TestSeveralEditsAreMadeInOrderAllOrNone(t *testing.T) {
	t.Parallel()
	text := "package f\n\nfunc A() int {\n\treturn 1\n}\n\n" + strings.Repeat("// filler\n", 30) + "func B() int {\n\treturn 1\n}\n"
	b := newToolFixture(t, map[string]string{"f.go": text})
	edit := func(old, replacement string, all ...bool) map[string]any {
		e := map[string]any{"old_text": old, "new_text": replacement}
		if len(all) > 0 {
			e["replace_all"] = all[0]
		}
		return e
	}
	refused := b.call(EditFile, args{"path": "f.go", "edits": []any{edit("func A", "func First"), edit("func C", "func D"), edit("x", "y")}})
	require.False(t, refused.OK)
	require.Contains(t, refused.Text, "Edit 2 of 3: old_text was not found in f.go; the file was not changed.")
	require.Equal(t, text, b.content("f.go"))

	result := b.call(EditFile, args{"path": "f.go", "edits": []any{
		edit("func A() int {", "// First is first.\nfunc First() int {"), edit("First is", "First is the"), edit("return 1", "return 2", true),
	}})
	require.True(t, result.OK, result.Text)
	require.True(t, result.Changed)
	require.Equal(t, "f.go", result.Path)
	require.Equal(t, strings.NewReplacer("func A() int {", "// First is the first.\nfunc First() int {", "return 1", "return 2").Replace(text), b.content("f.go"))
	require.Equal(t, "Changed f.go in 3 places (lines 3, 5, 39).\n"+
		"1\tpackage f\n2\t\n3\t// First is the first.\n4\tfunc First() int {\n5\t\treturn 2\n6\t}\n7\t\n…\n"+
		"37\t// filler\n38\tfunc B() int {\n39\t\treturn 2\n40\t}\n", result.Text)

	for _, a := range []args{
		{"path": "f.go"}, {"path": "f.go", "old_text": "x"}, {"path": "f.go", "new_text": "x"}, {"path": "f.go", "edits": []any{}},
		{"path": "f.go", "edits": []any{edit("a", "b")}, "old_text": "x", "new_text": "y"},
		{"path": "f.go", "edits": []any{edit("func B", "func C"), edit("func C", "func B")}},
	} {
		require.Equal(t, contract.CodeInvalidOutput, b.call(EditFile, a).Code, "%v", a)
	}
}

func TestAChangeOfManyLinesIsShownInPart(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"f": "start\n" + strings.Repeat("x\n", 200) + "end\n"})
	result := b.call(EditFile, args{"path": "f", "old_text": "start\n", "new_text": strings.Repeat("line\n", 100)})
	require.Equal(t, 1+editedPart+1+editedPart+editContext, strings.Count(result.Text, "\n"), result.Text)
	require.Contains(t, result.Text, "\n100\tline\n")
	many := b.call(EditFile, args{"path": "f", "old_text": "x", "new_text": strings.Repeat("y", 1000), "replace_all": true})
	require.Less(t, len(many.Text), shownEditedBytes+1000)
	require.Contains(t, many.Text, "read_file shows them")
}

func TestTheLinesShownAfterAnEditAreThoseOfTheFile(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		before := rapid.StringMatching(`([abc]{0,2}\n){0,8}`).Draw(rt, "before")
		var edits []any
		for i := range rapid.IntRange(1, 4).Draw(rt, "edits") {
			edits = append(edits, map[string]any{
				"old_text": rapid.StringMatching(`[abc\n]{1,2}`).Draw(rt, fmt.Sprint("old", i)), "new_text": rapid.StringMatching(`[abcd\n]{0,3}`).Draw(rt, fmt.Sprint("new", i)),
				"replace_all": rapid.Bool().Draw(rt, fmt.Sprint("all", i)),
			})
		}
		b := newToolFixture(t, map[string]string{"f": before})
		result := b.call(EditFile, args{"path": "f", "edits": edits})
		after := b.content("f")
		require.Equal(rt, after != before, result.Changed)
		if !result.OK {
			return
		}
		lines := strings.Split(after, "\n")
		for line := range strings.Lines(result.Text) {
			var n int
			if _, err := fmt.Sscanf(line, "%d\t", &n); err == nil && strings.Contains(line, "\t") {
				_, shown, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
				require.Equal(rt, lines[n-1], shown)
			}
		}
	})
}

func TestAFailedEditNamesTheNearestLinesAndHowTheirSpacesDiffer(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"f.go": "package f\n\nfunc A(x int) {\n\tif x > 1 {\n\t\treturn  \n\t}\n}\n\nfunc B(y int) {\n\tif y > 2 {\n\t\tpanic(y)\n\t}\n}\n"})
	fail := func(old string) string {
		return b.call(EditFile, args{"path": "f.go", "old_text": old, "new_text": "x"}).Text
	}
	require.Contains(t, fail("func A(x int) {\n    if x > 1 {"), "line 2 of old_text is indented with 4 spaces, the file with 1 tab")
	require.Contains(t, fail("\t\treturn\n\t}"), "line 1 of old_text ends with nothing, the file with 2 spaces")
	require.Contains(t, fail("func A(x  int) {"), "has other spaces between its words")
	require.Contains(t, fail("func A(x int) {\n\n\tif x > 1 {"), "the blank lines differ")
	near := fail("func B(y int) {\n\tif y > 3 {\n\t\tpanic(y)\n\t}\n")
	require.Contains(t, near, "The nearest text is at line 9; different lines: 10.")
	require.Contains(t, near, "9\tfunc B(y int) {\n10\t\tif y > 2 {\n11\t\t\tpanic(y)\n")
}

func TestFindingTheNearestLinesOfALargeFileEndsSoon(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"f": strings.Repeat("the quick brown fox jumps over\n", 30_000)})
	result := b.call(EditFile, args{"path": "f", "old_text": strings.Repeat("the slow brown fox jumps over\n", 500), "new_text": ""})
	require.False(t, result.OK)
	require.Less(t, len(result.Text), 4000)
}

// keeper stores long outputs, like an agent's worker.
type keeper struct{ texts map[string]string }

func (k *keeper) use(env *Env) {
	k.texts = map[string]string{}
	env.Keep = func(_ context.Context, text string) (string, error) {
		id := fmt.Sprintf("output/%d.log", len(k.texts)+1)
		k.texts[id] = text
		return id, nil
	}
	env.Kept = func(_ context.Context, id string) (string, bool, error) {
		text, found := k.texts[id]
		return text, found, nil
	}
}

func TestNoLineOfALongOutputIsLost(t *testing.T) {
	t.Parallel()
	var stdout, stderr strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&stdout, "out %d %s\n", i, strings.Repeat("x", 30))
	}
	for i := range 50 {
		fmt.Fprintf(&stderr, "err %d\n", i)
	}
	b := newToolFixture(t, nil)
	b.env.Runner = &fakeRunner{result: sandbox.Result{Stdout: []byte(stdout.String()), Stderr: []byte(stderr.String())}}
	var k keeper
	k.use(&b.env)
	result := b.call(RunCommand, args{"command": "make"})
	require.Less(t, len(result.Text), 2*DefaultLimits.OutputBytes)
	require.Contains(t, result.Text, "out 0 ")
	require.Contains(t, result.Text, "out 2999 ")
	require.Contains(t, result.Text, "--- stderr ---\nerr 0\n")
	var first, last, omitted, start int
	at := strings.Index(result.Text, "[…")
	require.Positive(t, at)
	_, err := fmt.Sscanf(result.Text[at:], `[… %d bytes omitted, lines %d to %d; read_output {"id": "output/1.log", "start_line": %d} shows them …]`, &omitted, &first, &last, &start)
	require.NoError(t, err, result.Text[at:at+200])
	require.Equal(t, first, start)
	var got strings.Builder
	for next := 1; next > 0; {
		page := b.call(ReadOutput, args{"id": "output/1.log", "start_line": next})
		require.True(t, page.OK, page.Text)
		require.Less(t, len(page.Text), DefaultLimits.PageBytes+200)
		next = 0
		for line := range strings.Lines(page.Text) {
			if number, text, ok := strings.Cut(line, "\t"); ok && number != "" {
				got.WriteString(text)
			} else if i := strings.Index(line, "start_line "); i >= 0 {
				_, err := fmt.Sscanf(line[i:], "start_line %d", &next)
				require.NoError(t, err)
			}
		}
	}
	require.Equal(t, "--- stdout ---\n"+stdout.String()+"--- stderr ---\n"+stderr.String(), got.String())
	lines := strings.Split(got.String(), "\n")
	require.NotContains(t, result.Text, lines[first-1]+"\n", "the first omitted line")
	require.Contains(t, result.Text, lines[first-2]+"\n")
	require.NotContains(t, result.Text, lines[last-1]+"\n", "the last omitted line")
	require.Contains(t, result.Text, lines[last]+"\n")
	require.Contains(t, b.call(ReadOutput, args{"id": "output/1.log", "start_line": first, "end_line": first}).Text, lines[first-1])
}

func TestReadOutputReadsLongLinesByPositionAndRefusesWhatIsNotThere(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, nil)
	require.False(t, b.call(ReadOutput, args{"id": "x"}).OK)
	var k keeper
	k.use(&b.env)
	k.texts["wide"] = strings.Repeat("a", 100_000) + "z"
	require.Contains(t, b.call(ReadOutput, args{"id": "wide"}).Text, "line truncated")
	page := b.call(ReadOutput, args{"id": "wide", "offset": 90_000})
	require.Equal(t, strings.Repeat("a", 10_000)+"z\n[bytes 90000 to 100001 of 100001]\n", page.Text)
	for _, a := range []args{{"id": "none"}, {"id": "wide", "start_line": 2}, {"id": "wide", "offset": 200_000}, {"id": "wide", "offset": 1, "start_line": 1}, {"id": "wide", "start_line": 3, "end_line": 2}} {
		require.False(t, b.call(ReadOutput, a).OK, "%v", a)
	}
}

func TestWithoutAPlaceForLongOutputItsMiddleIsSaidToBeLost(t *testing.T) {
	t.Parallel()
	require.Equal(t, "short", Shorten("short", 10, "id"))
	text := Shorten(strings.Repeat("a line\n", 10_000), 1000, "")
	require.Contains(t, text, "bytes omitted, lines ")
	require.NotContains(t, text, "read_output")
	require.Contains(t, middleCut(strings.Repeat("x", 100), 10), "[… 90 bytes were not stored …]")
}

func TestAPipelineFailsIfAnyOfItsCommandsDoes(t *testing.T) {
	t.Parallel()
	require.True(t, readerStopped(sandbox.Result{ExitCode: 141}))
	require.False(t, readerStopped(sandbox.Result{ExitCode: 141, Signal: "broken pipe"}))
	b := newToolFixture(t, nil)
	b.env.Runner = &fakeRunner{result: sandbox.Result{ExitCode: 141, Stdout: []byte("a\n")}}
	result := b.call(RunCommand, args{"command": "yes | head -1"})
	require.True(t, result.OK)
	require.Contains(t, result.Text, "exit code: 141 (the reader of a pipeline, such as head, stopped")
}

func TestRevertFileRestoresAFileOrRemovesANewOne(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"f": "new\n", "added": "x"})
	require.Equal(t, contract.CodeForbidden, b.call(RevertFile, args{"path": "f"}).Code)
	was := map[string]EarlierFile{
		"f base": {Exists: true, Content: []byte("base\n")}, "f step": {Exists: true, Content: []byte("step\n")},
		"dir/gone step": {Exists: true, Executable: true, Content: []byte("#!/bin/sh\n")}, "big step": {Exists: true, Special: true},
	}
	b.env.Earlier = func(_ context.Context, path string, at Time) (EarlierFile, error) {
		return was[path+" "+string(at)], nil
	}
	result := b.call(RevertFile, args{"path": "f"})
	require.Equal(t, Result{OK: true, Changed: true, Path: "f", Text: "Restored f as it was when you began."}, result)
	require.Equal(t, "step\n", b.content("f"))
	require.False(t, b.call(RevertFile, args{"path": "f", "to": "step"}).Changed)
	require.True(t, b.call(RevertFile, args{"path": "f", "to": "base"}).Changed)
	require.Equal(t, "base\n", b.content("f"))
	require.True(t, b.call(RevertFile, args{"path": "dir/gone"}).Changed)
	info, err := os.Stat(b.path("dir/gone"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode())
	require.Equal(t, Result{OK: true, Changed: true, Path: "added", Text: "Deleted added, which did not exist when you began."}, b.call(RevertFile, args{"path": "added"}))
	require.NoFileExists(t, b.path("added"))
	require.False(t, b.call(RevertFile, args{"path": "added"}).OK)
	require.False(t, b.call(RevertFile, args{"path": "big"}).OK)
	require.Equal(t, contract.CodeInvalidOutput, b.call(RevertFile, args{"path": "f", "to": "yesterday"}).Code)
	require.NoError(t, os.Symlink("../secret", b.path("out")))
	was["out step"] = EarlierFile{Exists: true, Content: []byte("stolen")}
	require.Equal(t, contract.CodePathEscape, b.call(RevertFile, args{"path": "out"}).Code)
	b.requireCanary()
}

func TestNoNewToolAcceptsAPathOutside(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"a/b.txt": "x\n"})
	b.env.Diff = func(_ context.Context, path string) (string, error) { return "canary of " + path, nil }
	b.env.History = func(_ context.Context, q HistoryQuery) (string, bool, error) { return "canary of " + q.Path, true, nil }
	b.env.Earlier = func(context.Context, string, Time) (EarlierFile, error) {
		return EarlierFile{Exists: true, Content: []byte("stolen")}, nil
	}
	for _, name := range []string{"../secret", "/etc/passwd", ".git/config", "a/../../secret", "a\x00b", `C:\x`} {
		for _, tool := range []string{Diff, History, RevertFile} {
			result := b.call(tool, args{"path": name})
			require.Equal(t, contract.CodePathEscape, result.Code, "%s %q: %s", tool, name, result.Text)
			require.NotContains(t, result.Text, "canary")
		}
	}
	b.requireCanary()
}

func TestDiffAndHistoryAreShownWithoutColoursAndInParts(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, nil)
	require.Equal(t, contract.CodeForbidden, b.call(Diff, args{}).Code)
	require.Equal(t, contract.CodeForbidden, b.call(History, args{"path": "a"}).Code)
	var k keeper
	k.use(&b.env)
	b.env.Diff = func(_ context.Context, path string) (string, error) {
		if path != "" {
			return "", nil
		}
		return "\x1b[31m-a\x1b[0m\n" + strings.Repeat("+line\n", 10_000), nil
	}
	require.Equal(t, "[no differences]\n", b.call(Diff, args{"path": "a"}).Text)
	result := b.call(Diff, args{"path": "."})
	require.True(t, strings.HasPrefix(result.Text, "-a\n+line\n"))
	require.Contains(t, result.Text, `read_output {"id": "output/1.log"`)
	var asked []HistoryQuery
	b.env.History = func(_ context.Context, q HistoryQuery) (string, bool, error) {
		asked = append(asked, q)
		return "1234567 \x1b[1mA\n", q.Path != "unknown", nil
	}
	require.Equal(t, "1234567 A\n", b.call(History, args{"path": "a"}).Text)
	require.True(t, b.call(History, args{"path": "a", "start_line": 3}).OK)
	require.Equal(t, []HistoryQuery{{Path: "a"}, {Path: "a", First: 3, Last: 3}}, asked)
	require.False(t, b.call(History, args{"path": "unknown"}).OK)
	for _, a := range []args{{"path": "a", "end_line": 3}, {"path": "a", "start_line": 3, "end_line": 2}, {"path": "a", "start_line": 1, "end_line": 1000}} {
		require.False(t, b.call(History, a).OK)
	}
}

func TestCheckNamesWhatThereIs(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, nil)
	require.Equal(t, contract.CodeForbidden, b.call(Check, args{"name": "go test"}).Code)
	b.env.Check = func(_ context.Context, name string, onBase bool) (CheckReport, error) {
		if name != "go test" {
			return CheckReport{Unknown: true, Names: []string{"go build", "go test"}}, nil
		}
		return CheckReport{OK: onBase, Text: fmt.Sprintf("on base: %v\n", onBase)}, nil
	}
	require.Equal(t, "on base: false\n", b.call(Check, args{"name": "go test"}).Text)
	require.True(t, b.call(Check, args{"name": "go test", "on": "base"}).OK)
	unknown := b.call(Check, args{"name": "rm -rf"})
	require.False(t, unknown.OK)
	require.Contains(t, unknown.Text, "go build, go test")
	require.Equal(t, contract.CodeInvalidOutput, b.call(Check, args{"name": "go test", "on": "head"}).Code)
}

func TestATodoListIsCountedAndShownOneItemPerLine(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, nil)
	items := []any{map[string]any{"text": "a", "status": "done"}, map[string]any{"text": "b\nc", "status": "active"}}
	require.Equal(t, "Noted: 2 items, 1 of them not done yet.", b.call(Todo, args{"items": items}).Text)
	require.Equal(t, contract.CodeInvalidOutput, b.call(Todo, args{"items": []any{map[string]any{"text": "a", "status": "maybe"}}}).Code)
	require.Equal(t, "[x] a\n[>] b c\n", TodoList{[]TodoItem{{"a", "done"}, {"b\nc", "active"}}}.String())
}

func TestRevertFileRestoresThePermissionsOfAFile(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"run.sh": "true\n"})
	b.env.Earlier = func(context.Context, string, Time) (EarlierFile, error) {
		return EarlierFile{Exists: true, Executable: true, Content: []byte("true\n")}, nil
	}
	require.Equal(t, Result{OK: true, Changed: true, Path: "run.sh", Text: "Restored run.sh as it was when you began."}, b.call(RevertFile, args{"path": "run.sh"}))
	info, err := os.Stat(b.path("run.sh"))
	require.NoError(t, err)
	require.EqualValues(t, 0o755, info.Mode().Perm())
	require.False(t, b.call(RevertFile, args{"path": "run.sh"}).Changed)
}

func TestASearchShowsTheLinesAroundItsMatches(t *testing.T) {
	t.Parallel()
	b := newToolFixture(t, map[string]string{"a": "1\n2\nhit\n4\n5\n6\n7\n8\nhit\nhit\n11\n", "b": "hit\n"})
	require.Equal(t, "a:3:hit\na:9:hit\na:10:hit\nb:1:hit\n", b.call(Search, args{"pattern": "hit"}).Text)
	require.Equal(t, "a:2-2\na:3:hit\na:4-4\n--\na:8-8\na:9:hit\na:10:hit\na:11-11\n--\nb:1:hit\n",
		b.call(Search, args{"pattern": "hit", "context": 1}).Text)
	require.Equal(t, "a:1-1\na:2-2\na:3:hit\na:4-4\na:5-5\na:6-6\na:7-7\na:8-8\na:9:hit\na:10:hit\na:11-11\n",
		b.call(Search, args{"pattern": "hit", "path": "a", "context": 3}).Text)
}
