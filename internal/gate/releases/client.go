// Package releases asks package registries when versions of packages were published, for the guard
// dependencies of the policy gate, which judges what they said.
//
// Names and versions come from changes and are hostile: they are sent only if their ecosystem allows
// them, and can change neither the host of a request nor the place of the registry on it. Answers are
// hostile, too: their size and time are limited, and redirects to other hosts are not followed.
package releases

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"golang.org/x/sync/errgroup"

	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// The limits that cannot be configured.
const (
	// MaxAnswer is the size of one answer, after decompression.
	MaxAnswer = 64 << 20
	// atOnce is the number of packages that are asked about at the same time.
	atOnce = 8
	// maxFailures is the number of failed packages after which a registry is not asked again for the
	// same change.
	maxFailures = 3
	// MaxVersions is the number of versions of one package that are looked up for one change.
	MaxVersions = 20
	// tries is how often a request is made that the registry does not answer.
	tries = 2
)

// Client asks registries, and keeps their answers in memory. It is safe for concurrent use.
type Client struct {
	registries map[dependencies.Ecosystem]registry
	private    []string // patterns
	goPrivate  []string // those for Go modules only
	limits     config.GateDependencies
	http       *http.Client
	answers    *cache
}

// ask asks a registry about versions of a package, whose name has been checked.
type ask func(ctx context.Context, r request, name string, versions []string) (answer, error)

// registry is the registry of an ecosystem.
type registry struct {
	base *url.URL
	ask  ask
}

// New returns a client as configured; nil if lookups are off. goPrivate are patterns of Go modules whose
// names are not sent either, separated by commas, as in the environment variable GOPRIVATE.
func New(cfg config.GateDependencies, goPrivate string) (*Client, error) {
	if !cfg.Lookup {
		return nil, nil
	}
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, fmt.Errorf("ask registries: the default HTTP transport is a %T", http.DefaultTransport)
	}
	transport = transport.Clone()
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = atOnce, atOnce
	c := &Client{
		registries: map[dependencies.Ecosystem]registry{}, limits: cfg, answers: newCache(),
		private: slices.Clone(cfg.Private), goPrivate: strings.FieldsFunc(goPrivate, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }),
		http: &http.Client{Transport: transport, CheckRedirect: sameHost},
	}
	for e, place := range places(cfg.Registries) {
		if place == "" {
			continue
		}
		base, err := url.Parse(strings.TrimRight(place, "/"))
		if err != nil {
			return nil, fmt.Errorf("read the URL of the registry of %s: %w", e, err)
		}
		c.registries[e] = registry{base, asks[e]}
	}
	return c, nil
}

// places are the URLs of registries by ecosystem.
func places(r config.GateRegistries) map[dependencies.Ecosystem]string {
	return map[dependencies.Ecosystem]string{
		dependencies.Go: r.Go, dependencies.NPM: r.NPM, dependencies.PyPI: r.PyPI, dependencies.Crates: r.Crates,
		dependencies.Maven: r.Maven, dependencies.RubyGems: r.RubyGems, dependencies.Composer: r.Composer, dependencies.NuGet: r.NuGet,
	}
}

// Close closes idle connections. A nil client has none.
func (c *Client) Close() {
	if c != nil {
		c.http.CloseIdleConnections()
	}
}

// Unasked gives a change the dependencies that it adds, all of them with StatusUnknown and a reason.
func Unasked(ctx context.Context, to *change.Change, reason string) error {
	added, err := dependencies.Added(ctx, *to)
	for i := range added {
		if added[i].Status == "" {
			added[i].Status, added[i].Reason = change.StatusUnknown, reason
		}
	}
	to.Dependencies, to.Asked = added, time.Now()
	return err
}

// Lookup gives a change the dependencies that it adds, with what their registries say. What cannot be
// looked up has StatusUnknown. An error means that the change cannot be read, or that the context ended.
func (c *Client) Lookup(ctx context.Context, to *change.Change) error {
	added, err := dependencies.Added(ctx, *to)
	if err != nil {
		return err
	}
	to.Dependencies, to.Asked = added, time.Now()
	groups, err := c.group(ctx, added)
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, c.limits.Total)
	defer cancel()
	failures := &failures{count: map[dependencies.Ecosystem]int{}}
	var work errgroup.Group
	work.SetLimit(atOnce)
	for _, g := range groups {
		work.Go(func() error {
			g.answer = c.answer(within, g.key, g.versions, failures)
			return nil
		})
	}
	_ = work.Wait() // failures are answers
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, g := range groups {
		for _, d := range g.dependencies {
			g.answer.describe(d)
		}
	}
	return nil
}

