package conformance

import (
	"encoding/json"
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/sandbox"
	"github.com/rocketgpt/orchestrator/internal/sandbox/sandboxtest"
)

func (s *suite) noByteLeavesButThroughTheProxy(t *testing.T) {
	p := s.parallel(t)
	n := sandboxtest.StartNeighbours(t)
	targets, err := json.Marshal(n.Targets)
	require.NoError(t, err)

	res := run(t, p, sandbox.Command{Args: []string{"python3", "-c", sandboxtest.Probes}, Stdin: targets})
	require.Zero(t, res.ExitCode, "%s", res.Stderr)
	require.Equal(t, "descriptors 0 1 2\n", string(res.Stdout), "without a proxy")
	require.NotZero(t, run(t, p, sandbox.Command{Shell: "exec 3<>/dev/tcp/127.0.0.1/3128"}).ExitCode, "without a proxy nothing listens")

	serve, _ := sandboxtest.WayOut(t, sandboxtest.OneHost{}, "allowed.example.com")
	res = run(t, p, sandbox.Command{Args: []string{"python3", "-c", sandboxtest.Probes}, Stdin: targets, Proxy: serve})
	require.Zero(t, res.ExitCode, "%s", res.Stderr)
	require.Equal(t, "descriptors 0 1 2\n", string(res.Stdout), "with a proxy")
	require.Empty(t, res.Refused)
	require.Zero(t, n.Touched.Load(), "a service of the host was reached")
}

func (s *suite) theProxyLeadsToAllowedHostsOnly(t *testing.T) {
	p := s.parallel(t)
	n := sandboxtest.StartNeighbours(t)
	_, port, err := net.SplitHostPort(n.TCP)
	require.NoError(t, err)
	names := sandboxtest.OneHost{"loop.example.com": "127.0.0.1", "meta.example.com": "169.254.169.254"}
	for name, target := range n.Targets {
		if strings.HasPrefix(name, "interface 1") {
			host, _, err := net.SplitHostPort(target[1])
			require.NoError(t, err)
			names["self.example.com"] = host
		}
	}
	serve, _ := sandboxtest.WayOut(t, names, "*.example.com", "*.example.com:"+port)
	res := run(t, p, sandbox.Command{Proxy: serve, Args: []string{
		"python3", "-c", sandboxtest.ThroughProxy, "http://allowed.example.com/", "http://forbidden.example.org/", "http://127.0.0.1:" + port, "http://169.254.169.254/",
		"http://loop.example.com:" + port, "http://meta.example.com/",
	}})
	require.Zero(t, res.ExitCode, "%s", res.Stderr)
	require.Equal(t, "http://allowed.example.com/ welcome\n"+
		"http://forbidden.example.org/ 403 refused\n"+
		"http://127.0.0.1:"+port+" 403 refused\n"+
		"http://169.254.169.254/ 403 refused\n"+
		"http://loop.example.com:"+port+" 403 refused\n"+
		"http://meta.example.com/ 403 refused\n", string(res.Stdout))
	require.Equal(t, []string{
		"forbidden.example.org:80", "127.0.0.1:" + port, "169.254.169.254:80", "loop.example.com:" + port, "meta.example.com:80",
	}, res.Refused)
	if names["self.example.com"] != "" {
		res = run(t, p, sandbox.Command{Proxy: serve, Args: []string{"python3", "-c", sandboxtest.ThroughProxy, "http://self.example.com/"}})
		require.Equal(t, "http://self.example.com/ 403 refused\n", string(res.Stdout))
	}
	require.Zero(t, n.Touched.Load(), "a service of the host was reached")
}
