package standalone

import (
	"context"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/environment"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker"
)

// Image is the result of BuildImage.
type Image struct {
	docker.Built
	Dockerfile environment.Dockerfile
	// Tools are the versions of the tools in the image.
	Tools environment.Tools
}

// BuildImage builds the image of a repository on this machine's Docker host, as a worker does, and tests
// whether commands can run in it. given overrides what the repository's files choose, unless its path
// is empty. The build's output goes to Progress.Output.
func BuildImage(ctx context.Context, o Options, given environment.Dockerfile) (Image, error) {
	if runner := o.Config.Execution.Sandbox.Runner; runner != config.RunnerDocker {
		return Image{}, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "images are built only for execution.sandbox.runner: docker; your configuration sets %s", runner)
	}
	v := newVerification(o)
	if err := v.open(ctx); err != nil {
		return Image{}, err
	}
	defer v.close(ctx)
	d := v.spec.Environment.Dockerfile
	if given.Path != "" {
		d = &given
	}
	if d == nil {
		return Image{}, fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"%s has no Dockerfile for its environment: neither its rgpt.yaml (environment.dockerfile) nor its dev container names one that may be built; name one with --dockerfile", v.report.Repo)
	}
	if err := v.openSandbox(ctx); err != nil {
		return Image{}, err
	}
	built, err := v.host.Image(ctx, v.settings.Repo, *d, v.Progress.Output)
	if err != nil {
		return Image{}, err
	}
	tools, err := v.host.Tools(ctx, built.Name)
	if err != nil {
		return Image{}, fault.Wrap(err, contract.ClassConfig, contract.CodeIsolation, "the image of %s was built, but commands cannot run in it", d.Path)
	}
	return Image{Built: built, Dockerfile: *d, Tools: tools}, nil
}
