package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
)

const (
	diskFail = 256 << 20 // below this, a run cannot even create its workspace
	diskWarn = 2 << 30
)

// DataFolder checks that the data folder is writable and that its disk has free space. If it does
// not exist yet, it must be possible to create it.
func DataFolder(dir string) Check {
	return Check{Name: "data folder", Run: func(context.Context) []Result {
		at, err := nearest(dir)
		if err == nil {
			err = tryWrite(at)
		}
		if err != nil {
			return Failed(fmt.Sprintf("%s is not writable: %v", dir, err), "make it writable for your user, or choose another one with --data-dir or RGPT_DATA_DIR")
		}
		var fs unix.Statfs_t
		if err := unix.Statfs(at, &fs); err != nil {
			return Warned(fmt.Sprintf("could not determine the free disk space for %s: %v", at, err), "run df "+at)
		}
		free := fs.Bavail * uint64(fs.Bsize) //nolint:gosec // a block size is positive
		text := fmt.Sprintf("%s, %.1f GiB free", dir, float64(free)/(1<<30))
		remedy := "free up disk space, or choose another data folder with --data-dir or RGPT_DATA_DIR"
		switch {
		case free < diskFail, fs.Files > 0 && fs.Ffree < 1000:
			return Failed(text+": not enough", remedy)
		case free < diskWarn:
			return Warned(text+": low", remedy)
		case at != dir:
			return Passed("%s (will be created)", text)
		}
		return Passed("%s", text)
	}}
}

// nearest returns the directory itself, or the nearest parent that exists.
func nearest(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		info, err := os.Stat(at)
		switch {
		case err == nil && !info.IsDir():
			return "", fmt.Errorf("%s is not a directory", at)
		case err == nil:
			return at, nil
		case !errors.Is(err, os.ErrNotExist) || at == filepath.Dir(at):
			return "", err
		}
	}
}

