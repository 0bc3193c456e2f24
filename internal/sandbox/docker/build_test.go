package docker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker/dockerfile"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker/dockertest"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

// buildOptions are the options of a runner that builds images.
func buildOptions(tb testing.TB, e *dockertest.Engine) docker.Options {
	return docker.Options{
		Host: e.Host, Image: dockertest.Image, DataDir: tb.TempDir(), Helper: sandboxtest.Executable(tb),
		Allowed: func(name string) bool { return strings.HasPrefix(name, "base.example.com/") },
		Build:   docker.BuildOptions{Enabled: true, Timeout: 5 * time.Minute, ContextBytes: 1 << 20, Network: "none", Memory: 1 << 30, LogBytes: 4 << 10, Age: time.Hour},
	}
}

// builder starts a runner that builds images, and ends with the test.
func builder(t *testing.T, o docker.Options) *docker.Runner {
	t.Helper()
	r, err := docker.New(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

// source writes a repository and returns a source of its Dockerfile.
func source(tb testing.TB, files map[string]string) docker.Source {
	tb.Helper()
	dir := tb.TempDir()
	for name, text := range files {
		require.NoError(tb, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(tb, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return docker.Source{Dockerfile: "Dockerfile", Files: func(context.Context) (*os.Root, func(), error) {
		root, err := os.OpenRoot(dir)
		return root, func() { _ = root.Close() }, err
	}}
}

func apiOf(tb testing.TB, e *dockertest.Engine) *client.Client {
	tb.Helper()
	c, err := client.New(client.WithHost(e.Host))
	require.NoError(tb, err)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// marked returns an instruction that makes all that a test builds its own.
func marked(t *testing.T) string { return "ENV MARK=" + strings.ReplaceAll(t.Name(), "/", "-") + "\n" }

func TestAnImageIsBuiltOnceAndCommandsRunInIt(t *testing.T) {
	e := engine(t)
	r := builder(t, buildOptions(t, e))
	s := source(t, map[string]string{
		"Dockerfile": "ARG BASE=" + dockertest.Image + "\nFROM $BASE AS made\n" + marked(t) + "ARG WHO\nRUN echo \"hello $WHO\" > /greeting && id -u > /root-id\n" +
			"FROM " + dockertest.Image + "\n" + marked(t) + "COPY --from=made /greeting /made/\nCOPY . /context/\n",
		"a.txt": "in the context", "secret.txt": "out", ".dockerignore": "secret.txt\n",
	})
	var said strings.Builder
	s.Args, s.Output = map[string]string{"WHO": "world"}, func(b []byte) { said.Write(b) }
	var all []docker.Built
	var errs []error
	var mu sync.Mutex
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			built, err := r.Build(t.Context(), s)
			mu.Lock()
			defer mu.Unlock()
			all, errs = append(all, built), append(errs, err)
		})
	}
	group.Wait()
	require.NoError(t, errors.Join(errs...))
	for _, b := range all {
		require.Equal(t, all[0].Name, b.Name)
		require.Equal(t, all[0].ID, b.ID)
	}
	require.Equal(t, 1, strings.Count(said.String(), "Step 1/"), said.String())
	require.Positive(t, all[0].Bytes)

	res, err := r.Run(t.Context(), sandbox.Command{Root: t.TempDir(), Image: all[0].Name, Shell: "cat /made/greeting; ls -A /context; cat /context/a.txt"})
	require.NoError(t, err)
	require.Equal(t, "hello world\nDockerfile\na.txt\nin the context", string(res.Stdout))

	s.Args["WHO"] = "moon"
	other, err := r.Build(t.Context(), s)
	require.NoError(t, err)
	require.NotEqual(t, all[0].Name, other.Name)
	require.False(t, other.Kept)
	again, err := builder(t, buildOptions(t, e)).Build(t.Context(), s)
	require.NoError(t, err)
	require.True(t, again.Kept, "another worker of the Docker host finds the image")
	require.Equal(t, other.ID, again.ID)
}

func TestAnImageIsBuiltAgainWhenTheImageThatItStartsFromChanges(t *testing.T) {
	e := engine(t)
	e.Variant(t, "base.example.com/moving:1", "GENERATION", "one")
	r := builder(t, buildOptions(t, e))
	s := source(t, map[string]string{"Dockerfile": "FROM base.example.com/moving:1\n" + marked(t)})
	s.Key = "the same files"
	first, err := r.Build(t.Context(), s)
	require.NoError(t, err)
	e.Variant(t, "base.example.com/moving:1", "GENERATION", "two")
	second, err := r.Build(t.Context(), s)
	require.NoError(t, err)
	require.NotEqual(t, first.ID, second.ID)
	res, err := r.Run(t.Context(), sandbox.Command{Root: t.TempDir(), Image: second.Name, Shell: `echo "$GENERATION"`})
	require.NoError(t, err)
	require.Equal(t, "two\n", string(res.Stdout))
}

func TestABuildThatFailsIsExplainedAndLeavesNoImageOrContainer(t *testing.T) {
	e := engine(t)
	r := builder(t, buildOptions(t, e))
	s := source(t, map[string]string{"Dockerfile": "FROM " + dockertest.Image + "\n" + marked(t) + "RUN echo some output; printf '\\033[31mred\\n'; exit 7\n"})
	_, err := r.Build(t.Context(), s)
	var failed *docker.BuildError
	require.ErrorAs(t, err, &failed)
	require.False(t, failed.Refused)
	require.Contains(t, failed.Reason, "returned a non-zero code: 7")
	require.Contains(t, failed.Log, "some output")
	require.NotContains(t, failed.Log, "\x1b")
	requireNoBuilders(t, e)
}

// requireNoBuilders requires that no container of this test's builds exists.
func requireNoBuilders(t *testing.T, e *dockertest.Engine) {
	t.Helper()
	await.Until(t, "the removal of the build's containers", func() bool { return len(buildersOf(t, e)) == 0 })
}

func buildersOf(t *testing.T, e *dockertest.Engine) (ids []string) {
	t.Helper()
	api := apiOf(t, e)
	found, err := api.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", dockerfile.LabelBuilding+"="+dockerfile.Building)})
	require.NoError(t, err)
	for _, c := range found.Items {
		if inspected, err := api.ContainerInspect(t.Context(), c.ID, client.ContainerInspectOptions{}); err == nil && inspected.Container.Config != nil &&
			strings.Contains(strings.Join(inspected.Container.Config.Env, "\n"), strings.TrimSpace(strings.TrimPrefix(marked(t), "ENV "))) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func TestABuildIsRefusedWithoutPermissionOrForAnImageThatIsNotAllowedOrMissing(t *testing.T) {
	e := engine(t)
	o := buildOptions(t, e)
	r := builder(t, o)
	var refused *docker.BuildError
	_, err := r.Build(t.Context(), source(t, map[string]string{"Dockerfile": "FROM evil.example.com/x\n"}))
	require.ErrorAs(t, err, &refused)
	require.True(t, refused.Refused)
	require.ErrorContains(t, err, "evil.example.com/x, which the operator does not allow")
	_, err = r.Build(t.Context(), source(t, map[string]string{"Dockerfile": "FROM base.example.com/missing:1\n"}))
	var missing *sandbox.IsolationError
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "docker pull base.example.com/missing:1")
	_, err = r.Build(t.Context(), source(t, map[string]string{"other": ""}))
	require.ErrorAs(t, err, &refused)
	require.ErrorContains(t, err, "does not exist")
	o.Build.Enabled, o.DataDir = false, t.TempDir()
	_, err = builder(t, o).Build(t.Context(), source(t, map[string]string{"Dockerfile": "FROM " + dockertest.Image}))
	require.ErrorContains(t, err, "execution.sandbox.docker.build.enabled")
}

func TestABuildHasNoNetwork(t *testing.T) {
	e := engine(t)
	r := builder(t, buildOptions(t, e))
	built, err := r.Build(t.Context(), source(t, map[string]string{"Dockerfile": "FROM " + dockertest.Image + "\n" + marked(t) + "RUN ls /sys/class/net > /interfaces\n"}))
	require.NoError(t, err)
	res, err := r.Run(t.Context(), sandbox.Command{Root: t.TempDir(), Image: built.Name, Shell: "cat /interfaces"})
	require.NoError(t, err)
	require.Equal(t, "lo\n", string(res.Stdout))
}

func TestACancelledBuildEndsItsContainer(t *testing.T) {
	e := engine(t)
	r := builder(t, buildOptions(t, e))
	ctx, cancel := context.WithCancel(t.Context())
	s := source(t, map[string]string{"Dockerfile": "FROM " + dockertest.Image + "\n" + marked(t) + "RUN sleep 600\n"})
	ended := make(chan error, 1)
	go func() { _, err := r.Build(ctx, s); ended <- err }()
	await.Until(t, "the build to run", func() bool { return len(buildersOf(t, e)) == 1 })
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	requireNoBuilders(t, e)
}

func TestABuildThatTakesTooLongIsEnded(t *testing.T) {
	e := engine(t)
	o := buildOptions(t, e)
	o.Build.Timeout = 3 * time.Second
	r := builder(t, o)
	_, err := r.Build(t.Context(), source(t, map[string]string{"Dockerfile": "FROM " + dockertest.Image + "\n" + marked(t) + "RUN sleep 600\n"}))
	require.ErrorContains(t, err, "longer than 3s (execution.sandbox.docker.build.timeout)")
	requireNoBuilders(t, e)
}

func TestAKilledWorkersBuildEnds(t *testing.T) {
	e := engine(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte("FROM "+dockertest.Image+"\n"+marked(t)+"RUN sleep 600\n"), 0o644))
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), buildVariable+"="+strings.Join([]string{e.Host, t.TempDir(), sandboxtest.Executable(t), dir}, "\n"))
	worker.Stderr = os.Stderr
	require.NoError(t, worker.Start())
	await.Until(t, "the build to run", func() bool { return len(buildersOf(t, e)) == 1 })
	require.NoError(t, worker.Process.Kill())
	_ = worker.Wait()
	requireNoBuilders(t, e)
}

// buildVariable makes the test binary a worker that will be killed while it builds an image.
const buildVariable = "RGPT_DOCKER_TEST_BUILD"

// runBuild builds an image that is never ready.
func runBuild(spec string) {
	fields := strings.Split(spec, "\n")
	r, err := docker.New(context.Background(), docker.Options{
		Host: fields[0], Image: dockertest.Image, DataDir: fields[1], Helper: fields[2],
		Build: docker.BuildOptions{Enabled: true, ContextBytes: 1 << 20, Network: "none", LogBytes: 1 << 10, Age: time.Hour},
	})
	if err == nil {
		_, err = r.Build(context.Background(), docker.Source{Dockerfile: "Dockerfile", Files: func(context.Context) (*os.Root, func(), error) {
			root, err := os.OpenRoot(fields[3])
			return root, func() {}, err
		}})
	}
	fmt.Fprintln(os.Stderr, "the build ended:", err)
	os.Exit(1)
}

func TestImagesThatNobodyUsesAreRemovedAndThoseInUseAreKept(t *testing.T) {
	e := dockertest.Start(t)
	api := apiOf(t, e)
	o := buildOptions(t, e)
	r := builder(t, o)
	build := func(text string) docker.Built {
		t.Helper()
		b, err := r.Build(t.Context(), source(t, map[string]string{"Dockerfile": "FROM " + dockertest.Image + "\nENV X=" + text + "\n"}))
		require.NoError(t, err)
		return b
	}
	idle, used, named, unnamed := build("idle"), build("used"), build("named"), build("unnamed")
	_, err := api.ImageTag(t.Context(), client.ImageTagOptions{Source: dockertest.Image, Target: unnamed.Name})
	require.NoError(t, err)
	_, err = api.ImageRemove(t.Context(), unnamed.Name, client.ImageRemoveOptions{})
	require.NoError(t, err)
	_, err = api.ImageTag(t.Context(), client.ImageTagOptions{Source: named.Name, Target: "someone:1"})
	require.NoError(t, err)
	root := t.TempDir()
	ended := make(chan error, 1)
	go func() {
		_, err := r.Run(t.Context(), sandbox.Command{Root: root, Image: used.Name, Shell: "touch up; until [ -e go ]; do sleep 0.02; done"})
		ended <- err
	}()
	await.Until(t, "the command to run", func() bool { return exists(filepath.Join(root, "up")) })

	gone := func(name string) bool {
		_, err := api.ImageInspect(t.Context(), name)
		if !cerrdefs.IsNotFound(err) {
			require.NoError(t, err)
		}
		return err != nil
	}
	left, err := api.ContainerCreate(t.Context(), client.ContainerCreateOptions{Config: &container.Config{
		Image: dockertest.Image, Cmd: []string{"true"}, Labels: map[string]string{dockerfile.LabelBuilding: dockerfile.Building},
	}})
	require.NoError(t, err)
	_, err = r.Build(t.Context(), source(t, map[string]string{"Dockerfile": "FROM " + dockertest.Image + "\nENV X=failed\nRUN false\n"}))
	require.Error(t, err)
	failed := func() int {
		found, err := api.ImageList(t.Context(), client.ImageListOptions{Filters: client.Filters{}.Add("label", dockerfile.LabelBuilding+"="+dockerfile.Building)})
		require.NoError(t, err)
		return len(found.Items)
	}
	require.Positive(t, failed())

	before := time.Now().Add(-time.Hour)
	require.NoError(t, docker.SweepBuilds(t.Context(), r, before, before))
	require.False(t, gone(idle.Name), "it was used in the last hour")
	require.Positive(t, failed())
	after := time.Now().Add(time.Hour)
	require.NoError(t, docker.SweepBuilds(t.Context(), r, after, after))
	require.True(t, gone(idle.Name))
	require.True(t, gone(unnamed.ID))
	require.False(t, gone(used.Name), "a container uses it")
	require.False(t, gone(named.Name), "someone named it")
	require.False(t, gone(dockertest.Image))
	require.Zero(t, failed())
	_, err = api.ContainerInspect(t.Context(), left.ID, client.ContainerInspectOptions{})
	require.True(t, cerrdefs.IsNotFound(err), "the container of a build that the engine did not end")
	require.NoError(t, os.WriteFile(filepath.Join(root, "go"), nil, 0o644))
	require.NoError(t, <-ended)
}

func TestAnAllowedImageThatIsMissingIsPulledOnlyIfTheOperatorSaysSo(t *testing.T) {
	e := engine(t)
	api := apiOf(t, e)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	host := strings.TrimPrefix(server.URL, "http://")
	e.Variant(t, host+"/dev:1", "PULLED", "yes")
	push, err := api.ImagePush(t.Context(), host+"/dev:1", client.ImagePushOptions{RegistryAuth: "e30="})
	require.NoError(t, err)
	require.NoError(t, push.Wait(t.Context()))
	_, err = api.ImageRemove(t.Context(), host+"/dev:1", client.ImageRemoveOptions{})
	require.NoError(t, err)

	o := buildOptions(t, e)
	o.Allowed = func(name string) bool { return strings.HasPrefix(name, host+"/dev") }
	_, _, err = builder(t, o).Tools(t.Context(), host+"/dev:1")
	require.ErrorContains(t, err, "docker pull "+host+"/dev:1")

	o.DataDir, o.Pull, o.PullTimeout = t.TempDir(), true, time.Minute
	r := builder(t, o)
	_, _, err = r.Tools(t.Context(), host+"/dev:missing")
	require.ErrorContains(t, err, "could not be pulled")
	_, _, err = r.Tools(t.Context(), host+"/other:1")
	require.ErrorContains(t, err, "is not on the Docker host")
	built, err := r.Build(t.Context(), source(t, map[string]string{"Dockerfile": "FROM " + host + "/dev:1\n" + marked(t)}))
	require.NoError(t, err)
	res, err := r.Run(t.Context(), sandbox.Command{Root: t.TempDir(), Image: built.Name, Shell: `echo "$PULLED"`})
	require.NoError(t, err)
	require.Equal(t, "yes\n", string(res.Stdout))
}

func TestAPullThatTakesTooLongIsEnded(t *testing.T) {
	e := engine(t)
	stop := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-stop:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(stop) })
	o := buildOptions(t, e)
	o.Allowed, o.Pull, o.PullTimeout = func(string) bool { return true }, true, time.Second
	name := strings.TrimPrefix(server.URL, "http://") + "/slow:1"
	_, _, err := builder(t, o).Tools(t.Context(), name)
	require.ErrorContains(t, err, "took longer than 1s")
	require.ErrorContains(t, err, "execution.sandbox.docker.pull_timeout")
}
