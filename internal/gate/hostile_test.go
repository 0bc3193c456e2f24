package gate_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/gatetest"
	"github.com/rocketgpt/orchestrator/internal/gate/policy"
)

// The bounds of one judgement of a hostile change, whatever it contains. They are wide, because other
// tests run at the same time; without limits, these changes take minutes or gigabytes.
const (
	hostileTime   = 60 * time.Second
	hostileMemory = 1 << 30
)

// complete returns the gate with all guards.
func complete(t *testing.T) *gate.Gate {
	t.Helper()
	g, err := gate.New(t.Context(), config.Default())
	require.NoError(t, err)
	return g
}

// bounded judges a change within the bounds.
func bounded(t *testing.T, g *gate.Gate, c change.Change) policy.Verdict {
	t.Helper()
	c.Author = change.RoleRun
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	began := time.Now()
	v, err := g.Judge(t.Context(), c, gate.Facts{Stage: policy.StageRelease, Run: policy.Run{Pushes: true}})
	require.NoError(t, err)
	took := time.Since(began)
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Log(took, len(v.Reasons), v.Decision)
	require.Less(t, took, hostileTime)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(hostileMemory))
	require.LessOrEqual(t, len(v.Reasons), policy.MaxReasons)
	for _, r := range v.Reasons {
		require.LessOrEqual(t, len([]rune(r.Text)), 1100)
	}
	return v
}

// read cuts a version as Read does: what is larger is judged without its content.
func read(v change.Version) change.Version {
	if len(v.Content) > gate.MaxFileBytes {
		v.Content, v.Unread = nil, true
	}
	return v
}

// fresh is a change that adds files.
func fresh(files map[string]string) change.Change {
	after := gatetest.Tree{}
	for p, text := range files {
		after[p] = text
	}
	c := gatetest.Between(gatetest.Tree{"README.md": "# A\n"}, after)
	for i := range c.Files {
		c.Files[i].After = read(c.Files[i].After)
	}
	return c
}

// languages are paths that make all guards read a file.
var languages = []string{
	"a.go", "a_test.go", "src/a.js", "src/a.test.ts", "p/a.py", "tests/test_a.py", "src/lib.rs", "src/main/java/A.java", "src/test/java/ATest.java", "A.cs", "ATests.cs", "lib/a.rb", "spec/a_spec.rb",
	"src/A.php", "tests/ATest.php", "a.kt", "test/a_test.exs", "test/a.cc", "a.json", "a.yaml", "a.toml", "a.xml", "a.sh", "package.json", "package-lock.json", "go.mod", "Cargo.toml", "pyproject.toml", "pom.xml",
	"yarn.lock", "pnpm-lock.yaml", "requirements.txt", "Gemfile", "build.gradle", "A.csproj", "composer.json", "Pipfile", ".github/workflows/a.yml", "Makefile", ".npmrc", ".gitattributes", "LICENSE", "AGENTS.md", ".env",
}

func TestDeepNestingInEveryLanguageIsBounded(t *testing.T) {
	g := complete(t)
	const depth = 100_000
	for _, unit := range []string{"(", "[", "{", "{\"a\":", "<a>", "- ", "a.", "if a {", "f(", "\"$(", "/*", "begin\n"} {
		files := map[string]string{}
		for _, p := range languages {
			files[p] = strings.Repeat(unit, depth)
		}
		bounded(t, g, fresh(files))
	}
}

func TestTextsThatMakeRegularExpressionsSlowAreBounded(t *testing.T) {
	g := complete(t)
	const size = 100 << 10
	for _, unit := range []string{
		"aws_secret_key = ", "token=\"", "password: ", "-----BEGIN PRIVATE KEY-----", "ghp_a", "eyJ", "ignore all ", "system: ", "curl ", "//go:generate ", "@overload\n", "copyright (c) 2020,",
		"\\x67", "\"a\" + ", "AAAA", "<|im_start|>", "AKIA", "\u200b", "\u202e", "![", "${{ ", "source ", "#{", " \t", "a\r",
	} {
		files := map[string]string{}
		for _, p := range []string{"a.go", "a.py", "tests/test_a.py", ".env", "a.yaml", "spec/a_spec.rb", ".github/workflows/a.yml", "requirements.txt", "LICENSE", "a.js"} {
			files[p] = strings.Repeat(unit, size/len(unit))
		}
		bounded(t, g, fresh(files))
	}
}

