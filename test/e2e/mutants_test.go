package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/store"
	"github.com/rocketgpt/orchestrator/internal/store/views"
	"github.com/rocketgpt/orchestrator/test/harness"
	"github.com/rocketgpt/orchestrator/test/mutate"
)

// mutatedModules are public modules whose bugs are made by mutation. One of them
// has a dependency, which comes from the module cache.
var mutatedModules = []string{"github.com/google/uuid@v1.6.0", "github.com/mitchellh/go-wordwrap@v1.0.1", "github.com/mattn/go-runewidth@v0.0.16"}

// mutantsSeed decides which bugs are made; RGPT_MUTANTS_SEED makes others,
// RGPT_MUTANTS more of each module.
const mutantsSeed = 1

// mutantTime bounds the tests of one mutant: a mistake may make them endless.
const mutantTime = "20s"

// mutated is a repository of a public module whose last commit has a bug.
type mutated struct {
	mutate.Mutant
	module, name, repo string
	failing            []string // tests
	head               string   // the commit with the bug
}

// TestBugsOfRealModulesAreHealed makes bugs in public modules as mutation testing
// does: in the order of a seed, the first that compiles and that the module's own
// tests notice. A run whose builder does not see the bug meets it in its tests,
// and the Repair agent takes it back.
func TestBugsOfRealModulesAreHealed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var bugs []mutated
	for _, module := range mutatedModules {
		bugs = append(bugs, bugsOf(t, dir, module)...)
	}
	var rules harness.Rules
	for _, b := range bugs {
		rules = append(rules, b.rules()...)
	}
	// The base commits have the bugs, which a baseline would let pass.
	w := &stackTests{Stack: harness.Start(t, harness.Options{Scenario: rules, Config: "verification: {baseline: \"off\"}\n"})}
	t.Run("each", func(t *testing.T) {
		for _, b := range bugs {
			t.Run(b.name, parallel(func(t *testing.T) { w.healsBug(t, b) }))
		}
	})
	slices.Sort(w.runs)
	harness.CheckInvariants(t, w.Stack, w.runs...)
	w.CheckSandboxes(t)
}

// number reads a number from the environment.
func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

// bugsOf makes repositories of a module, each with one bug.
func bugsOf(t *testing.T, dir, module string) []mutated {
	t.Helper()
	seed, wanted := number(t, "RGPT_MUTANTS_SEED", mutantsSeed), number(t, "RGPT_MUTANTS", 1)
	source := download(t, module)
	path, _, _ := strings.Cut(module, "@")
	base := filepath.Base(path)
	work := filepath.Join(dir, base)
	copyModule(t, source, work)
	passed, failing, out := goTest(t, work)
	require.True(t, passed && len(failing) == 0, "the tests of %s pass here: %s", module, out)
	mutants, err := mutate.Module(work, seed)
	require.NoError(t, err)
	var bugs []mutated
	for n, m := range mutants {
		if uint64(len(bugs)) == wanted {
			break
		}
		harness.WriteFiles(t, work, map[string]string{m.File: string(m.Text)})
		passed, failing, out := goTest(t, work)
		harness.WriteFiles(t, work, map[string]string{m.File: string(m.True)})
		// One that ends the test program is no failed assertion.
		if passed || len(failing) == 0 || strings.Contains(out, "panic: ") {
			continue
		}
		b := mutated{Mutant: m, module: module, name: fmt.Sprintf("%s-%d", base, len(bugs)+1), failing: failing}
		b.commit(t, work, filepath.Join(dir, b.name))
		t.Logf("bug of %s, seed %d, mutant %d of %d: %s; %s fail", module, seed, n+1, len(mutants), m, strings.Join(failing, ", "))
		bugs = append(bugs, b)
	}
	require.Len(t, bugs, int(wanted), "the tests of %s notice bugs", module) //nolint:gosec // a handful
	return bugs
}

