package docker_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/rocketgpt/orchestrator/internal/await"
	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker"
	"github.com/rocketgpt/orchestrator/internal/sandbox/docker/dockertest"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest/conformance"
)

func TestMain(m *testing.M) {
	sandbox.MaybeRunHelper()
	if err := os.Setenv("RGPT_TEST_API_KEY", sandboxtest.CanarySecret); err != nil {
		panic(err) //nolint:forbidigo // there is no test that could fail
	}
	if spec := os.Getenv(buildVariable); spec != "" {
		runBuild(spec)
	}
	if spec := os.Getenv(childVariable); spec != "" {
		runChild(spec)
	}
	goleak.VerifyTestMain(closing{m})
}

// closing closes the shared engine after the tests.
type closing struct{ *testing.M }

func (c closing) Run() int {
	code := c.M.Run()
	if shared.engine != nil {
		shared.engine.Close()
	}
	return code
}

// shared is the engine of the tests that do not kill it.
var shared struct {
	sync.Mutex
	engine *dockertest.Engine
}

// engine returns the shared engine, and lets the test run beside others.
func engine(tb testing.TB) *dockertest.Engine {
	tb.Helper()
	if t, ok := tb.(*testing.T); ok {
		t.Parallel()
	}
	shared.Lock()
	defer shared.Unlock()
	if shared.engine == nil {
		shared.engine = dockertest.New(tb)
	}
	return shared.engine
}

// newRunner starts a runner, which ends with the test.
func newRunner(t *testing.T, e *dockertest.Engine, dataDir string) *docker.Runner {
	t.Helper()
	r, err := docker.New(t.Context(), docker.Options{
		Host: e.Host, Image: dockertest.Image, Warm: 1, DataDir: dataDir, Helper: sandboxtest.Executable(t),
	})
	require.NoError(t, err)
	t.Cleanup(r.Close)
	return r
}

func TestContainersConform(t *testing.T) {
	conformance.Run(t, newRunner(t, engine(t), t.TempDir()))
}

// containers returns the ids of all containers of a data folder.
func containers(t *testing.T, e *dockertest.Engine, dataDir string) []string {
	t.Helper()
	c, err := client.New(client.WithHost(e.Host))
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	found, err := c.ContainerList(t.Context(), client.ContainerListOptions{All: true, Filters: client.Filters{}.Add("label", docker.OwnerLabel(dataDir))})
	require.NoError(t, err)
	var ids []string
	for _, c := range found.Items {
		ids = append(ids, c.ID)
	}
	return ids
}

func requireNoSlots(t *testing.T, dataDir string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dataDir, "containers"))
	require.NoError(t, err)
	require.Empty(t, entries)
}

// hold starts a command that ends when the file "go" appears in its workspace, and returns when it
// runs.
func hold(t *testing.T, r *docker.Runner, root string) <-chan string {
	t.Helper()
	ended := make(chan string, 1)
	go func() {
		res, err := r.Run(t.Context(), sandbox.Command{Root: root, Shell: "touch up; until [ -e go ]; do sleep 0.02; done; echo done"})
		ended <- fmt.Sprintf("%s%v", res.Stdout, err)
	}()
	await.Until(t, "the command to run", func() bool { return exists(filepath.Join(root, "up")) })
	return ended
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestAStoppedRunnerLeavesNoContainer(t *testing.T) {
	e, data := engine(t), t.TempDir()
	r := newRunner(t, e, data)
	root := t.TempDir()
	ended := hold(t, r, root)
	require.NotEmpty(t, containers(t, e, data))
	require.NoError(t, os.WriteFile(filepath.Join(root, "go"), nil, 0o644))
	require.Equal(t, "done\n<nil>", <-ended)
	r.Close()
	await.Until(t, "the removal of all containers", func() bool { return len(containers(t, e, data)) == 0 })
	requireNoSlots(t, data)
}

func TestContainersThatAreGoneAreReplaced(t *testing.T) {
	e, data := engine(t), t.TempDir()
	r := newRunner(t, e, data)
	run := func() {
		res, err := r.Run(t.Context(), sandbox.Command{Root: t.TempDir(), Shell: "echo ok"})
		require.NoError(t, err)
		require.Equal(t, "ok\n", string(res.Stdout))
	}
	run()
	await.Until(t, "a container that is created in advance", func() bool { return len(containers(t, e, data)) > 0 })
	c, err := client.New(client.WithHost(e.Host))
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	for _, id := range containers(t, e, data) {
		if _, err := c.ContainerRemove(t.Context(), id, client.ContainerRemoveOptions{Force: true}); !cerrdefs.IsConflict(err) && !cerrdefs.IsNotFound(err) {
			require.NoError(t, err)
		}
	}
	run()
}

func TestAKilledWorkersContainersEndAndAreRemoved(t *testing.T) {
	e, data, root := engine(t), t.TempDir(), t.TempDir()
	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), childVariable+"="+strings.Join([]string{e.Host, data, sandboxtest.Executable(t), root}, "\n"))
	worker.Stderr = os.Stderr
	require.NoError(t, worker.Start())
	await.Until(t, "the command to run", func() bool { return exists(filepath.Join(root, "up")) })
	marker := markerOf(root)
	require.NotEmpty(t, sandboxtest.ProcessesWith(t, marker))
	require.NoError(t, worker.Process.Kill())
	_ = worker.Wait()
	await.Until(t, "the end of the command", func() bool { return len(sandboxtest.ProcessesWith(t, marker)) == 0 })

	r := newRunner(t, e, data)
	r.Close()
	await.Until(t, "the removal of all containers", func() bool { return len(containers(t, e, data)) == 0 })
	requireNoSlots(t, data)
}

