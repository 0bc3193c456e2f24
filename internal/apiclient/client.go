// Package apiclient is a client of the HTTP API that server serves. It offers the operations of
// control over the network. Each command has its own key, so that a command whose response is lost
// is sent again but carried out only once.
package apiclient

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/apitypes"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
	"github.com/rocketgpt/orchestrator/internal/version"
)

// Limits of the client.
const (
	// MaxAttempts is the maximum number of attempts per request.
	MaxAttempts = 5
	// firstPause is the pause before the second attempt; each further pause is twice as long, minus
	// a random part.
	firstPause = 200 * time.Millisecond
	// busyPause is the pause before resending a request that the server is still carrying out: the
	// server has already waited for a while.
	busyPause = 2 * time.Second
	// connectTime limits the time to establish a connection.
	connectTime = 10 * time.Second
	// answerTime limits the time to a response: commands wait for their run, at most 30 s.
	answerTime = time.Minute
	// createTime limits the time to create a run: its repository may have to be fetched first.
	createTime = 15 * time.Minute
	// idleTimeout is how long a stream or a download may stall. Streams send a sign of life
	// every 15 s.
	idleTimeout = 45 * time.Second
	// maxAnswer is the maximum number of bytes read of a response.
	maxAnswer = 1 << 30
	// maxProblem is the maximum number of bytes read of a problem.
	maxProblem = 64 << 10
)

// Client is a client of one server. It is safe for concurrent use.
type Client struct {
	base *url.URL
	http *http.Client
	warn func(string)
	once sync.Once
}

// New returns a client of the server at an http or https address. A user and password in the
// address are sent to the server as basic authentication but never shown. warn is called once if
// the server has a different major version.
func New(address string, warn func(string)) (*Client, error) {
	u, err := url.Parse(address) // its error may contain a password
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, wrongAddress("expected a URL such as http://localhost:8080")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, wrongAddress("the scheme must be http or https")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, wrongAddress("a query or fragment is not allowed")
	}
	if password, ok := u.User.Password(); ok {
		telemetry.RegisterSecret(password)
	}
	return &Client{base: u, warn: warn, http: &http.Client{
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: connectTime}).DialContext,
			TLSHandshakeTimeout: connectTime, ForceAttemptHTTP2: true, IdleConnTimeout: answerTime, MaxIdleConnsPerHost: 4,
		},
		// Redirects are not followed: the user chooses the server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func wrongAddress(why string) error {
	return fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "invalid server address: %s (--server, RGPT_SERVER)", why)
}

// Close closes connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Address returns the server's address without its secrets.
func (c *Client) Address() string {
	u := *c.base
	u.User = nil
	return strings.TrimSuffix(u.String(), "/")
}

// call is one request to the server.
type call struct {
	method string
	path   []string // below the server's address
	query  url.Values
	key    string // idempotency key of a call that changes something
	body   any
	time   time.Duration // limit for the response; 0 means answerTime
	silent bool          // its response has no content
	known  *bool         // set if the response to the first attempt is a repeated one; may be nil
}

func read(path ...string) call { return call{method: http.MethodGet, path: path} }

// command returns a call that changes something, with its own key.
func command(body any, path ...string) call {
	return call{method: http.MethodPost, path: path, body: body, key: uuid.NewString()}
}

func runPath(id int64, rest ...string) []string {
	return append([]string{"api", "runs", fmt.Sprint(id)}, rest...)
}

// timeout returns the time limit for the response to a call.
func (r call) timeout() time.Duration { return cmp.Or(r.time, answerTime) }

// ask makes a call and reads its response. Network failures and temporary failures of the server
// are retried, up to MaxAttempts attempts in total: the key makes a resent command count once. If a
// command is still being carried out after the response to an earlier attempt was lost, ask waits
// for it until the call's timeout.
func ask[T any](ctx context.Context, c *Client, r call) (out T, err error) {
	var lost bool // the response to a command that may have been carried out
	began := time.Now()
	for try, pause := 1, firstPause; ; try, pause = try+1, 2*pause {
		var raw []byte
		if raw, err = c.attempt(ctx, r); err == nil {
			if r.silent {
				return out, nil
			}
			if err = json.Unmarshal(raw, &out); err != nil {
				err = c.notThisAPI("its response does not match the rgpt API")
			}
			return out, err
		}
		var again retriable
		if !errors.As(err, &again) || !again.busy && try == MaxAttempts || again.busy && time.Since(began) > r.timeout() {
			return out, c.explainRefusal(err, r, lost)
		}
		lost, r.known = lost || again.sent, nil // from now on a repeated response may belong to this very call
		if again.busy {
			try, pause = try-1, pause/2 // this does not count as an attempt
			if wait(ctx, busyPause) != nil {
				return out, err
			}
			continue
		}
		if wait(ctx, pause/2+rand.N(pause/2)) != nil {
			return out, err
		}
	}
}

