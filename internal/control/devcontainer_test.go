package control

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/test/harness"
)

func TestCommandsRunInTheImageOfADevContainerThatTheOperatorAllows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ file, image, note string }{
		"allowed":          {"// ours\n{\"image\": \"example.com/dev:1\", /* tools */ \"features\": {},}", "example.com/dev:1", "Commands run in the image of the dev container, example.com/dev:1"},
		"not allowed":      {`{"image": "evil.org/dev:1"}`, "", `the operator does not allow "evil.org/dev:1" (execution.sandbox.docker.images)`},
		"below":            {`{"image": "example.com/other/dev:1"}`, "", "does not allow"},
		"built":            {`{"build": {"dockerfile": "Dockerfile"}}`, "", "built from a Dockerfile"},
		"composed":         {`{"dockerComposeFile": ["a.yml"], "service": "app"}`, "", "several containers"},
		"variable":         {`{"image": "example.com/dev:${localEnv:TAG}"}`, "", "contains a variable"},
		"malformed":        {`{"image": `, "", "not valid JSON"},
		"malformed name":   {`{"image": "example.com/dev:1 --privileged"}`, "", "invalid"},
		"another type":     {`{"image": 7}`, "", "not valid JSON"},
		"without":          {`{}`, "", "names no image"},
		"larger":           {`{"image": "example.com/dev:1", "x": "` + strings.Repeat("x", maxDevContainer) + `"}`, "", "larger than"},
		"no dev container": {"", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files := map[string]string{"a": "b"}
			if c.file != "" {
				files[".devcontainer/devcontainer.json"] = c.file
			}
			repo := harness.Repo(t, filepath.Join(dir, "app"), files)
			runs := preparer(t, dir)
			box := &runs.Config.Execution.Sandbox
			box.Runner, box.Docker.Image, box.Docker.Images = config.RunnerDocker, "example.com/all:1", []string{"example.com/*"}
			var made Created
			_, cfg, err := runs.resolve(t.Context(), Creation{Repo: repo}, &made)
			require.NoError(t, err)
			require.Equal(t, c.image, cfg.Environment.Image)
			require.Contains(t, strings.Join(made.Notes, "\n"), c.note)
			require.Empty(t, runs.Config.Environment.Image, "the operator's configuration stays")
			if c.note == "" {
				require.Empty(t, made.Notes)
			}
		})
	}
}

func TestAnImageThatIsConfiguredOverridesTheDevContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	repo := harness.Repo(t, filepath.Join(dir, "app"), map[string]string{
		".devcontainer.json": `{"image": "example.com/dev:1"}`, "rgpt.yaml": "environment: {image: \"example.com/own:1\"}\n",
	})
	runs := preparer(t, dir)
	_, _, err := runs.resolve(t.Context(), Creation{Repo: repo}, &Created{})
	require.ErrorContains(t, err, "a repository may choose only images that the operator allows")

	box := &runs.Config.Execution.Sandbox
	box.Docker.Images = []string{"example.com/*"}
	_, _, err = runs.resolve(t.Context(), Creation{Repo: repo}, &Created{})
	require.ErrorContains(t, err, "environment.image: requires execution.sandbox.runner: docker", "a run that could not start is not created")

	box.Runner, box.Docker.Image = config.RunnerDocker, "example.com/all:1"
	var made Created
	_, cfg, err := runs.resolve(t.Context(), Creation{Repo: repo}, &made)
	require.NoError(t, err)
	require.Equal(t, "example.com/own:1", cfg.Environment.Image)
	require.Empty(t, made.Notes)
}
