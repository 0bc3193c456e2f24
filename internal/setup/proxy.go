package setup

import (
	"os"

	"golang.org/x/net/http/httpproxy"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/proxy"
)

// Proxy creates the proxy that is the only network access of a worker's sandboxes. It reads the
// credentials of registries; a missing credential is an error.
func Proxy(cfg *config.Config) (*proxy.Proxy, error) {
	n := cfg.Environment.Network
	options := proxy.Options{AllowPrivate: n.AllowPrivate}
	for _, c := range n.Credentials {
		value, err := c.Value(os.Getenv)
		if err != nil {
			return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "environment.network.credentials is invalid")
		}
		options.Credentials = append(options.Credentials, proxy.Credential{Host: c.Host, Header: c.Header, Value: value})
	}
	if upstream := httpproxy.FromEnvironment(); upstream.HTTPSProxy != "" || upstream.HTTPProxy != "" {
		options.Upstream = upstream
	}
	p, err := proxy.New(options)
	if err != nil {
		return nil, fault.Wrap(err, contract.ClassConfig, contract.CodeInvalidConfig, "cannot create the sandbox proxy")
	}
	return p, nil
}