// unreachable is what the go command says where no module proxy answers.
var unreachable = regexp.MustCompile(`dial tcp|no such host|i/o timeout|connection refused|network is unreachable|module lookup disabled|TLS handshake timeout`)

// download gets a module with what it depends on into the module cache and
// returns its folder.
func download(t *testing.T, module string) string {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	cmd.Dir, cmd.Stderr = t.TempDir(), &errs
	raw, err := cmd.Output()
	if text := errs.String() + string(raw); err != nil && unreachable.MatchString(text) {
		t.Skipf("%s is not in the module cache, and no module proxy can be reached: %.300s", module, text)
	}
	require.NoError(t, err, "go mod download %s: %s%s", module, raw, errs.String())
	var got struct{ Dir string }
	require.NoError(t, json.Unmarshal(raw, &got))
	return got.Dir
}

// copyModule copies a module from the cache, where nobody may write.
func copyModule(t *testing.T, from, to string) {
	t.Helper()
	require.NoError(t, os.CopyFS(to, os.DirFS(from)))
	require.NoError(t, filepath.WalkDir(to, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		mode := os.FileMode(0o644)
		if d.IsDir() {
			mode = 0o755
		}
		return os.Chmod(path, mode)
	}))
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download")
	cmd.Dir = to
	out, err := cmd.CombinedOutput()
	if err != nil && unreachable.Match(out) {
		t.Skipf("what %s depends on is not in the module cache, and no module proxy can be reached: %.300s", from, out)
	}
	require.NoError(t, err, "go mod download in %s: %s", from, out)
}

// goTest runs the tests of a module and returns those that failed.
func goTest(t *testing.T, dir string) (passed bool, failing []string, output string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), longest)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-json", "-vet=off", "-timeout", mutantTime, "./...")
	cmd.Dir = dir
	raw, err := cmd.Output()
	for line := range bytes.SplitSeq(raw, []byte("\n")) {
		var e struct{ Action, Test, Output string }
		if json.Unmarshal(line, &e) != nil {
			continue
		}
		output += e.Output
		if e.Action == "fail" && e.Test != "" {
			failing = append(failing, e.Test)
		}
	}
	return err == nil, failing, output
}

// commit makes the repository: the true code, then the bug.
func (b *mutated) commit(t *testing.T, work, repo string) {
	t.Helper()
	require.NoError(t, os.CopyFS(repo, os.DirFS(work)))
	harness.Repo(t, repo, nil)
	harness.WriteFiles(t, repo, map[string]string{b.File: string(b.Text)})
	harness.Git(t, repo, "commit", "--quiet", "--all", "--message", "Refactor "+b.File)
	b.repo, b.head = repo, harness.Git(t, repo, "rev-parse", "HEAD")
}

// The builder's change, which has nothing to do with the bug.
const (
	builderFile = "MAINTENANCE.md"
	builderText = "# Maintenance\n\nThe tests have to pass before a release.\n"
)

// rules are those of a builder that looks elsewhere and of a Repair agent that
// reads, reproduces, mends and runs the tests again.
func (b *mutated) rules() harness.Rules {
	from, to := b.Inverse()
	plan := harness.PlanRules("20ms", harness.Step{ID: "step-001", Turns: [][]harness.Call{
		{call("create_file", "path", builderFile, "content", builderText), harness.Finish("wrote down how it is maintained")},
	}})
	test := call("run_command", "command", "go test ./...")
	repair := func(turn int, list ...harness.Call) map[string]any {
		return rule(on("agent", "repair", "phase", "tester_running", "turn", turn), calls(list...), 300)
	}
	return append(harness.Rules{
		repair(1, call("read_file", "path", b.File), test),
		repair(2, call("edit_file", "path", b.File, "old_text", from, "new_text", to), test),
		repair(3, harness.Finish("took back a mistake in "+b.File)),
	}, plan...).Named("mutant-" + b.name)
}

