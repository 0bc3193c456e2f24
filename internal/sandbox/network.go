package sandbox

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A sandbox has its own network namespace, with only a loopback interface. The only network access
// is through a listener on that interface: process 1 creates it inside the namespace and passes it
// to the worker, which serves it from outside. A socket belongs to the namespace in which it was
// created, so no relay process is needed.

// ProxyPort is the port of a sandbox's proxy at 127.0.0.1.
const ProxyPort = 3128

// proxyBacklog is the maximum number of connections that wait to be accepted.
const proxyBacklog = 128

// offerListener creates the proxy's listener and passes it to the worker. It runs in process 1
// before that process confines itself, and leaves no descriptor open that the command could use.
func offerListener() error {
	defer func() { _ = unix.Close(proxyFD) }()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("create the proxy listener: %w", err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: ProxyPort, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return fmt.Errorf("create the proxy listener: %w", err)
	}
	if err := unix.Listen(fd, proxyBacklog); err != nil {
		return fmt.Errorf("create the proxy listener: %w", err)
	}
	if err := unix.Sendmsg(proxyFD, []byte{1}, unix.UnixRights(fd), nil, 0); err != nil {
		return fmt.Errorf("pass the proxy listener to the worker: %w", err)
	}
	return nil
}

// outlet is the worker's end of a sandbox's network access.
type outlet struct {
	serve func(net.Listener) []string
	conn  *net.UnixConn // receives the listener
	done  chan struct{} // closed when serve has returned

	mu       sync.Mutex
	closed   bool
	listener net.Listener

	refused []string // of serve
	err     error    // reason why serve was never called
}

// openOutlet passes the child the socket through which it sends its listener.
func (s *session) openOutlet() error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("sandbox: create the proxy socket: %w", err)
	}
	s.pass(os.NewFile(uintptr(fds[1]), "proxy"))
	ours := os.NewFile(uintptr(fds[0]), "proxy")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return fmt.Errorf("sandbox: create the proxy socket: %w", err)
	}
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		_ = conn.Close()
		return errors.New("sandbox: create the proxy socket: not a unix socket")
	}
	s.config.Proxy = true
	s.outlet = &outlet{serve: s.command.Proxy, conn: socket, done: make(chan struct{})}
	s.onClose(func() { _ = socket.Close() })
	return nil
}

// run serves until the outlet is closed.
func (o *outlet) run() {
	defer close(o.done)
	listener, err := o.receive()
	if err == nil {
		o.mu.Lock()
		if o.closed {
			err = net.ErrClosed
			_ = listener.Close()
		}
		o.listener = listener
		o.mu.Unlock()
	}
	switch {
	case err == nil:
		o.refused = o.serve(listener)
	case errors.Is(err, io.EOF), errors.Is(err, net.ErrClosed):
		// The sandbox ended before its command began, which is reported elsewhere.
	default:
		o.err = fmt.Errorf("sandbox: connect the command to the proxy: %w", err)
	}
}

