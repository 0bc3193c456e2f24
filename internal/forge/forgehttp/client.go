// Package forgehttp is the HTTP side of all clients of forges: credentials, limits of time and size,
// redirects, conditional requests, and errors with a class. The clients' libraries use its
// http.Client, in which every response that is not a success is a *StatusError, and pass the errors
// that they return to Explain.
package forgehttp

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/version"
)

// Limits of requests.
const (
	// MaxBody is the maximum size of a response.
	MaxBody = 16 << 20
	// MaxLog is the number of bytes of a log that are read, of which the last are kept.
	MaxLog = 256 << 20
	// maxErrorBody is the number of bytes of a failed response that are read.
	maxErrorBody = 64 << 10
	// maxRedirects is the maximum number of redirects of a request.
	maxRedirects = 5
	// maxHeader is the maximum size of the headers of a response.
	maxHeader = 256 << 10
	dialTime  = 10 * time.Second
	idleTime  = 90 * time.Second
	idleConns = 16
)

// Options describe a forge and the credentials for it.
type Options struct {
	Name string // the forge's name in the configuration
	Kind forge.Kind
	URL  *url.URL // of its start page
	// Token returns the access token. It is called for each request, so that a token may be replaced.
	Token func() (string, error)
	// Authorize adds the credentials to a request, in place of Token. It is called only for requests
	// to the forge's API.
	Authorize func(*http.Request) error
	// Rejected is called, if it is set, when the API has refused a request's credentials.
	Rejected func(*http.Request)
	// Timeout is the maximum duration of a request, with its redirects and the response's body.
	Timeout time.Duration
	// Transport is what sends requests; nil: an http.Transport.
	Transport http.RoundTripper
}

// Static returns a token that never changes, as Options.Token.
func Static(token string) func() (string, error) {
	return func() (string, error) { return token, nil }
}

// Client sends requests to one forge. It is safe for concurrent use.
type Client struct {
	opts  Options
	api   *url.URL
	http  *http.Client
	cache *cache
	close func()
	used  atomic.Pointer[string] // the last token that was sent, to keep it out of messages
}

// New returns a client. It sends nothing yet.
func New(o Options) *Client {
	c := &Client{opts: o, api: apiURL(o.Kind, o.URL), cache: newCache(), close: func() {}}
	if o.Transport == nil {
		own := &http.Transport{
			Proxy:       http.ProxyFromEnvironment,
			DialContext: (&net.Dialer{Timeout: dialTime}).DialContext, TLSHandshakeTimeout: dialTime,
			ForceAttemptHTTP2: true, MaxIdleConnsPerHost: idleConns, IdleConnTimeout: idleTime, MaxResponseHeaderBytes: maxHeader,
		}
		c.opts.Transport, c.close = own, own.CloseIdleConnections
	}
	c.http = &http.Client{Transport: &transport{Client: c}, Timeout: o.Timeout, CheckRedirect: c.checkRedirect}
	return c
}

// apiURL returns the base of the API of a forge, which ends in a slash.
func apiURL(kind forge.Kind, site *url.URL) *url.URL {
	host := strings.ToLower(site.Hostname())
	switch {
	case kind == forge.GitHub && (host == "github.com" || host == "www.github.com"):
		return &url.URL{Scheme: "https", Host: "api.github.com", Path: "/"}
	case kind == forge.GitHub && strings.HasSuffix(host, ".ghe.com"):
		return &url.URL{Scheme: "https", Host: "api." + site.Host, Path: "/"}
	}
	path := map[forge.Kind]string{forge.GitHub: "/api/v3/", forge.GitLab: "/api/v4/", forge.Gitea: "/api/v1/"}[kind]
	return &url.URL{Scheme: site.Scheme, Host: site.Host, Path: strings.TrimRight(site.Path, "/") + path}
}

// HTTP returns the client for a forge's library.
func (c *Client) HTTP() *http.Client { return c.http }

// Plain returns an http.Client for requests that have their own credentials, such as those with which
// Options.Authorize gets a token. It sends them only to the forge's API.
func (c *Client) Plain() *http.Client {
	return &http.Client{Transport: &transport{Client: c, plain: true}, Timeout: c.opts.Timeout, CheckRedirect: c.checkRedirect}
}

// Kind returns the forge's kind.
func (c *Client) Kind() forge.Kind { return c.opts.Kind }

// Site returns the URL of the forge's start page, without a slash at its end.
func (c *Client) Site() string { return strings.TrimRight(c.opts.URL.String(), "/") }

// API returns the URL of the forge's API, which ends in a slash.
func (c *Client) API() *url.URL {
	u := *c.api
	return &u
}

// Close closes the connections that are not in use.
func (c *Client) Close() { c.close() }

// String names the forge for messages.
func (c *Client) String() string { return c.opts.Name + " (" + c.Site() + ")" }

// owns reports whether a URL belongs to the forge's API, and may receive its credentials.
func (c *Client) owns(u *url.URL) bool {
	return u.Scheme == c.api.Scheme && strings.EqualFold(u.Host, c.api.Host)
}

// elsewhere marks requests whose response may come from another host, such as a store of logs.
type elsewhere struct{}

// checkRedirect follows redirects within the API's host. Those of logs may also lead to other hosts,
// which receive no credentials, because only the transport adds them.
func (c *Client) checkRedirect(req *http.Request, via []*http.Request) error {
	last := via[len(via)-1].URL
	anywhere := req.Context().Value(elsewhere{}) != nil && req.Method == http.MethodGet && (req.URL.Scheme == "https" || last.Scheme == "http")
	if len(via) > maxRedirects || !c.owns(req.URL) && !anywhere {
		return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"it redirects to %s, which is not followed; check the forge's url", (&url.URL{Scheme: req.URL.Scheme, Host: req.URL.Host}).String())
	}
	return nil
}

// authorize adds the credentials.
func (c *Client) authorize(req *http.Request) error {
	err := c.addCredentials(req)
	if _, token, ok := strings.Cut(req.Header.Get("Authorization"), " "); ok {
		c.used.Store(&token)
	}
	return err
}

func (c *Client) addCredentials(req *http.Request) error {
	if c.opts.Authorize != nil {
		return c.opts.Authorize(req)
	}
	token, err := c.token()
	if err != nil {
		return err
	}
	switch c.opts.Kind {
	case forge.Gitea:
		req.Header.Set("Authorization", "token "+token)
	default:
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return nil
}

func (c *Client) token() (string, error) {
	if c.opts.Token == nil {
		return "", noCredentials("no credentials are configured")
	}
	token, err := c.opts.Token()
	if err != nil {
		return "", noCredentials(err.Error())
	}
	return token, nil
}

func noCredentials(why string) error {
	return fault.New(contract.ClassConfig, contract.CodeUnauthorized, "%s; set token_env or token_file of the forge", why)
}

// userAgent names this program in requests.
var userAgent = "rocketgpt-orchestrator/" + version.Version

// Tail reads a text, such as a log, and returns its last most bytes. The text may be at another host
// to which the forge redirects.
func (c *Client) Tail(ctx context.Context, address *url.URL, most int) (string, error) {
	req, err := http.NewRequestWithContext(context.WithValue(ctx, elsewhere{}, true), http.MethodGet, address.String(), nil)
	if err != nil {
		return "", err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	return tail(resp.Body, most)
}
