package sandbox

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

func TestTheProxyEndsWithTheCommand(t *testing.T) {
	p := isolated(t)
	var mu sync.Mutex
	var listener net.Listener
	returned := 0
	serve := func(l net.Listener) []string {
		mu.Lock()
		listener = l
		mu.Unlock()
		if conn, err := l.Accept(); err == nil {
			_ = conn.Close()
		}
		_, err := l.Accept()
		mu.Lock()
		defer mu.Unlock()
		returned++
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("the listener ended with %v", err)
		}
		return []string{"x:1"}
	}
	res := runCommand(t, p, Command{Proxy: serve, Shell: "exec 3<>/dev/tcp/127.0.0.1/3128; cat <&3"})
	require.True(t, res.OK(), "%s", res.Stderr)
	require.Equal(t, []string{"x:1"}, res.Refused)
	require.Equal(t, 1, returned)
	_, err := listener.Accept()
	require.ErrorIs(t, err, net.ErrClosed)

	ctx, cancel := context.WithCancel(t.Context())
	_, err = p.Run(ctx, Command{Root: t.TempDir(), Shell: "echo; sleep 60", Proxy: func(l net.Listener) []string {
		cancel()
		_, _ = l.Accept()
		returned++
		return nil
	}})
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 2, returned, "Run has waited for the proxy")
	_, err = p.Run(t.Context(), Command{Root: "/does/not/exist", Shell: "true", Proxy: serve})
	require.Error(t, err)
	require.Equal(t, 2, returned)
}

func TestToolsAreToldOfTheProxy(t *testing.T) {
	p := isolated(t)
	serve, _ := sandboxtest.WayOut(t, sandboxtest.OneHost{}, "allowed.example.com")
	res := runCommand(t, p, Command{Proxy: serve, Shell: "env | sort"})
	env := map[string]string{}
	for line := range strings.Lines(string(res.Stdout)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[name] = value
	}
	for _, name := range []string{
		"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "npm_config_proxy", "npm_config_https_proxy", "CARGO_HTTP_PROXY", "PIP_PROXY",
		"YARN_HTTP_PROXY", "YARN_HTTPS_PROXY",
	} {
		require.Equal(t, "http://127.0.0.1:3128", env[name], name)
	}
	require.Equal(t, "localhost,127.0.0.1,::1", env["NO_PROXY"])
	require.Equal(t, "localhost,127.0.0.1,::1", env["no_proxy"])
	require.Contains(t, env["MAVEN_OPTS"], "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128")
	require.Contains(t, env["GRADLE_OPTS"], "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=3128")
	require.NotContains(t, env, "npm_config_offline")
	require.NotContains(t, env, "SSL_CERT_FILE", "without certificates of the proxy the system's are right")
}

func TestOfflineSettingsHoldOnlyWithoutAProxy(t *testing.T) {
	t.Parallel()
	tools := Toolchains{
		Env:    map[string]string{"GOPROXY": "off", "GOSUMDB": "off", "CARGO_NET_OFFLINE": "true", "GOTOOLCHAIN": "local", "EMPTY": ""},
		Online: map[string]string{"GOPROXY": "https://proxy.golang.org", "GOSUMDB": "sum.golang.org", "GOPRIVATE": "", "CARGO_NET_OFFLINE": ""},
	}
	require.Equal(t, tools.Env, tools.environment(false))
	require.Equal(t, map[string]string{"GOPROXY": "https://proxy.golang.org", "GOSUMDB": "sum.golang.org", "GOTOOLCHAIN": "local", "EMPTY": ""}, tools.environment(true))
	require.Equal(t, "off", tools.Env["GOPROXY"], "the toolchains stay as they are")
	detected := DetectToolchains()
	if detected.Env["GOROOT"] != "" || detected.Env["GOPROXY"] != "" {
		require.Equal(t, "off", detected.environment(false)["GOPROXY"])
		require.NotContains(t, detected.environment(true)["GOPROXY"], "direct")
		require.NotEmpty(t, detected.environment(true)["GOPROXY"])
	}
}

func TestModuleProxiesOfTheHostLoseDirectAndPasswords(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"":                                "https://proxy.golang.org",
		"direct":                          "https://proxy.golang.org",
		"https://proxy.golang.org,direct": "https://proxy.golang.org",
		"off":                             "off",
		"https://u:p@athens.example.com|https://proxy.golang.org|direct": "https://athens.example.com|https://proxy.golang.org",
		"https://a.example.com , https://b.example.com,off":              "https://a.example.com,https://b.example.com,off",
	} {
		require.Equal(t, want, moduleProxies(host), host)
	}
}

func TestACommandTrustsTheProxysAuthorityBesidesTheHosts(t *testing.T) {
	p := isolated(t)
	serve, way := sandboxtest.WayOut(t, sandboxtest.OneHost{}, "allowed.example.com")
	certificate := string(way.CACertificate())
	before, err := os.ReadFile(bundleTarget())
	require.NoError(t, err)
	res := runCommand(t, p, Command{Proxy: serve, CACertificates: []byte(certificate), Shell: `cat "$SSL_CERT_FILE"
			for file in "$NODE_EXTRA_CA_CERTS" "$REQUESTS_CA_BUNDLE" "$PIP_CERT" "$CURL_CA_BUNDLE" "$GIT_SSL_CAINFO" "$CARGO_HTTP_CAINFO"; do test "$file" = "$SSL_CERT_FILE" || exit 3; done
			if (echo >>"$SSL_CERT_FILE") 2>/dev/null; then exit 4; fi`,
		Limits: Limits{OutputBytes: 8 << 20}})
	require.True(t, res.OK(), "%+v", res.ExitCode)
	require.True(t, strings.HasSuffix(string(res.Stdout), certificate))
	require.True(t, strings.HasPrefix(string(res.Stdout), string(before)))
	after, err := os.ReadFile(bundleTarget())
	require.NoError(t, err)
	require.Equal(t, before, after, "the host's own is as it was")
	res = runCommand(t, p, Command{CACertificates: []byte(certificate), Shell: `test -z "$SSL_CERT_FILE"; grep -c RocketGPT ` + bundleTarget()})
	require.Equal(t, "0\n", string(res.Stdout))
}

func TestWithoutNamespacesThereIsNoNetworkAtAll(t *testing.T) {
	p := unisolated(t)
	called := false
	_, err := p.Run(t.Context(), Command{Root: t.TempDir(), Shell: "true", Proxy: func(net.Listener) []string {
		called = true
		return nil
	}})
	var missing *IsolationError
	require.ErrorAs(t, err, &missing)
	require.ErrorContains(t, err, "would share this host's network")
	require.NotContains(t, err.Error(), "allow_unisolated", "that is set, and does not help")
	require.False(t, called)
}
