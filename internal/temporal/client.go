// Package temporal provides the product's processes with access to Temporal: the client, the data
// converter, the limit on payload sizes, and the start of workflows.
package temporal

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/google/uuid"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"google.golang.org/grpc"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// connectTimeout is how long Connect waits for Temporal to respond.
const connectTimeout = 60 * time.Second

// Connect connects to Temporal, and waits up to connectTimeout for it to start. The interceptors see each request
// of the connection after the SDK's own.
func Connect(ctx context.Context, t config.Temporal, log *slog.Logger, interceptors ...grpc.UnaryClientInterceptor) (client.Client, error) {
	options := client.Options{HostPort: t.Address, Namespace: t.Namespace, Identity: Identity(), Logger: telemetry.TemporalLogger(log), DataConverter: Converter()}
	if t.TLS.Enabled {
		secure, err := tlsConfig(t.TLS)
		if err != nil {
			return nil, err
		}
		options.ConnectionOptions.TLS = secure
	}
	if t.APIKeyEnv != "" {
		options.Credentials = client.NewAPIKeyStaticCredentials(os.Getenv(t.APIKeyEnv))
	}
	tracing, err := telemetry.TracingInterceptor()
	if err != nil {
		return nil, err
	}
	if loopback(t.Address) {
		// Data that does not leave the machine is not worth compressing.
		options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	}
	options.Interceptors = []interceptor.ClientInterceptor{tracing, &clientInterceptor{}}
	options.ConnectionOptions.DialOptions = []grpc.DialOption{grpc.WithChainUnaryInterceptor(interceptors...)}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable,
			"Temporal at %s is not responding; check that it is running (rgpt dev status) and that temporal.address is correct", t.Address)
	}
	return c, nil
}

// loopback reports whether an address is on this machine.
func loopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || (ip != nil && ip.IsLoopback()))
}

func tlsConfig(t config.TemporalTLS) (*tls.Config, error) {
	out := &tls.Config{ServerName: t.ServerName, MinVersion: tls.VersionTLS12}
	if t.CAFile != "" {
		pem, err := os.ReadFile(t.CAFile)
		if err != nil {
			return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot read temporal.tls.ca_file")
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "temporal.tls.ca_file %s contains no certificate", t.CAFile)
		}
	}
	if t.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(t.CertFile, t.KeyFile)
		if err != nil {
			return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "temporal.tls.cert_file and key_file do not match")
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}

// Identity identifies this process among all workers in a human-readable form: host:pid:3f9a. A
// restarted process gets a new identity, even in a container, where host and pid are always the
// same.
func Identity() string { return identity() }

var identity = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "unknown"
	}
	const random = 4
	return fmt.Sprintf("%s:%d:%s", host, os.Getpid(), uuid.NewString()[:random])
})