// receive waits for the listener from process 1.
func (o *outlet) receive() (net.Listener, error) {
	data, control := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := o.conn.ReadMsgUnix(data, control)
	if err != nil {
		return nil, err
	}
	if n == 0 && m == 0 {
		return nil, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(control[:m])
	if err != nil || len(messages) != 1 {
		return nil, fmt.Errorf("receive the proxy listener: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		return nil, fmt.Errorf("receive the proxy listener: %w", errors.Join(err, io.ErrUnexpectedEOF))
	}
	unix.CloseOnExec(fds[0])
	file := os.NewFile(uintptr(fds[0]), "proxy listener")
	defer file.Close()
	return net.FileListener(file)
}

// close closes the outlet, waits for the proxy and returns the refused hosts.
func (o *outlet) close() ([]string, error) {
	o.mu.Lock()
	o.closed = true
	_ = o.conn.Close()
	if o.listener != nil {
		_ = o.listener.Close()
	}
	o.mu.Unlock()
	<-o.done
	return o.refused, o.err
}

// noNamespaceError explains why a command without namespaces has no network access.
func noNamespaceError() error {
	return &IsolationError{Final: true, Missing: []Feature{{
		Name: "network through the proxy", Required: true, By: "bubblewrap", Fix: namespaceFix(),
		Detail: "without a network namespace, a command would share this host's network, so commands with network access are not run; " +
			"enable namespaces, or remove execution.sandbox.network and the network settings of checks",
	}}}
}

// offlineEnv returns the variables that put tools into offline mode.
func offlineEnv() map[string]string {
	// npm would otherwise try to reach its registry for a minute.
	return map[string]string{"npm_config_offline": "true"}
}

// proxyEnv returns the variables that configure the proxy for each tool.
func proxyEnv() map[string]string {
	const host = "127.0.0.1"
	port := strconv.Itoa(ProxyPort)
	url := "http://" + host + ":" + port
	java := "-Dhttp.proxyHost=" + host + " -Dhttp.proxyPort=" + port + " -Dhttps.proxyHost=" + host + " -Dhttps.proxyPort=" + port +
		" -Dhttp.nonProxyHosts=localhost|127.*|[::1]"
	env := map[string]string{
		// Maven 3.9 reads these properties only with these options.
		"MAVEN_OPTS":  java + " -Daether.connector.http.useSystemProperties=true -Daether.transport.apache.useSystemProperties=true",
		"GRADLE_OPTS": java,
		"PIP_PROXY":   url,
		// For fetch in Node 22.21 and newer.
		"NODE_USE_ENV_PROXY": "1",
		"CARGO_HTTP_PROXY":   url,
		"npm_config_proxy":   url, "npm_config_https_proxy": url,
		"YARN_HTTP_PROXY": url, "YARN_HTTPS_PROXY": url,
	}
	for name, value := range map[string]string{"HTTP_PROXY": url, "HTTPS_PROXY": url, "NO_PROXY": "localhost,127.0.0.1,::1"} {
		env[name], env[strings.ToLower(name)] = value, value
	}
	return env
}

// networkEnv returns the network variables of a command's environment.
func networkEnv(c Command) map[string]string {
	if c.Proxy == nil {
		return offlineEnv()
	}
	env := proxyEnv()
	if len(c.CACertificates) > 0 {
		maps.Copy(env, trustEnv(bundleTarget()))
	}
	return env
}

// trustEnv returns the variables that name the bundle for tools that ignore the system's bundle.
func trustEnv(bundle string) map[string]string {
	env := map[string]string{}
	for _, name := range []string{
		"SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "PIP_CERT", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "CARGO_HTTP_CAINFO",
	} {
		env[name] = bundle
	}
	return env
}

const (
	// systemBundle is the path that programs of most distributions use.
	systemBundle = "/etc/ssl/certs/ca-certificates.crt"
	// CertificatesPath is the path on other hosts, and in containers.
	CertificatesPath = "/run/sandbox/ca-certificates.crt"
)

// bundleTarget is the path of the certificates that a command trusts.
func bundleTarget() string {
	if info, err := os.Lstat(systemBundle); err == nil && info.Mode().IsRegular() {
		return systemBundle
	}
	return CertificatesPath
}

// hostBundles are the paths of the certificate authorities that hosts trust.
var hostBundles = []string{
	systemBundle, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// needsTrust reports whether a command trusts certificate authorities of its own.
func needsTrust(c Command) bool { return c.Proxy != nil && len(c.CACertificates) > 0 }

// trustMounts mounts the certificate authorities of the host and of the command at the path that
// the command uses.
func trustMounts(c Command) ([]mount, error) {
	if !needsTrust(c) {
		return nil, nil
	}
	data, err := TrustBundle(c.CACertificates)
	if err != nil {
		return nil, err
	}
	target := bundleTarget()
	if target == CertificatesPath {
		return []mount{{Kind: mountFile, Target: target, Data: data}}, nil
	}
	return []mount{{Kind: mountOver, Target: target, Data: data}}, nil
}

// TrustBundle returns the certificate authorities of the host and the given ones, in PEM.
func TrustBundle(certificates []byte) ([]byte, error) {
	var bundle []byte
	for _, path := range slices.Concat([]string{os.Getenv("SSL_CERT_FILE")}, hostBundles) {
		data, err := os.ReadFile(path)
		if err == nil {
			bundle = data
			break
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("sandbox: read this host's certificates: %w", err)
		}
	}
	return slices.Concat(bundle, []byte("\n"), certificates), nil
}