func TestHugeAndUnreadableFilesAreNeverAllowed(t *testing.T) {
	g := complete(t)
	for name, c := range map[string]struct {
		change   change.Change
		decision policy.Decision
		says     string
	}{
		"100 MB":          {fresh(map[string]string{"README.md": "# A\n", "a.go": strings.Repeat("x", 100<<20)}), policy.Deny, "a.go has 104857600 bytes"},
		"a line of 10 MB": {fresh(map[string]string{"README.md": "# A\n", "a.py": strings.Repeat("x", 10<<20)}), policy.NeedsApproval, "too large to be examined"},
		"a line of 1 MB":  {fresh(map[string]string{"README.md": "# A\n", "a.go": "package a\n" + strings.Repeat("x", 1<<20-20)}), policy.Deny, "not valid"},
		"bad UTF-8":       {fresh(map[string]string{"README.md": "# A\n", "a.go": "package a\n" + strings.Repeat("\xff\xfe\x80", 100_000)}), policy.Deny, "not valid"},
		"zero bytes":      {fresh(map[string]string{"README.md": "# A\n", "a.bin": strings.Repeat("\x00", 1<<20)}), "", "not text"},
		"too many files":  {change.Change{Unread: 5}, policy.Deny, "5 changed files"},
	} {
		v := bounded(t, g, withTrees(c.change))
		if c.decision != "" {
			require.Equal(t, c.decision, v.Decision, "%s: %v", name, v.Reasons)
		}
		require.Contains(t, fmt.Sprint(v.Reasons), c.says, name)
	}
}

func withTrees(c change.Change) change.Change {
	if c.Base == nil {
		c.Base, c.Tree = gatetest.Tree{}, gatetest.Tree{}
	}
	return c
}

func TestTenThousandFilesAreBounded(t *testing.T) {
	g := complete(t)
	files := map[string]string{"README.md": "# A\n"}
	for i := range 10_000 {
		files[fmt.Sprintf("p%d/a%d%s", i%100, i, []string{".go", ".py", ".js", ".rb", ".yaml"}[i%5])] = fmt.Sprintf("x%d = 1\n", i)
	}
	v := bounded(t, g, fresh(files))
	require.NotEqual(t, policy.Allow, v.Decision)
	require.Contains(t, fmt.Sprint(v.Reasons), "10000 files")
}

func TestNamesThatDeceiveAreDenied(t *testing.T) {
	g := complete(t)
	for _, name := range []string{"a\nb.go", "a\x1b[31m.go", "a\u202eog.txt", "a\u200b.go", "a\x00b", "a\xff.go", "\r.go", "a/\u2066b", strings.Repeat("a/", 3000) + "b", strings.Repeat("x", 300)} {
		v := bounded(t, g, fresh(map[string]string{"README.md": "# A\n", name: "package a\n"}))
		require.Equal(t, policy.Deny, v.Decision, "%q", name)
		require.NotContains(t, fmt.Sprint(v.Reasons[0].Text), "\n", "%q", name)
		require.NotContains(t, fmt.Sprint(v.Reasons[0].Text), "\u202e", "%q", name)
	}
}

func TestManyLinksInACircleAreBounded(t *testing.T) {
	g := complete(t)
	c := fresh(map[string]string{"README.md": "# A\n"})
	const n = 2000
	for i := range n {
		c.Files = append(c.Files, change.File{Path: fmt.Sprintf("l%05d", i), After: gatetest.Entry(change.ModeLink, fmt.Sprintf("l%05d/x", (i+1)%n))})
	}
	v := bounded(t, g, c)
	require.NotEqual(t, policy.Allow, v.Decision)
	require.Contains(t, fmt.Sprint(v.Reasons), "leads to another link")
}

func TestHugeManifestsAreBounded(t *testing.T) {
	g := complete(t)
	var mod, lock, requirements, cargo strings.Builder
	mod.WriteString("module a\n\nrequire (\n")
	lock.WriteString(`{"packages": {`)
	cargo.WriteString("[dependencies]\n")
	for i := range 20_000 {
		fmt.Fprintf(&mod, "\texample.org/m%dlongname v1.0.0\n", i)
		fmt.Fprintf(&requirements, "requests-name%d==1.0.0\n", i)
		fmt.Fprintf(&cargo, "serde-name%d = \"1\"\n", i)
		if i < 7_000 {
			fmt.Fprintf(&lock, `%q: {"version": "1.0.0", "resolved": "http://evil.example.org/%d.tgz"},`, fmt.Sprintf("node_modules/express%d", i), i)
		}
	}
	mod.WriteString(")\n")
	lock.WriteString(`"": {}}}`)
	v := bounded(t, g, fresh(map[string]string{
		"README.md": "# A\n", "go.mod": mod.String(), "package-lock.json": lock.String(), "requirements.txt": requirements.String(), "Cargo.toml": cargo.String(),
	}))
	require.NotEqual(t, policy.Allow, v.Decision)
	require.Contains(t, fmt.Sprint(v.Reasons), "more findings are not listed")
}
