package docker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

// image is what the runner knows about an image.
type image struct {
	id, name    string
	environment map[string]string
	versions    map[string]string
	landlock    bool
	features    []sandbox.Feature
}

// images are the tested images by id.
type images struct {
	mu    sync.Mutex
	known map[string]*testedImage
}

// testedImage is an image that is tested once, by its first user.
type testedImage struct {
	mu    sync.Mutex
	image *image // nil: not yet, or the last test failed
}

// imageOf returns an image by name or id, "" for the runner's own, and tests one that is new.
func (r *Runner) imageOf(ctx context.Context, name string) (*image, error) {
	if name == "" || r.image != nil && name == r.image.id {
		if r.image == nil {
			return nil, missingImage("no image is configured", "set execution.sandbox.docker.image to an image with the toolchains of your projects")
		}
		return r.image, nil
	}
	img, err := r.inspectImage(ctx, name)
	if err != nil {
		return nil, err
	}
	tested := r.images.of(img.id)
	tested.mu.Lock()
	defer tested.mu.Unlock()
	if tested.image == nil {
		if err := r.selfTest(ctx, img); err != nil {
			return nil, err
		}
		if err := r.detectVersions(ctx, img); err != nil {
			return nil, err
		}
		tested.image = img
	}
	return tested.image, nil
}

func (i *images) of(id string) *testedImage {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known == nil {
		i.known = map[string]*testedImage{}
	}
	if i.known[id] == nil {
		i.known[id] = &testedImage{}
	}
	return i.known[id]
}

