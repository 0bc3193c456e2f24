package releases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
	"github.com/rocketgpt/orchestrator/internal/version"
)

// errMissing says that a registry does not have something.
var errMissing = errors.New("not found")

// errTotal says that the time for all lookups was over.
var errTotal = errors.New("the time for all lookups was over, gate.dependencies.total")

// maxRedirects is the number of redirects that are followed, within the same host.
const maxRedirects = 3

// sameHost follows few redirects, and only those that stay on the host.
func sameHost(to *http.Request, via []*http.Request) error {
	from := via[0].URL
	if len(via) > maxRedirects || to.URL.Host != from.Host || to.URL.Scheme != from.Scheme {
		return http.ErrUseLastResponse
	}
	return nil
}

// request makes requests to one registry.
type request struct {
	ecosystem dependencies.Ecosystem
	base      *url.URL
	http      *http.Client
	timeout   time.Duration
}

// ask asks the registry of an ecosystem about versions of a package. An error says why there is no answer.
func (c *Client) ask(ctx context.Context, e dependencies.Ecosystem, name string, versions []string) (answer, error) {
	r, ok := c.registries[e]
	if !ok || !validName(e, name) {
		return answer{}, errors.New("its registry cannot be asked")
	}
	found, err := r.ask(ctx, request{e, r.base, c.http, c.limits.Timeout}, name, versions)
	if errors.Is(err, errMissing) {
		return answer{missing: true}, nil
	}
	return found, err
}

// Probe asks a registry about a package that it has if it is one. An error says why it is not usable.
func (c *Client) Probe(ctx context.Context, e dependencies.Ecosystem) error {
	found, err := c.ask(ctx, e, wellKnown[e], nil)
	switch {
	case err != nil:
		return err
	case found.missing:
		return fmt.Errorf("it does not have the package %s", wellKnown[e])
	case found.first.IsZero():
		return fmt.Errorf("it does not say when the package %s was published", wellKnown[e])
	}
	return nil
}

// Ecosystems returns the ecosystems of the registries that are asked, sorted.
func (c *Client) Ecosystems() []dependencies.Ecosystem { return slices.Sorted(maps.Keys(c.registries)) }

// get requests a path below the registry, whose parts are escaped, and reads the answer. A request that
// the registry does not answer is repeated once.
func (r request) get(ctx context.Context, path string, read func(io.Reader) error) error {
	return r.repeat(func() error {
		return r.do(ctx, http.MethodGet, path, func(answer *http.Response) error {
			limited := &limitedReader{in: answer.Body, left: MaxAnswer}
			err := read(limited)
			switch {
			case limited.left < 0:
				return fmt.Errorf("the answer of %s is larger than %d MiB", r.base.Host, MaxAnswer>>20)
			case err != nil && ctx.Err() == nil:
				return fmt.Errorf("the answer of %s cannot be read", r.base.Host)
			}
			return err
		})
	})
}

// modified returns when a file of the registry was last modified; zero if the registry does not say.
func (r request) modified(ctx context.Context, path string) (at time.Time, err error) {
	err = r.repeat(func() error {
		return r.do(ctx, http.MethodHead, path, func(answer *http.Response) error {
			at, _ = http.ParseTime(answer.Header.Get("Last-Modified")) // zero: it does not say
			return nil
		})
	})
	return at, err
}

// temporary is a failure after which a repeat may succeed.
type temporary struct{ error }

func (r request) repeat(do func() error) (err error) {
	for range tries {
		var again temporary
		if err = do(); !errors.As(err, &again) {
			return err
		}
	}
	return err
}

func (r request) do(ctx context.Context, method, path string, read func(*http.Response) error) error {
	host := r.base.Host
	address, err := url.Parse(r.base.String() + "/" + path)
	if err != nil || address.Host != host || address.Scheme != r.base.Scheme || !strings.HasPrefix(address.Path, r.base.Path+"/") || strings.Contains("/"+address.Path+"/", "/../") {
		return errors.New("its name cannot be part of a URL")
	}
	within, cancel := context.WithTimeout(ctx, r.timeout)
	defer cancel()
	question, err := http.NewRequestWithContext(within, method, address.String(), nil)
	if err != nil {
		return errors.New("its name cannot be part of a URL")
	}
	question.Header.Set("User-Agent", "rgpt/"+version.Release)
	answer, err := r.http.Do(question)
	if err != nil {
		return r.failed(ctx, within)
	}
	defer answer.Body.Close()
	switch code := answer.StatusCode; {
	case code == http.StatusNotFound || code == http.StatusGone:
		return errMissing
	case code >= http.StatusInternalServerError:
		return temporary{fmt.Errorf("%s answered %d", host, code)}
	case code != http.StatusOK:
		return fmt.Errorf("%s answered %d", host, code)
	}
	if err := read(answer); err != nil {
		if within.Err() != nil {
			return r.failed(ctx, within)
		}
		return err
	}
	return nil
}

// failed returns why a request was not answered, without the text of the error, which depends on the host.
func (r request) failed(ctx, within context.Context) error {
	switch {
	case ctx.Err() != nil:
		return errTotal
	case within.Err() != nil:
		return fmt.Errorf("%s did not answer within %s, gate.dependencies.timeout", r.base.Host, r.timeout)
	}
	return temporary{fmt.Errorf("%s cannot be reached", r.base.Host)}
}

// limitedReader fails after a number of bytes, and tells that from an end.
type limitedReader struct {
	in   io.Reader
	left int64
}

func (l *limitedReader) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := l.in.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}
