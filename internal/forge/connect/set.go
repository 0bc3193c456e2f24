// Package connect finds the forge of a repository among those of the configuration, and connects to
// it.
package connect

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/config"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
	"github.com/rocketgpt/orchestrator/internal/forge/forgehttp"
	"github.com/rocketgpt/orchestrator/internal/forge/gitea"
	"github.com/rocketgpt/orchestrator/internal/forge/github"
	"github.com/rocketgpt/orchestrator/internal/forge/gitlab"
)

// Set is the forges of the configuration. It is safe for concurrent use.
type Set struct {
	forges []*configured // by name
}

// configured is a forge of the configuration.
type configured struct {
	name     string
	settings config.Forge
	url      *url.URL
	hosts    []string // further ones, in lower case
	getenv   func(string) string

	mu      sync.Mutex
	service forge.Service
}

// public are the forges that need no url, and the further hosts that they serve SSH at.
var public = map[forge.Kind]struct {
	url  string
	host string
}{
	forge.GitHub: {"https://github.com", "ssh.github.com"},
	forge.GitLab: {"https://gitlab.com", "altssh.gitlab.com"},
}

// New returns the forges of a valid configuration. It reads no credentials and sends nothing. getenv
// is usually os.Getenv.
func New(forges map[string]config.Forge, getenv func(string) string) (*Set, error) {
	set := &Set{}
	for _, name := range slices.Sorted(maps.Keys(forges)) {
		one := &configured{name: name, settings: forges[name], getenv: getenv}
		known := public[forge.Kind(one.settings.Kind)]
		address := cmp.Or(one.settings.URL, known.url)
		u, err := url.Parse(address)
		if err != nil || u.Host == "" {
			return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "the forge %s has no valid url", name)
		}
		one.url = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}
		for _, host := range one.settings.Hosts {
			one.hosts = append(one.hosts, strings.ToLower(host))
		}
		if address == known.url {
			one.hosts = append(one.hosts, known.host)
		}
		set.forges = append(set.forges, one)
	}
	return set, nil
}

// Names returns the names of the forges, sorted.
func (s *Set) Names() []string {
	var names []string
	for _, f := range s.forges {
		names = append(names, f.name)
	}
	return names
}

// Named returns a forge by its name in the configuration.
func (s *Set) Named(name string) (forge.Service, error) {
	for _, f := range s.forges {
		if f.name == name {
			return f.connect()
		}
	}
	return nil, s.notNamed(name)
}

func (s *Set) notNamed(name string) error {
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "no forge is named %q; the setting forges has: %s", name, cmp.Or(strings.Join(s.Names(), ", "), "none"))
}

// remote returns the address for git of a repository. Git uses no http: a forge whose API is reached by it
// has its repositories at the first of its further hosts, over https.
func (f *configured) remote(repo string) string {
	at := *f.url
	if at.Scheme == "http" && len(f.settings.Hosts) > 0 {
		at.Scheme, at.Host = "https", f.settings.Hosts[0]
	}
	return at.JoinPath(repo + ".git").String()
}

// Remote returns the address for git of a repository on a forge, without credentials.
func (s *Set) Remote(name, repo string) (string, error) {
	for _, f := range s.forges {
		if f.name != name {
			continue
		}
		if _, _, err := forge.SplitRepository(forge.Kind(f.settings.Kind), repo); err != nil {
			return "", err
		}
		return f.remote(repo), nil
	}
	return "", s.notNamed(name)
}

// pullRequestAddress matches the end of the address of a pull request.
var pullRequestAddress = regexp.MustCompile(`^(.+?)/(?:pull|pulls|-/merge_requests)/([1-9][0-9]{0,17})(?:[/?#].*)?$`)

// PullRequest returns the forge, the repository and the number of a pull request by its address for
// people.
func (s *Set) PullRequest(address string) (svc forge.Service, name, repo string, number int64, err error) {
	found := pullRequestAddress.FindStringSubmatch(strings.TrimSpace(address))
	if found == nil || !strings.HasPrefix(found[1], "http") {
		return nil, "", "", 0, fault.New(contract.ClassHuman, contract.CodeInvalidConfig, "%s is not the address of a pull request; expected one such as https://git.example.com/team/app/pulls/12", shown(address))
	}
	if number, err = strconv.ParseInt(found[2], 10, 64); err != nil {
		return nil, "", "", 0, err
	}
	svc, name, repo, err = s.For(found[1])
	return svc, name, repo, number, err
}

// Spelling returns the path of a repository as its forge spells it, by the address that the forge gives one of
// its pull requests. People spell it with another case, and the earlier path of a renamed repository still leads
// to it. If the address is not one of the forge, as when the forge does not know its own, it is the given path
// in lower case.
func (s *Set) Spelling(name, repo, pullRequest string) string {
	found := pullRequestAddress.FindStringSubmatch(pullRequest)
	if found != nil && strings.HasPrefix(found[1], "http") {
		if f, path, err := s.find(found[1]); err == nil && f.name == name {
			return path
		}
	}
	return strings.ToLower(repo)
}

// For returns the forge of a git remote, its name in the configuration and the repository's path on
// it. It sends nothing, but fails if the credentials are missing. Every error is a CONFIG_ERROR.
func (s *Set) For(address string) (svc forge.Service, name, repo string, err error) {
	f, repo, err := s.find(address)
	if err != nil {
		return nil, "", "", err
	}
	svc, err = f.connect()
	return svc, f.name, repo, err
}