func (w *stackTests) healsBug(t *testing.T, b mutated) {
	t.Helper()
	goal := harness.Goal("mutant-"+b.name) + ": make the tests of the module pass"
	id := w.note(w.Create(t, "--repo", b.repo, "--goal", goal))
	end := w.AwaitEnd(t, w.Store(t), id, 4*longest)
	require.Equal(t, contract.StatusDone, end.Status, "%s: %v", b, end.Failure)
	run := w.Inspect(t, id)
	require.Equal(t, []string{"ASSERTION_ERROR tests_failed repair success"}, healsOf(run))
	b.foundIn(t, run)
	b.takenBackBy(t, run)
	b.releasedIn(t, run)
}

// foundIn requires that the first tester was red with a finding for each test
// that the bug makes fail, and the second was green.
func (b *mutated) foundIn(t *testing.T, run views.RunDetails) {
	t.Helper()
	testers := slices.DeleteFunc(slices.Clone(run.Executions), func(e store.Execution) bool { return e.Phase != contract.PhaseTester || e.Step != "" })
	require.Len(t, testers, 2)
	require.Equal(t, contract.ExecutionFailed, testers[0].Status)
	require.Equal(t, contract.ExecutionCompleted, testers[1].Status)
	require.Equal(t, testers[0].ID, run.SelfHealEvents[0].ExecutionID)
	for _, test := range b.failing {
		found := slices.IndexFunc(run.Findings, func(f store.Finding) bool {
			return f.ExecutionID == testers[0].ID && strings.HasSuffix(f.Rule, "."+test)
		})
		require.GreaterOrEqual(t, found, 0, "a finding for %s; there are %v", test, run.Findings)
		require.True(t, run.Findings[found].Resolved, "what was found at %s is resolved", test)
	}
}

// takenBackBy requires that the repair is the inverse of the bug, in the row
// and in the conversation: the Repair agent saw the red test, then the green one.
func (b *mutated) takenBackBy(t *testing.T, run views.RunDetails) {
	t.Helper()
	out := run.SelfHealEvents[0].Output()
	require.Equal(t, changedLines(harness.Git(t, b.repo, "diff", "main", "main~1")), changedLines(out.Diff))
	require.Equal(t, b.tree(t, "main"), out.Before["tree"])
	require.Equal(t, b.tree(t, "main~1"), out.After["tree"])
	requireArtifact(t, run, "heal/1/change.patch")
}

// changedLines are the lines that a patch takes and gives, with their signs.
func changedLines(patch string) (lines []string) {
	for line := range strings.SplitSeq(patch, "\n") {
		if strings.HasPrefix(line, "+++") || strings.HasPrefix(line, "---") {
			continue
		}
		if strings.HasPrefix(line, "+") || strings.HasPrefix(line, "-") {
			lines = append(lines, line)
		}
	}
	return lines
}

// tree is that of a commit with the builder's change on top.
func (b *mutated) tree(t *testing.T, commit string) string {
	t.Helper()
	clone := filepath.Join(t.TempDir(), "clone")
	harness.Git(t, b.repo, "clone", "--quiet", "--no-checkout", b.repo, clone)
	harness.Git(t, clone, "checkout", "--quiet", harness.Git(t, b.repo, "rev-parse", commit))
	harness.WriteFiles(t, clone, map[string]string{builderFile: builderText})
	harness.Git(t, clone, "add", "--all")
	return harness.Git(t, clone, "write-tree")
}

// releasedIn requires that the branch is the true code and the builder's change.
func (b *mutated) releasedIn(t *testing.T, run views.RunDetails) {
	t.Helper()
	require.Equal(t, b.tree(t, "main~1"), harness.Git(t, b.repo, "rev-parse", run.ReleaseBranch+"^{tree}"))
	require.Equal(t, b.head, harness.Git(t, b.repo, "rev-parse", "main"), "the branch main stays")
	require.Empty(t, harness.Git(t, b.repo, "status", "--porcelain"), "the working directory stays")
	repairedBy("heal-1")(t, run)
}
