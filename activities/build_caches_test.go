package activities_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/contract"
)

// commit adds files to the repository; the run starts from there.
func (h *fixture) commit(files map[string]string) {
	h.t.Helper()
	source := filepath.Join(h.dataDir, "source")
	for name, text := range files {
		require.NoError(h.t, os.WriteFile(filepath.Join(source, name), []byte(text), 0o644))
	}
	h.git("add", "-A")
	h.git("-c", "user.name=t", "-c", "user.email=t@t", "commit", "-qm", "More")
	var err error
	h.repo, _, err = h.Workspaces.Resolve(h.t.Context(), source, "")
	require.NoError(h.t, err)
	start, err := h.Workspaces.Start(h.t.Context(), h.repo)
	require.NoError(h.t, err)
	h.repo.Tree = start.Tree
}

// built returns the files of the build caches whose path contains all parts.
func (h *fixture) built(parts ...string) (found []string) {
	h.t.Helper()
	root := filepath.Join(h.dataDir, "cache", "build")
	require.NoError(h.t, filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		rel := strings.TrimPrefix(p, root)
		for _, part := range parts {
			if err != nil || d.IsDir() || !strings.Contains(rel, part) {
				return err
			}
		}
		found = append(found, rel)
		return nil
	}))
	return found
}

func TestACheckReadsTheBaseAndLeavesNoLayer(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.commit(map[string]string{"go.mod": "module example.com/m\n\ngo 1.21\n", "m.go": "package m\n\n// Answer is the answer.\nconst Answer = 42\n"})
	e := h.begin(contract.PhaseTester, "")
	check := func(ws contract.Workspace) contract.CheckResult {
		result, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{
			Execution: e, Workspace: ws, Check: contract.Check{ID: "build-go", Category: contract.CategoryBuild}, Timeout: 60e9,
		})
		require.Nil(t, failure)
		return result
	}
	require.True(t, check(h.repo.Workspace()).OK)
	base := h.built("/repos/", "-entry")
	require.NotEmpty(t, base, "the base commit was not compiled")
	require.Empty(t, h.built("/runs/"), "the check left its layer")

	dir, err := h.Workspaces.Open(t.Context(), h.repo.Workspace(), "changed")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir.Path(), "m.go"), []byte("package m\n\n// Answer is another.\nconst Answer = 43\n"), 0o644))
	changed, err := dir.Save(t.Context())
	require.NoError(t, err)
	dir.Close()
	require.True(t, check(changed).OK)
	require.Equal(t, base, h.built("/repos/", "-entry"), "an agent's change reached the base")
}

func TestWhatAnAgentCompiledIsThereForItsNextCommandAndGoesWithTheRun(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  - reply: {tool_calls: [{name: run_command, arguments: {command: \"echo built >$GOCACHE/x-entry\"}}]}")
	e, ws := h.openStep()
	_, failure := do[contract.ThinkResult](h, h.Think, contract.ThinkInput{Execution: e, Turn: 1, Model: choice})
	require.Nil(t, failure)
	out, failure := do[contract.ToolOutcome](h, h.CallTool, contract.ToolInput{Execution: e, Turn: 1, Workspace: ws, Timeout: 30e9})
	require.Nil(t, failure)
	require.True(t, out.OK)
	require.Len(t, h.built("/runs/"+strconv.FormatInt(h.run.ID, 10)+"/builder/", "x-entry"), 1)
	found, failure := do[bool](h, h.CleanUp, h.run.ID)
	require.Nil(t, failure)
	require.True(t, found)
	found, failure = do[bool](h, h.CleanUp, h.run.ID)
	require.Nil(t, failure)
	require.False(t, found)
	require.Empty(t, h.built("/runs/"))
}

func TestTheSizeOfALogIsThatOfWhatIsStored(t *testing.T) {
	t.Parallel()
	h := newFixture(t, "  []")
	h.commit(map[string]string{"Makefile": "test:\n\t@echo 'Authorization: Bearer sk-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH'\n"})
	e := h.begin(contract.PhaseTester, "")
	_, failure := do[contract.CheckResult](h, h.Verify, contract.VerifyInput{
		Execution: e, Workspace: h.repo.Workspace(), Check: contract.Check{ID: "test-make-1", Category: contract.CategoryTest}, Timeout: 60e9,
	})
	require.Nil(t, failure)
	all, err := h.Store.Artifacts(t.Context(), h.run.ID)
	require.NoError(t, err)
	require.Len(t, all, 1)
	text, err := h.Artifacts.Get(t.Context(), all[0].Digest)
	require.NoError(t, err)
	require.NotContains(t, string(text), "sk-abcdef", "nothing was redacted, so nothing was to be seen")
	require.EqualValues(t, len(text), all[0].Size)
}
