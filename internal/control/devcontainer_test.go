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
		"built":            {`{"build": {"dockerfile": "Dockerfile"}}`, "", "built from a Dockerfile, which the operator does not allow (execution.sandbox.docker.build.enabled)"},
		"composed":         {`{"dockerComposeFile": ["a.yml"], "service": "app"}`, "", "several containers"},
		"variable":         {`{"image": "example.com/dev:${localEnv:TAG}"}`, "", "contains a variable"},
		"malformed":        {`{"image": `, "", "not valid JSON"},
		"malformed name":   {`{"image": "example.com/dev:1 --privileged"}`, "", "invalid"},
		"another type":     {`{"image": 7}`, "", "not valid JSON"},
		"without":          {`{}`, "", "names no image"},
		"larger":           {`{"image": "example.com/dev:1", "x": "` + strings.Repeat("x", 64<<10) + `"}`, "", "larger than"},
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

func TestADevContainerOrADockerfileIsBuiltIfTheOperatorAllowsItAndItsImages(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		files       map[string]string
		dockerfile  string
		build       config.DockerfileBuild
		note, wrong string
	}{
		"dev container": {
			files:      map[string]string{".devcontainer/devcontainer.json": `{"build": {"dockerfile": "Dockerfile", "context": "..", "target": "dev", "args": {"V": "2"}}} // ours`, ".devcontainer/Dockerfile": "ARG V\nFROM example.com/a:$V AS dev\n"},
			dockerfile: ".devcontainer/Dockerfile", build: config.DockerfileBuild{Context: ".", Target: "dev", Args: map[string]string{"V": "2"}},
			note: "Commands run in the image of the dev container, built from .devcontainer/Dockerfile",
		},
		"old form": {
			files:      map[string]string{".devcontainer.json": `{"dockerFile": "x/Dockerfile", "context": "x"}`, "x/Dockerfile": "FROM example.com/a:1\n"},
			dockerfile: "x/Dockerfile", build: config.DockerfileBuild{Context: "x"}, note: "built from x/Dockerfile",
		},
		"another image": {
			files: map[string]string{".devcontainer.json": `{"build": {"dockerfile": "Dockerfile"}}`, "Dockerfile": "FROM example.com/a:1\nCOPY --from=evil.org/x /a /b\n"},
			note:  `Dockerfile uses the image "evil.org/x", which the operator does not allow`,
		},
		"a syntax": {
			files: map[string]string{".devcontainer.json": `{"build": {"dockerfile": "Dockerfile"}}`, "Dockerfile": "# syntax=evil.org/x\nFROM example.com/a:1\n"},
			note:  "Dockerfile: line 1: the directive syntax",
		},
		"outside": {files: map[string]string{".devcontainer.json": `{"build": {"dockerfile": "../Dockerfile"}}`}, note: "is not a path inside the repository"},
		"missing": {files: map[string]string{".devcontainer.json": `{"build": {"dockerfile": "Dockerfile"}}`}, note: "is not a file of the commit"},
		"variable": {
			files: map[string]string{".devcontainer.json": `{"build": {"dockerfile": "Dockerfile", "args": {"TOKEN": "${localEnv:TOKEN}"}}}`}, note: "contains a variable",
		},
		"configured": {
			files:      map[string]string{"rgpt.yaml": "environment: {dockerfile: ci/Dockerfile, build: {target: x}}\n", "ci/Dockerfile": "FROM example.com/a:1 AS x", ".devcontainer.json": `{"image": "example.com/dev:1"}`},
			dockerfile: "ci/Dockerfile", build: config.DockerfileBuild{Target: "x", Args: map[string]string{}}, note: "Commands run in an image that is built from ci/Dockerfile.",
		},
		"configured but not allowed": {
			files: map[string]string{"rgpt.yaml": "environment: {dockerfile: Dockerfile}\n", "Dockerfile": "FROM evil.org/x"}, wrong: `the image "evil.org/x", which the operator does not allow`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			repo := harness.Repo(t, filepath.Join(dir, "app"), c.files)
			runs := preparer(t, dir)
			box := &runs.Config.Execution.Sandbox
			box.Runner, box.Docker.Image, box.Docker.Images = config.RunnerDocker, "example.com/all:1", []string{"example.com/*"}
			_, configured := c.files["rgpt.yaml"]
			var made Created
			_, cfg, err := runs.resolve(t.Context(), Creation{Repo: repo}, &made)
			if configured {
				require.ErrorContains(t, err, "only if the operator allows it with execution.sandbox.docker.build.enabled")
			} else {
				require.NoError(t, err)
				require.Empty(t, cfg.Environment.Dockerfile)
				require.Contains(t, strings.Join(made.Notes, "\n"), "execution.sandbox.docker.build.enabled")
			}

			box.Docker.Build.Enabled, made = true, Created{}
			_, cfg, err = runs.resolve(t.Context(), Creation{Repo: repo}, &made)
			if c.wrong != "" {
				require.ErrorContains(t, err, c.wrong)
				return
			}
			require.NoError(t, err)
			require.Contains(t, strings.Join(made.Notes, "\n"), c.note)
			require.Equal(t, c.dockerfile, cfg.Environment.Dockerfile)
			require.Empty(t, cfg.Environment.Image)
			if c.dockerfile != "" {
				require.Equal(t, c.build, cfg.Environment.Build)
			} else {
				require.Contains(t, made.Notes[0], "Commands run in example.com/all:1.")
			}
		})
	}
}
