// Package deploy checks the files that put RocketGPT into containers, as far as
// that goes without a Docker engine.
package deploy

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
)

// service is what these tests look at in a service of docker-compose.yml.
type service struct {
	Image       string
	Build       map[string]string
	Entrypoint  any
	Environment map[string]string
	Ports       []string
	Volumes     []string
	Secrets     []string
	Networks    []string
	Restart     string
	Logging     map[string]any
	HealthCheck map[string]any         `yaml:"healthcheck"`
	DependsOn   map[string]requirement `yaml:"depends_on"`
	Deploy      struct {
		Resources struct {
			Limits struct{ CPUs, Memory string } `yaml:"limits"`
		}
	}
}

type requirement struct{ Condition string }

type composition struct {
	Services map[string]service
	Networks map[string]any
	Volumes  map[string]any
	Secrets  map[string]struct{ File string }
}

// job reports whether others wait for the service's end rather than for its health.
func (c composition) job(name string) bool {
	for _, s := range c.Services {
		if s.DependsOn[name].Condition == "service_completed_successfully" {
			return true
		}
	}
	return false
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", file))
	require.NoError(t, err)
	return string(text)
}

func compose(t *testing.T) composition {
	t.Helper()
	var c composition
	require.NoError(t, yaml.Unmarshal([]byte(read(t, "docker-compose.yml")), &c))
	require.Contains(t, c.Services, "worker")
	return c
}

// pinned is an image with a version of at least two parts.
var pinned = regexp.MustCompile(`^[a-z0-9./-]+:[0-9]+\.[0-9]+[a-z0-9.-]*$`)

func TestEveryImageIsPinned(t *testing.T) {
	t.Parallel()
	for name, s := range compose(t).Services {
		if s.Build != nil {
			require.Equal(t, "rgpt-"+s.Build["target"]+":local", s.Image, name)
			continue
		}
		require.Regexp(t, pinned, s.Image, name)
	}
	stages := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^FROM (\S+) AS (\S+)`).FindAllStringSubmatch(read(t, "Dockerfile"), -1) {
		if !stages[m[1]] {
			require.Regexp(t, pinned, m[1])
		}
		stages[m[2]] = true
	}
	require.True(t, stages["worker"] && stages["server"])
}

func TestTheGoOfTheImageIsThatOfTheModule(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, "go.mod"))[1]
	require.Contains(t, read(t, "Dockerfile"), "FROM golang:"+version+"-")
}

func TestTheImageIsBuiltOfEveryPackage(t *testing.T) {
	t.Parallel()
	ignore := read(t, ".dockerignore")
	imports := regexp.MustCompile(`"github\.com/rocketgpt/orchestrator/([a-z]+)`)
	for _, root := range []string{"starter", "workers", "server", "activities", "workflows", "internal", "contract", "migrations"} {
		require.Contains(t, ignore, "\n!"+root+"\n")
		require.NoError(t, filepath.WalkDir(filepath.Join("..", "..", root), func(path string, _ os.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range imports.FindAllStringSubmatch(string(text), -1) {
				require.Contains(t, ignore, "\n!"+m[1]+"\n", path)
			}
			return err
		}))
	}
}

func TestImagesDoNotRunAsRoot(t *testing.T) {
	t.Parallel()
	_, runtime, ok := strings.Cut(read(t, "Dockerfile"), "AS runtime")
	require.True(t, ok)
	users := regexp.MustCompile(`(?m)^USER (\S+)$`).FindAllStringSubmatch(runtime, -1)
	require.Len(t, users, 1)
	require.Equal(t, "rgpt", users[0][1])
}

func TestEveryServiceIsWatchedAndBounded(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for name, s := range c.Services {
		require.NotEmpty(t, s.Deploy.Resources.Limits.CPUs, name)
		require.NotEmpty(t, s.Deploy.Resources.Limits.Memory, name)
		require.NotEmpty(t, s.Logging, name)
		require.NotEmpty(t, s.Networks, name)
		if c.job(name) {
			require.Equal(t, "no", s.Restart, "%s: a job runs once, and what waits for it sees how it ended", name)
			continue
		}
		require.Equal(t, "unless-stopped", s.Restart, name)
		for _, key := range []string{"test", "interval", "timeout", "retries", "start_period"} {
			require.NotEmpty(t, s.HealthCheck[key], "%s: healthcheck.%s", name, key)
		}
	}
}

