package modelclient

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
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
	if err := wire.CheckCredentials(ctx, p, key); err != nil {
		return err
	}
	path := "/models"
	if p.Kind == model.KindOpenRouter { // its list of models is public
		path = "/key"
	}
	status, _, err := ask(ctx, client, p, key, path)
	if err == nil && status == http.StatusNotFound && path != "/models" {
		status, _, err = ask(ctx, client, p, key, "/models")
	}
	who := fmt.Sprintf("model provider %s (%s)", p.Name, p.Address())
	if err == nil && p.Kind.Cloud() && status < http.StatusInternalServerError {
		return nil // it has no list of models at this address; that it responds is all that is known
	}
	if err != nil {
		return unreachable(ctx, err, newScrubber(p, key), who)
	}
	return probed(p, who, status)
}

// maxModelList limits a provider's list of models, in bytes.
const maxModelList = 16 << 20

// ProbeModel checks, without spending a token, whether a provider has a model: it requests its
// description, or else the list of models. A CONFIG_ERROR with the code model_not_found means that the
// provider does not have it. Providers that do not say which models they have, or do not respond,
// cause no error: see Probe.
func ProbeModel(ctx context.Context, p model.Provider, name string) error {
	client, closeIdle := newHTTPClient(nil)
	defer closeIdle()
	return probeModel(ctx, client, p, name, os.Getenv)
}

func probeModel(ctx context.Context, client *http.Client, p model.Provider, name string, getenv func(string) string) error {
	p = p.WithDefaults()
	key, err := p.Key(getenv)
	if err != nil || p.Kind == model.KindAzure || p.Kind.Cloud() { // which list other names than they accept
		return nil // Probe reports it
	}
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	segments := strings.Split(name, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	status, _, err := ask(ctx, client, p, key, "/models/"+strings.Join(segments, "/"))
	if err != nil || status != http.StatusNotFound {
		return nil // Probe reports it
	}
	status, body, err := ask(ctx, client, p, key, "/models"+longList[p.Kind])
	if err != nil || status != http.StatusOK {
		return nil // Probe reports it
	}
	if names := namesIn(body); len(names) == 0 || lists(names, name) {
		return nil
	}
	return fault.New(contract.ClassConfig, contract.CodeModelNotFound, "model provider %s (%s) does not list the model %s; check its name, or choose another one", p.Name, p.Address(), fault.Clip(name, 100))
}

// longList has the parameters with which a provider lists all of its models at once.
var longList = map[model.Kind]string{model.KindAnthropic: "?limit=1000", model.KindGemini: "?pageSize=1000"}

// namesIn returns the models of a list; none if it is not the whole list.
func namesIn(body []byte) []string {
	var doc struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
		More   bool `json:"has_more"`
		Models []struct {
			Name string `json:"name"`
		} `json:"models"`
		Next string `json:"nextPageToken"`
	}
	if json.Unmarshal(body, &doc) != nil || doc.More || doc.Next != "" {
		return nil
	}
	var names []string
	for _, m := range doc.Data {
		names = append(names, m.ID)
	}
	for _, m := range doc.Models {
		names = append(names, strings.TrimPrefix(m.Name, "models/"))
	}
	return names
}

// lists reports whether a list has a model. Of a name with a variant, such as OpenRouter's :nitro, or a
// tag, such as Ollama's :latest, the list may have only the part before it.
func lists(names []string, name string) bool {
	base, _, _ := strings.Cut(name, ":")
	return slices.Contains(names, name) || slices.Contains(names, base) || slices.Contains(names, name+":latest")
}

// ask makes one request and returns the status and the body of the response.
func ask(ctx context.Context, client *http.Client, p model.Provider, key, path string) (int, []byte, error) {
	base := strings.TrimSuffix(p.BaseURL, "/")
	if p.Kind == model.KindGemini {
		address, version := wire.GeminiAddress(base)
		base = address + "/" + version
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, http.NoBody)
	if err != nil {
		return 0, nil, err
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
	case p.Kind.Cloud(): // whose credentials are not for this address
		req.Header.Del("Authorization")
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
		return 0, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	limit := int64(maxErrorBody)
	if resp.StatusCode == http.StatusOK {
		limit = maxModelList
	}
	body, _ := io.ReadAll(io.LimitReader(resp.Body, limit))
	if resp.StatusCode == http.StatusBadRequest && fault.OfHTTP(resp.StatusCode, body).Code == contract.CodeUnauthorized {
		return http.StatusUnauthorized, nil, nil // Gemini
	}
	return resp.StatusCode, body, nil
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