func TestACommandOutlivesItsEngineAndNothingIsLeft(t *testing.T) {
	e, data := dockertest.Start(t), t.TempDir()
	r := newRunner(t, e, data)
	root := t.TempDir()
	ended := hold(t, r, root)
	e.Kill(t)
	require.NoError(t, os.WriteFile(filepath.Join(root, "go"), nil, 0o644))
	require.Equal(t, "done\n<nil>", <-ended, "the command does not depend on the engine")
	_, err := r.Run(t.Context(), sandbox.Command{Root: t.TempDir(), Shell: "true"})
	require.Error(t, err, "no command runs outside a container")

	e.StartAgain(t)
	res, err := r.Run(t.Context(), sandbox.Command{Root: t.TempDir(), Shell: "echo again"})
	require.NoError(t, err)
	require.Equal(t, "again\n", string(res.Stdout))
	r.Close()
	await.Until(t, "the removal of all containers", func() bool { return len(containers(t, e, data)) == 0 })
}

func TestAMissingImageOrEngineIsExplained(t *testing.T) {
	e := engine(t)
	options := docker.Options{Host: e.Host, Image: "example.com/no-such-image:1", DataDir: t.TempDir(), Helper: sandboxtest.Executable(t)}
	var missing *sandbox.IsolationError
	_, err := docker.New(t.Context(), options)
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "the image example.com/no-such-image:1 is not on the Docker host")
	require.ErrorContains(t, err, "docker pull example.com/no-such-image:1")
	options.Host = "unix:///no/such/docker.sock"
	_, err = docker.New(t.Context(), options)
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "unix:///no/such/docker.sock")
}

func TestTheToolsOfAnImageAreKnown(t *testing.T) {
	r := newRunner(t, engine(t), t.TempDir())
	_, versions, err := r.Tools(t.Context(), "")
	require.NoError(t, err)
	require.Regexp(t, `^3\.\d+`, versions["python"])
	require.Regexp(t, `^2\.\d+`, versions["git"])
	require.NotContains(t, versions, "go")
}

func TestACommandRunsInTheImageThatItNames(t *testing.T) {
	e := engine(t)
	e.Variant(t, "example.com/variant:1", "VARIANT", "two")
	r := newRunner(t, e, t.TempDir())
	id, versions, err := r.Tools(t.Context(), "example.com/variant:1")
	require.NoError(t, err)
	require.Regexp(t, `^3\.\d+`, versions["python"])
	own, _, err := r.Tools(t.Context(), "")
	require.NoError(t, err)
	require.NotEqual(t, own, id)

	say := func(image string) string {
		t.Helper()
		res, err := r.Run(t.Context(), sandbox.Command{Root: t.TempDir(), Image: image, Shell: `echo "variant: $VARIANT"`})
		require.NoError(t, err)
		require.True(t, res.OK(), "%s", res.Stderr)
		return string(res.Stdout)
	}
	require.Equal(t, "variant: two\n", say("example.com/variant:1"))
	require.Equal(t, "variant: two\n", say(id))
	require.Equal(t, "variant: \n", say(""))

	var missing *sandbox.IsolationError
	_, err = r.Run(t.Context(), sandbox.Command{Root: t.TempDir(), Image: "example.com/no-such-image:1", Shell: "true"})
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "docker pull example.com/no-such-image:1")
}

// markerOf returns a text in the command lines of a workspace's processes.
func markerOf(root string) string { return "marker" + strings.ReplaceAll(root, "/", "-") }

// childVariable makes the test binary a worker that will be killed.
const childVariable = "RGPT_DOCKER_TEST_CHILD"

// runChild runs a command that never ends.
func runChild(spec string) {
	fields := strings.Split(spec, "\n")
	r, err := docker.New(context.Background(), docker.Options{Host: fields[0], Image: dockertest.Image, Warm: 1, DataDir: fields[1], Helper: fields[2]})
	if err == nil {
		_, err = r.Run(context.Background(), sandbox.Command{Root: fields[3], Shell: "touch up; (setsid bash -c 'sleep 300; : " + markerOf(fields[3]) + "' &) ; sleep 300"})
	}
	fmt.Fprintln(os.Stderr, "the command ended:", err)
	os.Exit(1)
}

func BenchmarkContainers(b *testing.B) {
	e := engine(b)
	for _, warm := range []int{0, 2} {
		r, err := docker.New(b.Context(), docker.Options{Host: e.Host, Image: dockertest.Image, Warm: warm, DataDir: b.TempDir(), Helper: sandboxtest.Executable(b)})
		require.NoError(b, err)
		root := b.TempDir()
		b.Run(fmt.Sprintf("warm=%d", warm), func(b *testing.B) {
			for b.Loop() {
				_, err := r.Run(b.Context(), sandbox.Command{Root: root, Shell: "true"})
				require.NoError(b, err)
			}
		})
		r.Close()
	}
}