// find returns the forge of a remote. The most specific match counts: a configured host with its
// port, then the longest path of a start page, then a host alone.
func (s *Set) find(address string) (*configured, string, error) {
	r, err := parseRemote(address)
	if err != nil {
		return nil, "", err
	}
	var found []*configured
	best := 0
	for _, f := range s.forges {
		switch got := f.match(r); {
		case got == 0 || got < best:
		case got > best:
			found, best = []*configured{f}, got
		default:
			found = append(found, f)
		}
	}
	switch len(found) {
	case 0:
		return nil, "", s.unknown(address, r)
	case 1:
	default:
		return nil, "", fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
			"the remote %s may belong to the forges %s and %s; add its host and port to hosts of one of them", shown(address), found[0].name, found[1].name)
	}
	repo := r.path
	if r.web {
		repo = strings.Trim(strings.TrimPrefix(repo, found[0].prefix()), "/")
	}
	if _, _, err := forge.SplitRepository(forge.Kind(found[0].settings.Kind), repo); err != nil {
		return nil, "", err
	}
	return found[0], repo, nil
}

// The ranks of matches.
const (
	byName = 1
	byURL  = 2 // and the length of the path
	byPort = 1 << 20
)

// match ranks how well a remote matches a forge; 0: not at all.
func (f *configured) match(r remote) int {
	prefix := f.prefix()
	if r.web && prefix != "" && r.path != prefix && !strings.HasPrefix(r.path, prefix+"/") {
		return 0
	}
	rank, scheme := 0, "ssh"
	if r.web {
		scheme = "https"
	}
	for _, host := range f.hosts {
		name, port, err := net.SplitHostPort(host)
		switch {
		case err != nil && strings.Trim(host, "[]") == r.host && (!r.web || r.port == ""):
			rank = max(rank, byName)
		case err == nil && name == r.host && (port == r.port || r.port == "" && slices.Contains(defaultPorts[scheme], port)):
			rank = byPort
		}
	}
	if strings.ToLower(f.url.Hostname()) != r.host {
		return rank
	}
	switch port := f.url.Port(); {
	case !r.web:
		return max(rank, byName)
	case port == r.port || r.port == "" && slices.Contains(defaultPorts["https"], port):
		return max(rank, byURL+len(prefix))
	}
	return rank
}

// prefix returns the path of the start page without slashes.
func (f *configured) prefix() string { return strings.Trim(f.url.Path, "/") }

// unknown returns the error for a remote that no forge has.
func (s *Set) unknown(address string, r remote) error {
	host := r.host
	if r.port != "" {
		host = net.JoinHostPort(r.host, r.port)
	}
	known := "none are configured"
	if names := s.Names(); len(names) > 0 {
		known = "configured: " + strings.Join(names, ", ")
	}
	example := fmt.Sprintf("forges: {NAME: {kind: gitea, url: \"https://%s\", token_env: FORGE_TOKEN}} (kind: github, gitlab or gitea)", host)
	switch host {
	case "github.com", "ssh.github.com":
		example = "forges: {github: {kind: github, token_env: GITHUB_TOKEN}}"
	case "gitlab.com", "altssh.gitlab.com":
		example = "forges: {gitlab: {kind: gitlab, token_env: GITLAB_TOKEN}}"
	}
	return fault.New(contract.ClassConfig, contract.CodeInvalidConfig,
		"the remote %s belongs to none of the forges (%s); add its forge to the configuration, such as %s, or add %s to hosts of a forge that also serves it", shown(address), known, example, host)
}

// clients connect to forges by their kind.
var clients = map[forge.Kind]func(forgehttp.Options, config.ForgeApp) (forge.Service, error){
	forge.Gitea:  func(o forgehttp.Options, _ config.ForgeApp) (forge.Service, error) { return gitea.New(o) },
	forge.GitHub: openGitHub,
	forge.GitLab: func(o forgehttp.Options, _ config.ForgeApp) (forge.Service, error) { return gitlab.New(o) },
}

func openGitHub(o forgehttp.Options, app config.ForgeApp) (forge.Service, error) {
	if app == (config.ForgeApp{}) {
		return github.New(o)
	}
	return github.NewApp(o, github.App{ID: app.ID, Installation: app.Installation, KeyFile: app.KeyFile})
}

// Close closes the connections that are not in use.
func (s *Set) Close() {
	for _, f := range s.forges {
		f.mu.Lock()
		if closer, ok := f.service.(interface{ Close() }); ok {
			closer.Close()
		}
		f.mu.Unlock()
	}
}

// connect returns the forge's service, which is made once.
func (f *configured) connect() (forge.Service, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.service != nil {
		return f.service, nil
	}
	token := func() (string, error) { return f.settings.Token(f.getenv) }
	if f.settings.App == (config.ForgeApp{}) {
		if _, err := token(); err != nil {
			return nil, fault.New(contract.ClassConfig, contract.CodeUnauthorized,
				"the forge %s (%s) cannot be used: %s; set forges.%s.token_env or token_file", f.name, f.url, err, f.name)
		}
	}
	kind := forge.Kind(f.settings.Kind)
	open := clients[kind]
	if open == nil {
		return nil, fault.New(contract.ClassConfig, contract.CodeInvalidConfig, "the forge %s has the unknown kind %q", f.name, kind)
	}
	service, err := open(forgehttp.Options{
		Name: f.name, Kind: kind, URL: f.url, Token: token, Timeout: cmp.Or(f.settings.Timeout, config.DefaultForgeTimeout),
	}, f.settings.App)
	if err != nil {
		return nil, err
	}
	f.service = service
	return service, nil
}
