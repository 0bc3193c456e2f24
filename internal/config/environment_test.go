package config_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/proxy"
)

func TestRegistriesAreHostsThatTheProxyUnderstands(t *testing.T) {
	t.Parallel()
	all := config.RegistryHosts()
	for language, host := range map[string]string{
		"go": "sum.golang.org", "node": "registry.npmjs.org", "python": "files.pythonhosted.org", "rust": "index.crates.io", "java": "repo.maven.apache.org",
	} {
		require.Contains(t, all[language], host)
	}
	require.Len(t, all, 5)
	for _, hosts := range all {
		_, err := proxy.ParseHosts(hosts)
		require.NoError(t, err)
	}
	all["go"][0] = "evil.org"
	require.NotContains(t, config.RegistryHosts()["go"], "evil.org", "the list is a copy")
}

func TestTheEnvironmentSectionIsRead(t *testing.T) {
	t.Parallel()
	c, err := load(t, `
environment:
  enabled: false
  setup: [npm ci, make deps]
  network:
    hosts: [nexus.example.com]
    credentials: [{host: nexus.example.com, header: Authorization, env: NEXUS}]
    allow_private: [nexus.example.com]
  variables: {A_B: c}
  cache: [~/.npm]
  timeout: 5m
  agent_turns: 3
  disk: 1GiB
  count: 7
  age: 24h
verification: {baseline: off, baseline_red: ask}
`)
	require.NoError(t, err)
	require.Equal(t, config.Environment{
		Setup: []string{"npm ci", "make deps"}, Variables: map[string]string{"A_B": "c"}, Cache: []string{"~/.npm"}, Timeout: 5 * time.Minute, AgentTurns: 3,
		Disk: config.GiB, Count: 7, Age: 24 * time.Hour, Build: config.DockerfileBuild{Args: map[string]string{}},
		Network: config.EnvironmentNetwork{
			Hosts: []string{"nexus.example.com"}, AllowPrivate: []string{"nexus.example.com"},
			Credentials: []config.HostCredential{{Host: "nexus.example.com", Header: "Authorization", Env: "NEXUS"}},
		},
	}, c.Environment)
	require.Equal(t, "off", c.Verification.Baseline)
	require.Equal(t, "ask", c.Verification.BaselineRed)
}

func TestMistakesInTheEnvironmentSectionAreReported(t *testing.T) {
	t.Parallel()
	for in, says := range map[string]string{
		"execution: {sandbox: {network: false}}":                                              "execution.sandbox.network: must be a list of hosts",
		"execution: {sandbox: {network: [\"*\"]}}":                                            "execution.sandbox.network[0]: expected a host such as",
		"environment: {network: {hosts: [10.0.0.1]}}":                                         "environment.network.hosts[0]: expected a host such as",
		"environment: {network: {credentials: [{host: a.org, header: X}]}}":                   "expected either env (the name of a variable) or file, not both",
		"environment: {network: {credentials: [{host: a.org, header: X, env: A, file: /b}]}}": "expected either env (the name of a variable) or file, not both",
		"environment: {network: {credentials: [{host: \"*.a.org\", header: X, env: A}]}}":     "expected one host without a wildcard",
		"environment: {network: {credentials: [{host: a.org, header: X, value: secret}]}}":    "unknown key",
		"environment: {variables: {PATH: /x}}":                                                "environment.variables.PATH: invalid key; expected",
		"environment: {variables: {GIT_SSH_COMMAND: x}}":                                      "environment.variables.GIT_SSH_COMMAND: invalid key; expected",
		"environment: {variables: {NODE_OPTIONS: \"-r ./x\"}}":                                "environment.variables.NODE_OPTIONS: has an option",
		"environment: {variables: {MAVEN_OPTS: \"-javaagent:x.jar\"}}":                        "environment.variables.MAVEN_OPTS: has an option",
		"environment: {dockerfile: ../Dockerfile}":                                            "environment.dockerfile",
		"environment: {dockerfile: Dockerfile}":                                               "environment.dockerfile: requires execution.sandbox.runner: docker",
		"environment: {build: {target: dev}}":                                                 "environment.build: requires environment.dockerfile",
		"execution: {sandbox: {runner: docker}}\nenvironment: {dockerfile: a, image: b}":      "environment.dockerfile: conflicts with environment.image, which is \"b\"",
		"execution: {sandbox: {docker: {build: {network: container:x}}}}":                     "expected one of none, bridge, host",
		"execution: {sandbox: {docker: {pull: always}}}":                                      "expected one of never, missing",
		"verification: {baseline: maybe}":                                                     "expected one of on, off",
	} {
		_, err := load(t, in)
		require.ErrorContains(t, err, says, in)
	}
	_, err := config.Load(config.Sources{Dir: t.TempDir(), Env: []string{"RGPT_EXECUTION_SANDBOX_NETWORK=true"}})
	require.ErrorContains(t, err, "must be a list of hosts")
	c, err := config.Load(config.Sources{Dir: t.TempDir(), Env: []string{"RGPT_EXECUTION_SANDBOX_NETWORK=a.org, *.b.org"}})
	require.NoError(t, err)
	require.Equal(t, []string{"a.org", "*.b.org"}, c.Execution.Sandbox.Network)
}

func TestCredentialsComeFromVariablesOrFiles(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(file, []byte("Bearer from-file\n"), 0o600))
	getenv := func(name string) string { return map[string]string{"SET": " Bearer from-env "}[name] }
	value, err := config.HostCredential{Host: "a.org", Env: "SET"}.Value(getenv)
	require.NoError(t, err)
	require.Equal(t, "Bearer from-env", value)
	value, err = config.HostCredential{Host: "a.org", File: file}.Value(getenv)
	require.NoError(t, err)
	require.Equal(t, "Bearer from-file", value)
	_, err = config.HostCredential{Host: "a.org", Env: "UNSET"}.Value(getenv)
	require.ErrorContains(t, err, "environment variable UNSET")
	_, err = config.HostCredential{Host: "a.org", File: file + "x"}.Value(getenv)
	require.ErrorContains(t, err, "a.org cannot be read")
}
