package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/proxy"
)

// oneHost resolves allowed.example.com to a public address, and other names
// below example.com to where the probes want to go.
type oneHost map[string]string

func (o oneHost) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if text, ok := o[host]; ok {
		return []netip.Addr{netip.MustParseAddr(text)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// wayOut gives commands a real proxy, which reaches a web server of the test
// under the name allowed.example.com.
func wayOut(t *testing.T, names oneHost, hosts ...string) (func(net.Listener) []string, *proxy.Proxy) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "welcome") }))
	t.Cleanup(server.Close)
	names["allowed.example.com"] = "203.0.113.1"
	p, err := proxy.New(proxy.Options{Resolver: names, Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "203.0.113.1:80" {
			return nil, errors.New("the test allows one address only")
		}
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}})
	require.NoError(t, err)
	return func(l net.Listener) []string {
		var refused []string
		err := p.Serve(l, proxy.Session{Hosts: hosts, OnRequest: func(r proxy.Record) {
			if r.Verdict == proxy.Refused {
				refused = append(refused, net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port))))
			}
		}})
		if err != nil {
			t.Error(err)
		}
		return refused
	}, p
}

// neighbours are everything that a command could find beside the worker. Anything that
// reaches one of them is counted.
type neighbours struct {
	*hostServices
	Targets map[string][2]string // name → kind and address, for the probes
}

