package sandboxtest

import (
	"context"
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
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rocketgpt/orchestrator/internal/proxy"
)

// HostServices are services beside a worker: TCP and UDP on the loopback (databases,
// Temporal), an abstract unix socket (X11, D-Bus) and one with a path (docker.sock).
type HostServices struct {
	TCP, UDP, Abstract, Path string
	Touched                  atomic.Int64
}

// StartHostServices starts the services, until the test ends.
func StartHostServices(t *testing.T) *HostServices {
	t.Helper()
	h := &HostServices{
		Abstract: fmt.Sprintf("rgpt-sandbox-test-%d-%s", os.Getpid(), strings.ReplaceAll(t.Name(), "/", "-")),
		Path:     filepath.Join(shortDir(t), "service.sock"),
	}
	tcp := h.listen(t, "tcp", "127.0.0.1:0")
	h.TCP = tcp.Addr().String()
	h.listen(t, "unix", "@"+h.Abstract)
	h.listen(t, "unix", h.Path)
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = udp.Close() })
	h.UDP = udp.LocalAddr().String()
	go func() {
		if _, _, err := udp.ReadFrom(make([]byte, 64)); err == nil {
			h.Touched.Add(1)
		}
	}()
	return h
}

// shortDir returns a directory whose path, unlike that of t.TempDir, is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rgpt-") //nolint:usetesting // see above
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func (h *HostServices) listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			h.Touched.Add(1)
			_ = conn.Close()
		}
	}()
	return l
}

// OneHost resolves allowed.example.com to a public address, and other names
// below example.com to where the Probes want to go.
type OneHost map[string]string

// LookupNetIP implements proxy.Resolver.
func (o OneHost) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if text, ok := o[host]; ok {
		return []netip.Addr{netip.MustParseAddr(text)}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// WayOut gives commands a real proxy, which reaches a web server of the test
// under the name allowed.example.com.
func WayOut(t *testing.T, names OneHost, hosts ...string) (func(net.Listener) []string, *proxy.Proxy) {
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

// Neighbours are everything that a command could find beside the worker. Anything that
// reaches one of them is counted.
type Neighbours struct {
	*HostServices
	Targets map[string][2]string // name → kind and address, for the Probes
}

// StartNeighbours starts everything that a command could find.
func StartNeighbours(t *testing.T) *Neighbours {
	t.Helper()
	n := &Neighbours{HostServices: StartHostServices(t), Targets: map[string][2]string{}}
	add := func(name, kind, address string) { n.Targets[name] = [2]string{kind, address} }
	add("loopback", "tcp", n.TCP)
	add("loopback datagram", "udp", n.UDP)
	add("abstract unix socket", "unix", "@"+n.Abstract)
	add("unix socket", "unix", n.Path)
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

// Probes try each way out and print those that led anywhere.
const Probes = `
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

// ThroughProxy asks the proxy for each target, and for the one that is allowed.
const ThroughProxy = `
import os, sys, urllib.error, urllib.request
os.environ.pop("no_proxy"), os.environ.pop("NO_PROXY")
opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3128"}))
for url in sys.argv[1:]:
    try:
        print(url, opener.open(url, timeout=5).read().decode())
    except urllib.error.HTTPError as e:
        print(url, e.code, e.headers["X-RGPT-Proxy"])
`