func TestServicesWaitForWhatExistsAndIsReady(t *testing.T) {
	t.Parallel()
	c := compose(t)
	for name, s := range c.Services {
		for needed, how := range s.DependsOn {
			require.Contains(t, c.Services, needed, name)
			want := "service_healthy"
			if c.job(needed) {
				want = "service_completed_successfully"
			}
			require.Equal(t, want, how.Condition, "%s needs %s", name, needed)
		}
		for _, n := range s.Networks {
			require.Contains(t, c.Networks, n, name)
		}
		for _, secret := range s.Secrets {
			require.Contains(t, c.Secrets, secret, name)
		}
		for _, v := range s.Volumes {
			source, _, _ := strings.Cut(v, ":")
			if strings.HasPrefix(source, ".") {
				require.FileExists(t, existing(t, source), name)
				continue
			}
			require.Contains(t, c.Volumes, source, name)
		}
	}
}

// existing returns a file of a mounted folder, or the mounted file itself.
func existing(t *testing.T, source string) string {
	t.Helper()
	path := filepath.Join("..", "..", source)
	entries, err := os.ReadDir(path)
	if err != nil {
		return path
	}
	require.NotEmpty(t, entries)
	return filepath.Join(path, entries[0].Name())
}

func TestPortsAreOfTheLoopbackOnly(t *testing.T) {
	t.Parallel()
	for name, s := range compose(t).Services {
		for _, p := range s.Ports {
			require.True(t, strings.HasPrefix(p, "127.0.0.1:"), "%s: %s", name, p)
		}
	}
}

func TestSecretsComeFromFilesThatAreNotInTheRepository(t *testing.T) {
	t.Parallel()
	c := compose(t)
	secret := regexp.MustCompile(`(?i)(password|passwd|pwd|secret|token|api_?key)$`)
	for name, s := range c.Services {
		for key, value := range s.Environment {
			require.NotRegexp(t, secret, key, name)
			require.NotRegexp(t, `://[^/@]*:[^/@]*@`, value, "%s: %s holds a password", name, key)
			if strings.HasSuffix(key, "_FILE") {
				require.True(t, strings.HasPrefix(value, "/run/secrets/") && contains(s.Secrets, filepath.Base(value)), "%s: %s", name, key)
			}
		}
	}
	for name, s := range c.Secrets {
		require.True(t, strings.HasPrefix(s.File, "./secrets/"), name)
	}
	require.Contains(t, read(t, ".gitignore"), "\n/secrets/\n")
	require.NotContains(t, read(t, ".dockerignore"), "secrets")
}

func contains(all []string, one string) bool {
	for _, s := range all {
		if s == one {
			return true
		}
	}
	return false
}

func TestTemporalKnowsTheSearchAttributesOfRuns(t *testing.T) {
	t.Parallel()
	var want []string
	for _, a := range contract.SearchAttributes() {
		want = append(want, a[0]+"="+a[1])
	}
	require.Equal(t, want, strings.Fields(compose(t).Services["temporal-namespace"].Environment["SEARCH_ATTRIBUTES"]))
	require.Contains(t, read(t, "deploy/compose/temporal-namespace.sh"), "in $SEARCH_ATTRIBUTES;")
	operations := read(t, "docs/OPERATIONS.md")
	for _, a := range contract.SearchAttributes() {
		require.Contains(t, operations, "--name "+a[0]+" --type "+a[1]+"\n")
	}
}

func TestTheEnvironmentIsUnderstood(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	password := filepath.Join(dir, "postgres_password")
	require.NoError(t, os.WriteFile(password, []byte("canary\n"), 0o600))
	for _, name := range []string{"migrate", "worker", "server"} {
		env := []string{"HOME=" + dir}
		for key, value := range compose(t).Services[name].Environment {
			switch key {
			case "RGPT_DATABASE_PASSWORD_FILE":
				value = password
			case "RGPT_CONFIG_BASE":
				value = filepath.Join("..", "..", "deploy", "compose", "rgpt.yaml")
			}
			env = append(env, key+"="+value)
		}
		c, err := config.Load(config.Sources{Env: env})
		require.NoError(t, err, name)
		require.Equal(t, "postgres://rgpt:canary@postgres:5432/rgpt?sslmode=disable", c.Database.URL)
		require.Equal(t, "temporal:7233", c.Temporal.Address)
	}
}