// wait waits for the given time or until the context ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// retriable is an error after which another attempt may succeed.
type retriable struct {
	error
	sent bool // the request may have reached the server
	busy bool // the request is being carried out
}

func (r retriable) Unwrap() error { return r.error }

// explainRefusal adds a note to the rejection of a command if the response to an earlier attempt
// was lost: that attempt may be the reason.
func (c *Client) explainRefusal(err error, r call, lost bool) error {
	f := fault.Of(err)
	if r.key == "" || !lost || f.Class != contract.ClassHuman {
		return err
	}
	return fault.New(f.Class, f.Code, "%s; an earlier attempt, whose response was lost, may have succeeded: check with rgpt run list or rgpt run inspect", f.Message)
}

// attempt makes a call once and returns the body of the response.
func (c *Client) attempt(ctx context.Context, r call) ([]byte, error) {
	most := r.timeout()
	limited, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	resp, err := c.send(limited, r, nil)
	if err == nil {
		defer resp.Body.Close()
		if r.known != nil {
			*r.known = resp.Header.Get(apitypes.ReplayedHeader) != ""
		}
		var raw []byte
		if raw, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer)); err == nil {
			return raw, nil
		}
		err = retriable{error: c.unreachable(err), sent: true}
	}
	if ctx.Err() == nil && limited.Err() != nil {
		return nil, fault.New(contract.ClassInfra, contract.CodeTimeout, "the server at %s did not respond within %s; it may still carry out the request", c.Address(), most)
	}
	return nil, err
}

// send makes a request and returns its successful response. The caller closes the body.
func (c *Client) send(ctx context.Context, r call, header http.Header) (*http.Response, error) {
	var content io.Reader = http.NoBody
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return nil, fmt.Errorf("encode the request as JSON: %w", err)
		}
		content = bytes.NewReader(raw)
	}
	to := c.base.JoinPath(r.path...)
	to.RawQuery = r.query.Encode()
	req, err := http.NewRequestWithContext(ctx, r.method, to.String(), content)
	if err != nil {
		return nil, wrongAddress("expected a URL such as http://localhost:8080")
	}
	maps.Copy(req.Header, header)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		req.Header.Set(apitypes.KeyHeader, r.key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		var dial *net.OpError
		never := errors.As(err, &dial) && dial.Op == "dial"
		return nil, retriable{error: c.unreachable(err), sent: !never}
	}
	c.checkVersion(resp.Header.Get(apitypes.VersionHeader))
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.problem(resp)
}

// unreachable returns the error for an unreachable server, with advice.
func (c *Client) unreachable(err error) error {
	var u *url.Error // its text contains the whole address
	if errors.As(err, &u) {
		err = u.Err
	}
	return fault.Wrap(err, contract.ClassInfra, contract.CodeUnavailable,
		"the server at %s is not responding; check that it is running (rgpt dev status, rgpt server) and that --server or RGPT_SERVER is correct", c.Address())
}

// notThisAPI returns the error for a service that is not this API.
func (c *Client) notThisAPI(what string) error {
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "the service at %s is not an rgpt server: %s; check --server or RGPT_SERVER", c.Address(), what)
}

// checkVersion warns once if the server has a different major version.
func (c *Client) checkVersion(server string) {
	theirs, ours := major(server), major(version.Version)
	if theirs == "" || ours == "" || theirs == ours {
		return
	}
	c.once.Do(func() {
		c.warn(fmt.Sprintf("the server at %s has version %s, but this client has version %s: commands may behave differently", c.Address(), server, version.Version))
	})
}

// major returns the major number of a version, or an empty string.
func major(text string) string {
	number, _, _ := strings.Cut(strings.TrimPrefix(text, "v"), ".")
	if number == "" || strings.Trim(number, "0123456789") != "" {
		return ""
	}
	return number
}