// inspectImage finds an image on the Docker host, where it is pulled if it is missing and may be.
func (r *Runner) inspectImage(ctx context.Context, name string) (*image, error) {
	found, err := r.engine.ImageInspect(ctx, name)
	if cerrdefs.IsNotFound(err) && r.pulls(name) {
		if err := r.pull(ctx, name); err != nil {
			return nil, err
		}
		found, err = r.engine.ImageInspect(ctx, name)
	}
	switch {
	case cerrdefs.IsNotFound(err):
		return nil, missingImage("the image "+name+" is not on the Docker host", "docker pull "+name+", or build it there")
	case err != nil:
		return nil, fmt.Errorf("inspect the image %s: %w", name, err)
	}
	out := &image{id: found.ID, name: name, environment: map[string]string{}, landlock: true}
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
func (r *Runner) detectVersions(ctx context.Context, img *image) error {
	dir, err := os.MkdirTemp(r.dir, r.worker+"-versions-")
	if err != nil {
		return fmt.Errorf("create a directory for a container: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	result, err := r.runIn(ctx, img, sandbox.Command{Root: dir, Shell: versionScript, Limits: sandbox.Limits{Timeout: probeTime}}, time.Now())
	if err != nil {
		return fmt.Errorf("detect the tools in the image %s: %w", img.name, err)
	}
	img.versions = map[string]string{}
	for line := range bytes.Lines(result.Stdout) {
		name, text, _ := strings.Cut(string(line), "\t")
		if v := number.FindString(text); v != "" {
			img.versions[name] = v
		}
	}
	return nil
}

// selfTest runs a command with each layer of the helper that containers of this host may refuse, and
// checks what it can do.
func (r *Runner) selfTest(ctx context.Context, img *image) error {
	dir, err := os.MkdirTemp(r.dir, r.worker+"-probe-")
	if err != nil {
		return fmt.Errorf("create a directory for the container test: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	probe := func() (sandbox.Result, error) {
		return r.runIn(ctx, img, sandbox.Command{Root: dir, Shell: probeScript, Limits: sandbox.Limits{Timeout: probeTime}}, time.Now())
	}
	result, err := probe()
	detail := ""
	if err != nil && img.landlock && ctx.Err() == nil {
		detail = "Docker's system call filter does not allow it: " + err.Error()
		img.landlock = false
		result, err = probe()
	}
	if err != nil {
		return err
	}
	return img.judge(result, detail)
}

// probeTime limits the test command; the first container of an image may have to be unpacked.
const probeTime = time.Minute

// probeScript prints what the command may do, a line for each.
const probeScript = `
touch /probe 2>/dev/null && echo "root writable"
touch /workspace/probe && echo "workspace writable"
[ "$(id -u 2>/dev/null || echo 1)" = 0 ] && echo "user root"
grep -q '^CapEff:.0000000000000000$' /proc/self/status && echo "no capabilities"
grep -q '^NoNewPrivs:.1$' /proc/self/status && echo "no new privileges"
while read -r line; do case $line in *:*) case ${line%%:*} in *lo) ;; *) echo "network ${line%%:*}";; esac;; esac; done </proc/net/dev
cat /proc/1/environ >/dev/null 2>&1 && echo "helper readable"
exit 0
`

// judge decides from the test command's output whether containers isolate, and describes it.
func (i *image) judge(result sandbox.Result, noLandlock string) error {
	out := string(result.Stdout)
	has := func(line string) bool { return strings.Contains(out, line) }
	if !result.OK() {
		return fmt.Errorf("sandbox: the test command in a container of %s failed with exit code %d: %s", i.name, result.ExitCode, strings.TrimSpace(string(result.Stderr)))
	}
	checks := []struct {
		name, by, problem string
		good              bool
	}{
		{"file system", "docker", "the root of the container is writable", !has("root writable")},
		{"workspace", "docker", "the workspace is not writable", has("workspace writable")},
		{"user", "docker", "commands run as root", !has("user root")},
		{"privileges", "docker", "commands have capabilities or may gain privileges", has("no capabilities") && has("no new privileges")},
		{"network", "docker", "the container has a network interface", !has("network ")},
		{"processes", "docker", "commands can read the memory of the helper", !has("helper readable")},
	}
	var missing []sandbox.Feature
	for _, c := range checks {
		f := sandbox.Feature{Name: c.name, Available: c.good, Required: true, By: c.by, Detail: "image " + i.name}
		if !c.good {
			f.Detail = c.problem
			missing = append(missing, f)
		}
		i.features = append(i.features, f)
	}
	i.features = append(i.features,
		sandbox.Feature{Name: "files again", Available: noLandlock == "", By: "landlock", Detail: noLandlock},
		sandbox.Feature{Name: "system calls", Available: true, By: "seccomp", Detail: "Docker's filter and the sandbox's own"},
		sandbox.Feature{Name: "memory, processors, number of processes", Available: true, By: "cgroup"},
	)
	if len(missing) > 0 {
		return &sandbox.IsolationError{Missing: missing, Final: true}
	}
	return nil
}

// pull has the engine pull an image.
func (r *Runner) pull(ctx context.Context, name string) error {
	started := time.Now()
	outer := ctx
	if r.options.PullTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, r.options.PullTimeout)
		defer cancel()
	}
	result, err := r.engine.ImagePull(ctx, name, client.ImagePullOptions{})
	if err == nil {
		err = readMessages(result, &logTail{})
		_ = result.Close()
	}
	switch {
	case outer.Err() != nil:
		return fmt.Errorf("pull the image %s: %w", name, context.Cause(outer))
	case ctx.Err() != nil:
		return missingImage(fmt.Sprintf("pulling the image %s took longer than %s", name, r.options.PullTimeout), "raise execution.sandbox.docker.pull_timeout, or pull it there: docker pull "+name)
	case err != nil:
		return missingImage(fmt.Sprintf("the image %s could not be pulled: %s", name, clean(err.Error())), "check its name and the registry, or pull it there: docker pull "+name)
	}
	r.options.Log.Info("An image was pulled.", "image", name, "duration", time.Since(started))
	return nil
}

// pulls reports whether a missing image may be pulled.
func (r *Runner) pulls(name string) bool {
	return r.options.Pull && r.allows(name) && !strings.HasPrefix(name, builtPrefix) && !strings.HasPrefix(name, "sha256:")
}
