package tester

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// ToolsOf returns the tools where the commands of a repository run: in the image that the settings name,
// in the one that they have built, or where all commands run. An image is built from the files that the
// work on the repository starts from, so that no change to them is executed by the Docker engine.
func (h *Host) ToolsOf(ctx context.Context, repo contract.Repo, s environment.Settings) (environment.Tools, error) {
	if h.Tools == nil {
		return nil, nil //nolint:nilnil // no tools
	}
	if s.Dockerfile != nil {
		return h.toolsOfBuilt(ctx, repo, *s.Dockerfile)
	}
	tools, err := h.Tools(ctx, s.Image)
	if err != nil && s.Image != "" {
		return nil, setupError(ctx, fmt.Errorf("prepare the image %s (environment.image): %w", s.Image, err))
	}
	return tools, err
}

// toolsOfBuilt returns the tools in an image that is built from a Dockerfile. Its name, not its id, is
// that of the image: the name is the same on all hosts that build it from the same inputs.
func (h *Host) toolsOfBuilt(ctx context.Context, repo contract.Repo, d environment.Dockerfile) (environment.Tools, error) {
	built, err := h.Image(ctx, repo, d, nil)
	if err != nil {
		return nil, err
	}
	found, err := h.Tools(ctx, built.Name)
	if err != nil {
		return nil, setupError(ctx, fmt.Errorf("prepare the image that was built from %s (environment.dockerfile): %w", d.Path, err))
	}
	tools := maps.Clone(found)
	tools[environment.ImageTool] = built.Name
	return tools, nil
}

// Image returns the image of a Dockerfile in the tree of a repository, which is built unless this
// Docker host has it. The build's output goes to output.
func (h *Host) Image(ctx context.Context, repo contract.Repo, d environment.Dockerfile, output func([]byte)) (docker.Built, error) {
	if h.BuildImage == nil {
		return docker.Built{}, setupError(ctx, sandbox.ErrNoContainers(d.Path))
	}
	built, err := h.BuildImage(ctx, docker.Source{
		Dockerfile: path.Clean(d.Path), Context: path.Clean(d.Context), Target: d.Target, Args: d.Args, Key: repo.URL + "@" + repo.Tree, Output: output,
		Files: func(ctx context.Context) (*os.Root, func(), error) {
			view, err := h.Workspaces.OpenShared(ctx, repo.Workspace())
			if err != nil {
				return nil, nil, err
			}
			root, err := os.OpenRoot(view.Path())
			if err != nil {
				view.Close()
				return nil, nil, fmt.Errorf("open the checkout: %w", err)
			}
			return root, func() { _ = root.Close(); view.Close() }, nil
		},
	})
	return built, imageError(ctx, err)
}

// imageError classifies an error of a build.
func imageError(ctx context.Context, err error) error {
	var failed *docker.BuildError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil || !errors.As(err, &failed):
		return setupError(ctx, err)
	}
	code := contract.CodeCheckFailed
	if failed.Refused {
		code = contract.CodeInvalidConfig
	}
	// Redacted before they are shortened, because a shortened secret is not recognized.
	out := fault.New(contract.ClassConfig, code, "%s", Clipped(telemetry.Redact(failed.Reason), shownReason))
	out.Cause = telemetry.Redact(failed.Log)
	if over := len(out.Cause) - shownOutput; over > 0 {
		out.Cause = "…" + strings.ToValidUTF8(out.Cause[over:], "")
	}
	return out
}

// shownReason limits the reason for which an image could not be built.
const shownReason = 1000
