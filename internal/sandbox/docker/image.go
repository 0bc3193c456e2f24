package docker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"

	cerrdefs "github.com/containerd/errdefs"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// image is what the runner knows about an image.
type image struct {
	id          string
	environment map[string]string
	versions    map[string]string
}

// inspectImage finds an image on the Docker host.
func (r *Runner) inspectImage(ctx context.Context, name string) (image, error) {
	if name == "" {
		return image{}, missingImage("no image is configured", "set execution.sandbox.docker.image to an image with the toolchains of your projects")
	}
	found, err := r.engine.ImageInspect(ctx, name)
	switch {
	case cerrdefs.IsNotFound(err):
		return image{}, missingImage("the image "+name+" is not on the Docker host", "docker pull "+name+", or build it there")
	case err != nil:
		return image{}, fmt.Errorf("inspect the image %s: %w", name, err)
	}
	out := image{id: found.ID, environment: map[string]string{}}
	if found.Config != nil {
		for _, v := range found.Config.Env {
			if key, value, ok := strings.Cut(v, "="); ok && key != "HOME" && key != "USER" {
				out.environment[key] = value
			}
		}
	}
	return out, nil
}

func missingImage(detail, fix string) error {
	return &sandbox.IsolationError{Final: true, Missing: []sandbox.Feature{{Name: "container image", Required: true, By: "docker", Detail: detail, Fix: fix}}}
}

// versionScript prints the first lines of what each tool says about its version.
const versionScript = `
say() { name=$1; shift; command -v "$1" >/dev/null 2>&1 || return 0; printf '%s\t%s\n' "$name" "$("$@" 2>&1 | head -n 3 | tr '\n' ' ')"; }
say go go env GOVERSION
say node node --version
say npm npm --version
say python python3 --version
say pip python3 -m pip --version
say rust rustc --version
say cargo cargo --version
say java java -version
say maven mvn --version
say gradle gradle --version
say make make --version
say cmake cmake --version
say gcc gcc --version
say clang clang --version
say git git --version
exit 0
`

// number matches the first version number of an output.
var number = regexp.MustCompile(`\d+(\.\d+)+`)

// detectVersions asks the tools in the image for their versions.
func (r *Runner) detectVersions(ctx context.Context) error {
	dir, err := os.MkdirTemp(r.dir, r.worker+"-versions-")
	if err != nil {
		return fmt.Errorf("create a directory for a container: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	result, err := r.Run(ctx, sandbox.Command{Root: dir, Shell: versionScript, Limits: sandbox.Limits{Timeout: probeTime}})
	if err != nil {
		return fmt.Errorf("detect the tools in the image %s: %w", r.options.Image, err)
	}
	r.image.versions = map[string]string{}
	for line := range bytes.Lines(result.Stdout) {
		name, text, _ := strings.Cut(string(line), "\t")
		if v := number.FindString(text); v != "" {
			r.image.versions[name] = v
		}
	}
	return nil
}