// Cached reports whether Lookup would send no request.
func (c *Client) Cached(ctx context.Context, of change.Change) (bool, error) {
	added, err := dependencies.Added(ctx, of)
	if err != nil {
		return false, err
	}
	groups, err := c.group(ctx, added)
	if err != nil {
		return false, err
	}
	for _, g := range groups {
		if _, ok := c.answers.get(g.key, g.versions); !ok {
			return false, nil
		}
	}
	return true, nil
}

// group are the versions of one package.
type group struct {
	key
	versions     []string
	has          map[string]bool // versions
	dependencies []*change.Dependency
	answer       answer
}

// group returns the packages that registries must be asked about, and gives the others their status.
func (c *Client) group(ctx context.Context, added []change.Dependency) ([]*group, error) {
	var all []*group
	byKey := map[key]*group{}
	for i := range added {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		d := &added[i]
		if d.Status != "" {
			continue
		}
		k := key{dependencies.Ecosystem(d.Ecosystem), d.Name}
		if d.Status, d.Reason = c.refuse(k, *d); d.Status != "" {
			continue
		}
		g := byKey[k]
		if g == nil {
			if len(all) == c.limits.Packages {
				d.Status, d.Reason = change.StatusUnknown, fmt.Sprintf("the change has more than %d packages to look up, gate.dependencies.packages", c.limits.Packages)
				continue
			}
			g = &group{key: k, has: map[string]bool{}}
			byKey[k], all = g, append(all, g)
		}
		if d.Version != "" && !g.has[d.Version] {
			if len(g.versions) == MaxVersions {
				d.Status, d.Reason = change.StatusUnknown, fmt.Sprintf("the change names more than %d versions of it", MaxVersions)
				continue
			}
			g.has[d.Version], g.versions = true, append(g.versions, d.Version)
		}
		g.dependencies = append(g.dependencies, d)
	}
	return all, nil
}

// refuse returns the status of a dependency that no registry is asked about; "": one is.
func (c *Client) refuse(k key, d change.Dependency) (status change.Status, reason string) {
	r, on := c.registries[k.ecosystem]
	switch {
	case c.isPrivate(k.ecosystem, k.name):
		return change.StatusPrivate, ""
	case !on:
		return change.StatusOff, ""
	case d.Source != "" && !dependencies.StandardRegistry(d.Source) && !onHost(d.Source, r.base):
		return change.StatusUnknown, "it comes from another registry, which is not asked"
	case !validName(k.ecosystem, k.name):
		return change.StatusUnknown, "its name is not valid in a registry"
	}
	return "", ""
}

func onHost(source string, base *url.URL) bool {
	u, err := url.Parse(source)
	return err == nil && strings.EqualFold(u.Host, base.Host)
}

// failures counts failed packages of a lookup by ecosystem.
type failures struct {
	sync.Mutex
	count map[dependencies.Ecosystem]int
}

func (f *failures) of(e dependencies.Ecosystem) int {
	f.Lock()
	defer f.Unlock()
	return f.count[e]
}

func (f *failures) add(e dependencies.Ecosystem) {
	f.Lock()
	defer f.Unlock()
	f.count[e]++
}

// answer returns what the registry says about versions of a package. A failure is an answer, too.
func (c *Client) answer(ctx context.Context, k key, versions []string, failures *failures) answer {
	if known, ok := c.answers.get(k, versions); ok {
		count(k, "cached")
		return known
	}
	if ctx.Err() != nil {
		count(k, "skipped")
		return answer{reason: errTotal.Error()}
	}
	if failures.of(k.ecosystem) >= maxFailures {
		count(k, "skipped")
		return answer{reason: "the registry failed to answer about other packages"}
	}
	found, err := c.ask(ctx, k.ecosystem, k.name, versions)
	switch {
	case err != nil:
		failures.add(k.ecosystem)
		count(k, "failed")
		found = answer{reason: err.Error()}
	case found.missing:
		count(k, "not_found")
	default:
		count(k, "found")
	}
	if ctx.Err() == nil { // otherwise, the package was not asked about in full
		c.answers.put(k, versions, found)
	}
	return found
}

func count(k key, result string) {
	telemetry.RegistryLookups.WithLabelValues(string(k.ecosystem), result).Inc()
}
