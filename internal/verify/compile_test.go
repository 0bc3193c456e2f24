package verify

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/verify/checks"
)

// layers is an Env with only its own build cache.
func layers(t *testing.T, cache sandbox.GoCache) Env {
	t.Helper()
	env := isolated(t, detected())
	env.Mounts, env.Vars, env.GoCache = nil, nil, cache
	return env
}

// compiledBase is a base that the tests of this package reuse from run to run:
// compiling the standard library takes longer than all of them.
func compiledBase(t *testing.T) string {
	t.Helper()
	dir, err := os.UserCacheDir()
	require.NoError(t, err)
	dir = filepath.Join(dir, "rgpt-verify-test")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	dir, err = filepath.EvalSymlinks(dir)
	require.NoError(t, err)
	require.NoError(t, Compile(t.Context(), checkout(t, goFiles(goodGoTest)), layers(t, sandbox.GoCache{Dir: dir})))
	return dir
}

func cached(t *testing.T, dir string) (n int) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(p, "-entry") {
			n++
		}
		return err
	}))
	return n
}

func TestCompilingRunsNothingOfTheCheckoutAndSparesTheChecksTheWork(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	files := goFiles("package calc\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\nfunc init() { _ = os.WriteFile(\"ran\", nil, 0o600) }\n\nfunc TestMain(m *testing.M) { os.Exit(m.Run()) }\n\nfunc TestAdd(t *testing.T) {}\n")
	root, base := checkout(t, files), compiledBase(t)
	require.NoError(t, Compile(t.Context(), root, layers(t, sandbox.GoCache{Dir: base})))
	require.NoFileExists(t, filepath.Join(root, "calc", "ran"))
	require.Greater(t, cached(t, base), 50)

	for _, id := range []string{"build-go", "test-go-1", "lint-go"} {
		layer := checkout(t, nil)
		o := runWith(t, root, id, layers(t, sandbox.GoCache{Base: base, Dir: layer}))
		require.True(t, o.OK, "%s\n%s", id, o.Log)
		require.Less(t, cached(t, layer), 10, "%s compiled what the base has", id)
	}
	require.FileExists(t, filepath.Join(root, "calc", "ran"), "the tests did not run, so nothing was to be seen")
}

func TestWhatDoesNotCompileIsNoErrorOfCompile(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	files := goFiles("package calc\n\nfunc broken( {\n")
	require.NoError(t, Compile(t.Context(), checkout(t, files), layers(t, sandbox.GoCache{Dir: compiledBase(t)})))
}

// A hostile test that may write wherever its check may, and what a check of
// another tree finds afterwards.
func TestAHostileTestCannotPlantWhatAnotherCheckRuns(t *testing.T) {
	t.Parallel()
	needs(t, "go")
	base := compiledBase(t)
	poison := goFiles("package calc\n\nimport (\n\t\"os\"\n\t\"path/filepath\"\n\t\"strings\"\n\t\"testing\"\n)\n\nfunc TestAdd(t *testing.T) {\n" +
		"\tfor _, dir := range strings.Fields(strings.ReplaceAll(os.Getenv(\"GOCACHEPROG\"), \"'\", \"\"))[2:] {\n" +
		"\t\tfiles, _ := filepath.Glob(dir + \"/*/*\")\n\t\tfor _, f := range files {\n\t\t\tt.Log(f, os.WriteFile(f, []byte(\"poison\\n\"), 0o600))\n\t\t}\n\t}\n}\n")
	hostile := checkout(t, nil)
	o := runWith(t, checkout(t, poison), "test-go-1", layers(t, sandbox.GoCache{Base: base, Dir: hostile}))
	require.True(t, o.OK, "%s", o.Log)
	planted := 0
	require.NoError(t, filepath.WalkDir(hostile, func(p string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if text, _ := os.ReadFile(p); string(text) == "poison\n" {
				planted++
			}
		}
		return err
	}))
	require.Positive(t, planted, "the test is not hostile enough: %s", o.Log)

	after := layers(t, sandbox.GoCache{Base: base, Dir: checkout(t, nil)})
	require.True(t, runWith(t, checkout(t, goFiles(goodGoTest)), "test-go-1", after).OK)
	require.False(t, runWith(t, checkout(t, goFiles(strings.Replace(goodGoTest, "!= 3", "!= 4", 1))), "test-go-1", after).OK)
}

func TestDependenciesChangeWithTheFilesThatNameThem(t *testing.T) {
	t.Parallel()
	files := goFiles(goodGoTest)
	first := checks.Dependencies(checkout(t, files))
	require.NotEmpty(t, first)
	files["calc/calc.go"] += "\n// more\n"
	require.Equal(t, first, checks.Dependencies(checkout(t, files)))
	files["go.sum"] = "example.com/x v1.0.0 h1:x\n"
	require.NotEqual(t, first, checks.Dependencies(checkout(t, files)))
	require.Empty(t, checks.Dependencies(checkout(t, map[string]string{"a.py": ""})))
}
