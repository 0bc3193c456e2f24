package modelclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/model"
	"github.com/rocketgpt/orchestrator/internal/modelclient/wire"
)

// probeTimeout limits a probe, because a user waits for it.
const probeTimeout = 10 * time.Second

// Probe checks, without spending a token, whether a provider can be reached and accepts its key: it
// requests the list of models. An INFRA_ERROR means that the provider cannot be reached, a
// CONFIG_ERROR states what to set; messages contain the provider, its base URL and the source of
// the key. A provider that responds but is busy (HTTP 429) is healthy.
func Probe(ctx context.Context, p model.Provider) error {
	client, closeIdle := newHTTPClient(nil)
	defer closeIdle()
	return probe(ctx, client, p, os.Getenv)
}

func unknownProvider(name string) error {
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "model provider %q not found; configure it under models.providers", name)
}

func probe(ctx context.Context, client *http.Client, p model.Provider, getenv func(string) string) error {
	if err := p.Check(); err != nil {
		return err
	}
	p = p.WithDefaults()
	key, err := p.Key(getenv)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	path := "/models"
	if p.Kind == model.KindOpenRouter { // its list of models is public
		path = "/key"
	}
	status, err := ask(ctx, client, p, key, path)
	if err == nil && status == http.StatusNotFound && path != "/models" {
		status, err = ask(ctx, client, p, key, "/models")
	}
	who := fmt.Sprintf("model provider %s (%s)", p.Name, p.Address())
	if err != nil {
		return unreachable(ctx, err, newScrubber(p, key), who)
	}
	return probed(p, who, status)
}

// ask makes one request and returns its status.
func ask(ctx context.Context, client *http.Client, p model.Provider, key, path string) (int, error) {
	base := strings.TrimSuffix(p.BaseURL, "/")
	if p.Kind == model.KindGemini {
		address, version := wire.GeminiAddress(base)
		base = address + "/" + version
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, http.NoBody)
	if err != nil {
		return 0, err
	}
	req.Header.Set("User-Agent", wire.UserAgent)
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	switch {
	case key == "":
	case p.Kind == model.KindAzure:
		req.Header.Del("Authorization")
		req.Header.Set("Api-Key", key)
	case p.Kind == model.KindAnthropic:
		req.Header.Del("Authorization")
		req.Header.Set("X-Api-Key", key)
		req.Header.Set("Anthropic-Version", "2023-06-01")
	case p.Kind == model.KindGemini:
		req.Header.Del("Authorization")
		req.Header.Set("X-Goog-Api-Key", key)
	}
	for name, value := range p.Headers {
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if resp.StatusCode == http.StatusBadRequest && fault.OfHTTP(resp.StatusCode, body).Code == contract.CodeUnauthorized {
		return http.StatusUnauthorized, nil // Gemini
	}
	return resp.StatusCode, nil
}

func unreachable(ctx context.Context, err error, scrub *scrubber, who string) error {
	if errors.Is(context.Cause(ctx), context.Canceled) {
		return fault.Wrap(context.Canceled, contract.ClassInfra, contract.CodeCancelled, "the probe of %s was cancelled", who)
	}
	return fault.Wrap(scrub.cause(err), contract.ClassInfra, contract.CodeUnavailable,
		"%s cannot be reached; check that it is running and that its base_url is correct", who)
}

// probed judges a probe's HTTP status.
func probed(p model.Provider, who string, status int) error {
	switch {
	case status >= 200 && status < 300, status == http.StatusTooManyRequests:
		return nil
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fault.New(contract.ClassConfig, contract.CodeUnauthorized, "%s rejected the API key (HTTP %d); the key comes from %s", who, status, p.KeySource())
	case status >= http.StatusInternalServerError && status != http.StatusNotImplemented:
		return fault.New(contract.ClassInfra, contract.CodeUnavailable, "%s is unavailable (HTTP %d)", who, status)
	case status < 400:
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "%s redirects to another address (HTTP %d); set base_url to the final address", who, status)
	case p.Kind != model.KindScripted && p.BaseURL != model.DefaultBaseURL(p.Kind):
		return nil // many compatible servers have no list of models; the first call will reveal problems
	default:
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "%s does not provide a list of models (HTTP %d); check base_url, which usually ends in /v1", who, status)
	}
}
