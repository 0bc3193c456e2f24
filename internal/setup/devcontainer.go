package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker/dockerfile"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// devContainerFiles describe the container in which the authors of a repository work; see
// containers.dev. The first one counts.
var devContainerFiles = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// maxDevContainer is the maximum size of such a file in bytes.
const maxDevContainer = 64 << 10

// WithImage returns the configuration with the image in which the commands of a repository run: the
// configured one, else that of its dev container, if commands run in containers and the operator allows
// it. The note says which image is used, or why it is not. A configured Dockerfile that cannot be built
// is an error.
func WithImage(ctx context.Context, workspaces *workspace.Manager, cfg *config.Config, start contract.Workspace) (_ *config.Config, note string, err error) {
	e := cfg.Environment
	switch {
	case cfg.Execution.Sandbox.Runner != config.RunnerDocker || e.Image != "" || !e.Enabled:
		return cfg, "", nil
	case e.Dockerfile != "":
		reason, err := cannotBuild(ctx, workspaces, cfg, start, e.Dockerfile, e.Build)
		if err == nil && reason != "" {
			err = fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "the image of %s (environment.dockerfile) cannot be built: %s", e.Dockerfile, reason)
		}
		return cfg, fmt.Sprintf("Commands run in an image that is built from %s.", e.Dockerfile), err
	}
	for _, name := range devContainerFiles {
		data, found, err := workspaces.File(ctx, start, name, math.MaxInt64)
		if err != nil {
			return cfg, "", err
		}
		if !found {
			continue
		}
		own := *cfg
		what, reason := devContainer(&own, name, data)
		if reason == "" && own.Environment.Dockerfile != "" {
			if reason, err = cannotBuild(ctx, workspaces, cfg, start, own.Environment.Dockerfile, own.Environment.Build); err != nil {
				return cfg, "", err
			}
		}
		if reason != "" {
			return cfg, fmt.Sprintf("The dev container in %s is not used: %s. Commands run in %s.", name, reason, cfg.Execution.Sandbox.Docker.Image), nil
		}
		return &own, fmt.Sprintf("Commands run in the image of the dev container, %s (%s).", what, name), nil
	}
	return cfg, "", nil
}

// devContainer sets the image of a dev container, and describes it, or returns the reason why it cannot
// be used.
func devContainer(cfg *config.Config, name string, data []byte) (what, reason string) {
	if len(data) > maxDevContainer {
		return "", fmt.Sprintf("the file is larger than %d bytes", maxDevContainer)
	}
	standard, err := hujson.Standardize(append(slices.Clone(data), '\n')) // a comment may end the file
	var file devContainerFile
	if err == nil {
		err = json.Unmarshal(standard, &file)
	}
	if err != nil {
		return "", "the file is not valid JSON with comments"
	}
	if file.Image != "" || file.Build == nil && file.DockerFile == "" {
		return file.Image, file.setImage(cfg)
	}
	reason = file.setBuild(cfg, path.Dir(name))
	return "built from " + cfg.Environment.Dockerfile, reason
}

// devContainerFile contains the properties of a dev container that choose its image.
type devContainerFile struct {
	Image      string             `json:"image"`
	Build      *devContainerBuild `json:"build"`
	DockerFile string             `json:"dockerFile"` // the old form of build.dockerfile
	Context    string             `json:"context"`    // the old form of build.context
	Compose    json.RawMessage    `json:"dockerComposeFile"`
}

type devContainerBuild struct {
	Dockerfile string            `json:"dockerfile"`
	Context    string            `json:"context"`
	Target     string            `json:"target"`
	Args       map[string]string `json:"args"`
}

// setImage sets the image that a dev container names, or returns the reason why it cannot be used.
func (f devContainerFile) setImage(cfg *config.Config) (reason string) {
	switch {
	case f.Image == "" && len(f.Compose) > 0:
		return "it consists of several containers; set environment.image"
	case f.Image == "":
		return "it names no image"
	case strings.Contains(f.Image, "${"):
		return "the name of its image contains a variable; set environment.image"
	case !config.IsImage(f.Image):
		return "the name of its image is invalid"
	case !cfg.AllowsImage(f.Image):
		return fmt.Sprintf("the operator does not allow %q (execution.sandbox.docker.images)", f.Image)
	}
	cfg.Environment.Image = f.Image
	return ""
}

// setBuild sets the Dockerfile of a dev container in a directory, or returns the reason why it cannot be
// used.
func (f devContainerFile) setBuild(cfg *config.Config, dir string) (reason string) {
	if !cfg.Execution.Sandbox.Docker.Build.Enabled {
		return "it is built from a Dockerfile, which the operator does not allow (execution.sandbox.docker.build.enabled)"
	}
	var b devContainerBuild
	if f.Build != nil {
		b = *f.Build
	}
	file := cmp.Or(b.Dockerfile, f.DockerFile)
	texts := []string{file, b.Context, f.Context, b.Target}
	for name, value := range b.Args {
		texts = append(texts, name, value)
	}
	if strings.Contains(strings.Join(texts, "\n"), "${") {
		return "its build contains a variable; set environment.dockerfile"
	}
	if file == "" {
		return "its build names no Dockerfile"
	}
	set := config.Environment{
		Dockerfile: path.Join(dir, file), Build: config.DockerfileBuild{Context: path.Join(dir, cmp.Or(b.Context, f.Context, ".")), Target: b.Target, Args: b.Args},
	}
	if err := config.CheckDockerfile(set); err != nil {
		return "its build is invalid: " + err.Error()
	}
	cfg.Environment.Dockerfile, cfg.Environment.Build = set.Dockerfile, set.Build
	return ""
}

// cannotBuild returns the reason why an image cannot be built from a Dockerfile of a workspace, as far as
// its text shows; the files of its context and the images of the Docker host are seen by the worker.
func cannotBuild(ctx context.Context, workspaces *workspace.Manager, cfg *config.Config, start contract.Workspace, name string, b config.DockerfileBuild) (reason string, err error) {
	data, found, err := workspaces.File(ctx, start, path.Clean(name), math.MaxInt64)
	if err != nil {
		return "", err
	}
	if !found {
		return fmt.Sprintf("%q is not a file of the commit", name), nil
	}
	file, err := dockerfile.Parse(data, b.Target, b.Args)
	if err != nil {
		return fmt.Sprintf("%s: %s", name, err), nil
	}
	for _, image := range file.Images {
		if image != cfg.Execution.Sandbox.Docker.Image && !cfg.AllowsImage(image) {
			return fmt.Sprintf("%s uses the image %q, which the operator does not allow (execution.sandbox.docker.images)", name, image), nil
		}
	}
	return "", nil
}
