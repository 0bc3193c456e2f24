package control

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/workspace"
)

// devContainerFiles describe the container in which the authors of a repository work; see
// containers.dev. The first one counts.
var devContainerFiles = []string{".devcontainer/devcontainer.json", ".devcontainer.json"}

// maxDevContainer is the maximum size of such a file in bytes.
const maxDevContainer = 64 << 10

// withDevContainer returns the configuration with the image of the repository's dev container, if
// commands run in containers, no image is configured, and the operator allows this one. The note says
// which image is used, or why it is not.
func withDevContainer(ctx context.Context, workspaces *workspace.Manager, cfg *config.Config, start contract.Workspace) (_ *config.Config, note string, err error) {
	if cfg.Execution.Sandbox.Runner != config.RunnerDocker || cfg.Environment.Image != "" || !cfg.Environment.Enabled {
		return cfg, "", nil
	}
	for _, name := range devContainerFiles {
		data, found, err := workspaces.File(ctx, start, name, math.MaxInt64)
		if err != nil {
			return cfg, "", err
		}
		if !found {
			continue
		}
		image, reason := devContainerImage(data)
		if reason == "" && !cfg.AllowsImage(image) {
			reason = fmt.Sprintf("the operator does not allow %q (execution.sandbox.docker.images)", image)
		}
		if reason != "" {
			return cfg, fmt.Sprintf("The dev container in %s is not used: %s. Commands run in %s.", name, reason, cfg.Execution.Sandbox.Docker.Image), nil
		}
		own := *cfg
		own.Environment.Image = image
		return &own, fmt.Sprintf("Commands run in the image of the dev container, %s (%s).", image, name), nil
	}
	return cfg, "", nil
}

// devContainerImage returns the image that a dev container is started from, or the reason why there is
// none.
func devContainerImage(data []byte) (image, reason string) {
	if len(data) > maxDevContainer {
		return "", fmt.Sprintf("the file is larger than %d bytes", maxDevContainer)
	}
	standard, err := hujson.Standardize(data)
	var file struct {
		Image      string          `json:"image"`
		Build      json.RawMessage `json:"build"`
		DockerFile string          `json:"dockerFile"`
		Compose    json.RawMessage `json:"dockerComposeFile"`
	}
	if err == nil {
		err = json.Unmarshal(standard, &file)
	}
	switch {
	case err != nil:
		return "", "the file is not valid JSON with comments"
	case file.Image == "" && (len(file.Build) > 0 || file.DockerFile != ""):
		return "", "it is built from a Dockerfile; build that image on the workers' Docker hosts and set environment.image"
	case file.Image == "" && len(file.Compose) > 0:
		return "", "it consists of several containers; set environment.image"
	case file.Image == "":
		return "", "it names no image"
	case strings.Contains(file.Image, "${"):
		return "", "the name of its image contains a variable; set environment.image"
	case !config.IsImage(file.Image):
		return "", "the name of its image is invalid"
	}
	return file.Image, ""
}