func startNeighbours(t *testing.T) *neighbours {
	t.Helper()
	n := &neighbours{hostServices: startHostServices(t), Targets: map[string][2]string{}}
	add := func(name, kind, address string) { n.Targets[name] = [2]string{kind, address} }
	add("loopback", "tcp", n.tcp)
	add("loopback datagram", "udp", n.udp)
	add("abstract unix socket", "unix", "@"+n.abstract)
	add("unix socket", "unix", n.path)
	if l, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = l.Close()
		add("loopback of IPv6", "tcp", n.listen(t, "tcp", "[::1]:0").Addr().String())
	}
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		ip := netip.MustParsePrefix(a.String()).Addr()
		if ip.IsLoopback() || ip.IsLinkLocalUnicast() {
			continue
		}
		l := n.listen(t, "tcp", net.JoinHostPort(ip.String(), "0"))
		add("interface "+ip.String(), "tcp", l.Addr().String())
		add("interface by datagram "+ip.String(), "udp", l.Addr().String())
	}
	for _, dir := range []string{"/run", "/tmp"} {
		path := filepath.Join(dir, fmt.Sprintf("rgpt-test-%d-%s.sock", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-")))
		if l, err := net.Listen("unix", path); err == nil {
			_ = l.Close()
			n.listen(t, "unix", path)
			add("unix socket in "+dir, "unix", path)
		}
	}
	add("metadata", "tcp", "169.254.169.254:80")
	add("metadata of IPv6", "tcp", "[fd00:ec2::254]:80")
	add("public address", "tcp", "203.0.113.1:80")
	add("public name server", "dns", "8.8.8.8:53")
	add("broadcast", "udp", "255.255.255.255:9")
	add("multicast", "udp", "224.0.0.251:5353")
	return n
}

// probes try each way out and print those that led anywhere.
const probes = `
import json, os, socket, struct, sys
socket.setdefaulttimeout(2)
def attempt(name, f):
    try:
        f()
    except OSError:
        return
    print("WENT OUT:", name)
def split(address):
    host, port = address.rsplit(":", 1)
    return host.strip("[]"), int(port)
def family(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET
def tcp(address):
    host, port = split(address)
    with socket.socket(family(host), socket.SOCK_STREAM) as s:
        s.connect((host, port))
def udp(address):
    host, port = split(address)
    with socket.socket(family(host), socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        s.sendto(b"x", (host, port))
        if host.startswith("127."): # the sandbox has that address too
            s.connect((host, port)); s.send(b"x"); s.recv(1)
def dns(address):
    host, port = split(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x07example\x03com\x00\x00\x01\x00\x01", (host, port))
        s.recv(512)
def unix(address):
    for kind in socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET:
        with socket.socket(socket.AF_UNIX, kind) as s:
            try:
                s.connect("\0" + address[1:] if address.startswith("@") else address)
                return
            except OSError:
                pass
    raise OSError
for name, (kind, address) in json.load(sys.stdin).items():
    attempt(name, lambda: globals()[kind](address))
def name():
    socket.getaddrinfo("allowed.example.com", 80)
attempt("a name was resolved", name)
attempt("raw socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP))
attempt("raw socket of IPv6", lambda: socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_ICMPV6))
attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
attempt("vsock", lambda: socket.socket(40, socket.SOCK_STREAM))
interfaces = [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]
if interfaces != ["lo"]:
    print("WENT OUT: interfaces", interfaces)
if len(open("/proc/net/route").readlines()) > 1:
    print("WENT OUT: routes", open("/proc/net/route").read())
print("descriptors", *[fd for fd in range(256) if os.path.exists(f"/proc/self/fd/{fd}")])
`

// throughProxy asks the proxy for each target, and for the one that is allowed.
const throughProxy = `
import os, sys, urllib.error, urllib.request
os.environ.pop("no_proxy"), os.environ.pop("NO_PROXY")
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"}))
for url in sys.argv[1:]:
    try:
        print(url, opener.open(url, timeout=5).read().decode())
    except urllib.error.HTTPError as e:
        print(url, e.code, e.headers["X-RGPT-Proxy"])
`

func TestNoByteLeavesButThroughTheProxy(t *testing.T) {
	p := isolated(t)
	n := startNeighbours(t)
	targets, err := json.Marshal(n.Targets)
	require.NoError(t, err)

	res := runCommand(t, p, Command{Args: []string{"python3", "-c", probes}, Stdin: targets})
	require.Zero(t, res.ExitCode, "%s", res.Stderr)
	require.Equal(t, "descriptors 0 1 2\n", string(res.Stdout), "without a proxy")
	require.NotZero(t, runCommand(t, p, Command{Shell: "exec 3<>/dev/tcp/127.0.0.1/3128"}).ExitCode, "without a proxy nothing listens")

	serve, _ := wayOut(t, oneHost{}, "allowed.example.com")
	res = runCommand(t, p, Command{Args: []string{"python3", "-c", probes}, Stdin: targets, Proxy: serve})
	require.Zero(t, res.ExitCode, "%s", res.Stderr)
	require.Equal(t, "descriptors 0 1 2\n", string(res.Stdout), "with a proxy")
	require.Empty(t, res.Refused)
	require.Zero(t, n.touched.Load(), "a service of the host was reached")
}

func TestTheProxyLeadsToAllowedHostsOnly(t *testing.T) {
	p := isolated(t)
	n := startNeighbours(t)
	_, port, err := net.SplitHostPort(n.tcp)
	require.NoError(t, err)
	names := oneHost{"loop.example.com": "127.0.0.1", "meta.example.com": "169.254.169.254"}
	for name, target := range n.Targets {
		if strings.HasPrefix(name, "interface 1") {
			host, _, err := net.SplitHostPort(target[1])
			require.NoError(t, err)
			names["self.example.com"] = host
		}
	}
	serve, _ := wayOut(t, names, "*.example.com", "*.example.com:"+port)
	res := runCommand(t, p, Command{Proxy: serve, Args: []string{
		"python3", "-c", throughProxy, "http://allowed.example.com/", "http://forbidden.example.org/", "http://127.0.0.1:" + port, "http://169.254.169.254/",
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
		res = runCommand(t, p, Command{Proxy: serve, Args: []string{"python3", "-c", throughProxy, "http://self.example.com/"}})
		require.Equal(t, "http://self.example.com/ 403 refused\n", string(res.Stdout))
	}
	require.Zero(t, n.touched.Load(), "a service of the host was reached")
}

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
	serve, _ := wayOut(t, oneHost{}, "allowed.example.com")
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
	serve, way := wayOut(t, oneHost{}, "allowed.example.com")
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