func tryWrite(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString("x")
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// The oldest git version with merge-tree --write-tree.
const gitMajor, gitMinor = 2, 38

var gitVersion = regexp.MustCompile(`git version (\d+)\.(\d+)\S*`)

// Git checks that git is installed and new enough.
func Git() Check {
	return Check{Name: "git", Run: func(ctx context.Context) []Result {
		out, err := exec.CommandContext(ctx, "git", "version").Output()
		if err != nil {
			return Failed(fmt.Sprintf("cannot run git: %v", err), fmt.Sprintf("install git %d.%d or newer", gitMajor, gitMinor))
		}
		return judgeGit(strings.TrimSpace(string(out)))
	}}
}

func judgeGit(said string) []Result {
	m := gitVersion.FindStringSubmatch(said)
	if m == nil {
		return Warned(fmt.Sprintf("cannot read the version from %q", said), fmt.Sprintf("check that git is %d.%d or newer", gitMajor, gitMinor))
	}
	major, _ := strconv.Atoi(m[1]) // digits, by the pattern
	minor, _ := strconv.Atoi(m[2])
	if major < gitMajor || major == gitMajor && minor < gitMinor {
		return Failed(m[0]+" is too old: it cannot merge without a working directory", fmt.Sprintf("install git %d.%d or newer", gitMajor, gitMinor))
	}
	return Passed("%s", strings.TrimPrefix(m[0], "git version "))
}

// Isolation is a sandbox whose isolation is known.
type Isolation interface {
	Features() []sandbox.Feature
	Isolated() bool
}

// Sandbox checks the isolation of commands from models and repositories on this host. by names what
// isolates them.
func Sandbox(by string, build func(context.Context) (Isolation, error), allowed bool) Check {
	return Check{Name: "sandbox", Run: func(ctx context.Context) []Result {
		p, err := build(ctx)
		var missing *sandbox.IsolationError
		if errors.As(err, &missing) {
			return features(missing.Missing, Fail)
		}
		if err != nil {
			return FailedBy(err, "check that this machine runs Linux with user namespaces, and install bubblewrap")
		}
		results := Passed("commands are isolated by %s", by)
		if !p.Isolated() {
			results = Warned("commands run WITHOUT isolation, as the configuration allows", "install bubblewrap and set execution.sandbox.allow_unisolated: false")
		} else if allowed {
			results = append(results, Result{
				Status: Warn, Message: "if isolation stops working, commands will run without it (execution.sandbox.allow_unisolated)",
				Remedy: "set execution.sandbox.allow_unisolated: false",
			})
		}
		return append(results, features(p.Features(), Warn)...)
	}}
}

// ImageTools reports which compilers and interpreters commands find in the image of their containers.
func ImageTools(versions func(context.Context) (map[string]string, error)) Check {
	return Check{Name: "tool chains", Run: func(ctx context.Context) []Result {
		found, err := versions(ctx)
		if err != nil {
			return nil // the check of the sandbox reports it
		}
		var out []Result
		for _, name := range slices.Sorted(maps.Keys(found)) {
			out = append(out, Result{Status: OK, Message: name + " " + found[name]})
		}
		return out
	}}
}

// ImageBuilds reports whether images can be built from Dockerfiles. images are the patterns for those
// that Dockerfiles may use; build builds a small image.
func ImageBuilds(enabled bool, images []string, build func(context.Context) error) Check {
	return Check{Name: "image builds", Run: func(ctx context.Context) []Result {
		if !enabled {
			return Passed("images are not built from Dockerfiles (execution.sandbox.docker.build.enabled)")
		}
		if err := build(ctx); err != nil {
			return FailedBy(err, "fix the Docker engine, or set execution.sandbox.docker.build.enabled: false")
		}
		if len(images) == 0 {
			return Warned("the Docker engine builds images, but a Dockerfile may use only the image of execution.sandbox.docker.image", "list the images that Dockerfiles may use in execution.sandbox.docker.images")
		}
		return Passed("the Docker engine builds images, from images that match %s", strings.Join(images, ", "))
	}}
}

// Toolchains reports which compilers and interpreters commands find in the sandbox, and which ones
// this host has but cannot expose there.
func Toolchains(detect func() sandbox.Toolchains) Check {
	return Check{Name: "tool chains", Run: func(context.Context) []Result {
		t := detect()
		var out []Result
		for _, found := range t.Found {
			out = append(out, Result{Status: OK, Message: found})
		}
		for _, refused := range t.Refused {
			out = append(out, Result{Status: Warn, Message: "refused: " + refused, Remedy: "install it for all users, or in a directory that contains nothing else; then restart the worker"})
		}
		if len(out) == 0 {
			return Warned("none found", "install the tools that your projects need and add them to the worker's PATH")
		}
		return out
	}}
}

// features reports missing features, and limits that are enforced only after they are exceeded.
func features(all []sandbox.Feature, status Status) []Result {
	var out []Result
	for _, f := range all {
		if f.Available {
			if f.By == "watchdog" && f.Fix != "" {
				out = append(out, Result{
					Check: "sandbox: " + f.Name, Status: Warn, Remedy: f.Fix,
					Message: "commands are stopped only after they exceed this limit, although the kernel could enforce it directly: " + f.Detail,
				})
			}
			continue
		}
		r := Result{Check: "sandbox: " + f.Name, Status: status, Message: "missing", Remedy: f.Fix}
		if f.Detail != "" {
			r.Message = "missing: " + f.Detail
		}
		if status == Warn {
			r.Message += "; a substitute is used"
		}
		out = append(out, r)
	}
	return out
}

// Chromium checks for a browser, which only browser tests need.
func Chromium(getenv func(string) string) Check {
	return Check{Name: "browser tests", Run: func(context.Context) []Result {
		videos := ""
		if _, err := exec.LookPath("ffmpeg"); err != nil {
			videos = "; without ffmpeg (apt-get install ffmpeg), failed tests may have no video"
		}
		for _, name := range []string{"PLAYWRIGHT_CHROMIUM_EXECUTABLE_PATH", "RGPT_CHROMIUM"} {
			file := getenv(name)
			if file == "" {
				continue
			}
			if info, err := os.Stat(file); err != nil || info.IsDir() || info.Mode()&0o111 == 0 {
				return Warned(fmt.Sprintf("%s is %s, which is not an executable", name, file), "correct or unset it")
			}
			return Passed("%s", file+videos)
		}
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
			if file, err := exec.LookPath(name); err == nil {
				return Passed("%s", file+videos)
			}
		}
		return Warned("Chromium is not installed; only browser tests need it", "apt-get install chromium, or npx playwright install chromium")
	}}
}

// Machine checks that this system is supported.
func Machine() Check {
	return Check{Name: "machine", Run: func(context.Context) []Result {
		text := fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
		if runtime.GOOS != "linux" {
			return Failed(text, "run on Linux, or in a Linux container or virtual machine")
		}
		return Passed("%s", text)
	}}
}
