package connect

import (
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

// remote is the address of a repository on a forge, taken apart.
type remote struct {
	web        bool   // http or https: its path begins with that of the forge's start page
	host, port string // in lower case; the port is empty if it is the default one
	path       string // without slashes at the ends and without .git
}

const (
	maxRemote      = 2048 // bytes
	maxShownRemote = 200
)

// defaultPorts are the ports that an address need not name. Those of http and https are the same
// here, because forges redirect one to the other.
var defaultPorts = map[string][]string{
	"http": {"", "80", "443"}, "https": {"", "80", "443"}, "ssh": {"", "22"}, "git": {"", "9418"},
}

// parseRemote takes apart an address in any form that git accepts: URLs, and host:path for SSH.
// Credentials in it are ignored, and do not occur in errors.
func parseRemote(address string) (remote, error) {
	text := strings.TrimSpace(address)
	switch {
	case text == "":
		return remote{}, invalid("the repository has no remote; set git.remote or add one with git remote add")
	case len(text) > maxRemote:
		return remote{}, invalid("the address of the remote is longer than %d bytes", maxRemote)
	case strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == '\\' }):
		return remote{}, invalid("the remote %s contains spaces, backslashes or control characters", shown(text))
	case strings.Contains(text, "://"):
		return parseURL(text)
	case strings.Contains(text, "::"):
		if !strings.HasPrefix(text, "[") && !strings.Contains(text, "@[") {
			return remote{}, invalid("the transport of the remote %s is not allowed; use https or ssh", shown(text))
		}
	}
	return parseShort(text)
}

func parseURL(text string) (remote, error) {
	u, err := url.Parse(text)
	if err != nil {
		return remote{}, invalid("the remote %s is not a valid URL", shown(text))
	}
	scheme := strings.ToLower(u.Scheme)
	switch scheme {
	case "git+ssh", "ssh+git":
		scheme = "ssh"
	case "http", "https", "ssh", "git":
	case "file":
		return remote{}, local(text)
	default:
		return remote{}, invalid("the transport of the remote %s is not allowed; use https or ssh", shown(text))
	}
	if u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "" {
		return remote{}, invalid("the remote %s is not the address of a repository: it has no host, or has a query or fragment", shown(text))
	}
	r := remote{web: scheme == "http" || scheme == "https", host: strings.ToLower(u.Hostname()), port: u.Port(), path: trimPath(u.Path)}
	if slices.Contains(defaultPorts[scheme], r.port) {
		r.port = ""
	}
	return r, nil
}

// parseShort takes apart [user@]host:path. As in git, a slash before the colon means a local path.
// The host may be in brackets, and may then have a port.
func parseShort(text string) (remote, error) {
	rest := text
	if at := strings.IndexByte(rest, '@'); at >= 0 && !strings.ContainsAny(rest[:at], "/:[") {
		rest = rest[at+1:]
	}
	var host, port, path string
	var ok bool
	if inner, bracketed := strings.CutPrefix(rest, "["); bracketed {
		host, path, ok = strings.Cut(inner, "]:")
		if at := strings.IndexByte(host, '@'); at >= 0 {
			host = host[at+1:]
		}
		if h, p, err := net.SplitHostPort(host); err == nil && net.ParseIP(host) == nil {
			host, port = h, p
		}
	} else {
		host, path, ok = strings.Cut(rest, ":")
	}
	if !ok || strings.Contains(host, "/") || len(host) == 1 && strings.HasPrefix(text, host) { // C:… is a drive
		return remote{}, local(text)
	}
	if host == "" || strings.HasPrefix(host, "-") || strings.ContainsAny(host, "@?#") {
		return remote{}, invalid("the remote %s has no valid host", shown(text))
	}
	if port == "22" {
		port = ""
	}
	return remote{host: strings.ToLower(host), port: port, path: trimPath(path)}, nil
}

// trimPath removes what git ignores: slashes at the ends, and .git.
func trimPath(path string) string {
	path = strings.TrimRight(strings.TrimLeft(path, "/"), "/")
	return strings.TrimRight(strings.TrimSuffix(path, ".git"), "/")
}

func invalid(format string, args ...any) error {
	return fault.New(contract.ClassConfig, contract.CodeRepository, format, args...)
}

func local(text string) error {
	return invalid("the remote %s is a directory, not a repository on a forge; pull requests need a remote on a forge", shown(text))
}

// shown returns an address for messages: without credentials, and on one line.
func shown(text string) string {
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		end := strings.IndexAny(rest, "/?#")
		if end < 0 {
			end = len(rest)
		}
		if at := strings.LastIndexByte(rest[:end], '@'); at >= 0 {
			rest = rest[at+1:]
		}
		if query := strings.IndexAny(rest, "?#"); query >= 0 {
			rest = rest[:query]
		}
		text = scheme + "://" + rest
	} else if host, _, _ := strings.Cut(text, "/"); strings.Contains(host, "@") {
		text = text[strings.LastIndexByte(host, '@')+1:]
	}
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '�'
		}
		return r
	}, strings.ToValidUTF8(text, "�"))
	return fault.Clip(text, maxShownRemote)
}
