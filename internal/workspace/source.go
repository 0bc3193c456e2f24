package workspace

import (
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// source is the address of a repository.
type source struct {
	address string // as passed to git
	local   bool   // a path on this host
	allow   string // the protocol that git may use for it
}

// remote reports whether a program other than git itself is contacted: ssh or a web
// server, perhaps on another host.
func (s source) remote() bool { return s.allow != "file" }

// contacted returns the address if another program than git is contacted for it, otherwise "".
func (s source) contacted() string {
	if !s.remote() {
		return ""
	}
	return s.address
}

// String returns the address without credentials, for messages.
func (s source) String() string { return Redact(s.address) }

var scpLike = regexp.MustCompile(`^([A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9][A-Za-z0-9.-]*:[^:]`)

// parseSource accepts absolute paths, file:, ssh: and https: URLs and the short form of ssh
// (host:path). It rejects everything else, in particular ext:: and other transports that name a
// program.
func parseSource(address string) (source, error) {
	switch {
	case address == "":
		return source{}, repoFault("no repository specified; specify an absolute path or a URL (https or ssh)")
	case strings.ContainsAny(address, "\x00\n\r") || strings.HasPrefix(address, "-"):
		return source{}, repoFault("%q is not a repository; specify an absolute path or a URL (https or ssh)", Redact(address))
	case filepath.IsAbs(address):
		return source{address: filepath.Clean(address), local: true, allow: "file"}, nil
	case strings.Contains(address, "://"):
		return parseURL(address)
	case strings.Contains(address, "::"):
		return source{}, repoFault("the transport of %q is not allowed; specify an absolute path or a URL (https or ssh)", Redact(address))
	case scpLike.MatchString(address):
		return source{address: address, allow: "ssh"}, nil
	default:
		return source{}, repoFault("%q is neither an absolute path nor a URL (https or ssh)", Redact(address))
	}
}

func parseURL(address string) (source, error) {
	u, err := url.Parse(address)
	if err != nil {
		return source{}, repoFault("%q is not a valid URL", Redact(address))
	}
	_, hasPassword := u.User.Password()
	switch u.Scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" || !filepath.IsAbs(u.Path) {
			return source{}, repoFault("%q does not refer to a file on this host", Redact(address))
		}
		return source{address: "file://" + u.Path, allow: "file"}, nil
	case "ssh", "git+ssh", "ssh+git":
		if hasPassword {
			return source{}, credentialsFault(address)
		}
	case "https":
		// A run's repository is stored and displayed, and a token in it would be as well.
		if u.User != nil {
			return source{}, credentialsFault(address)
		}
	default:
		return source{}, repoFault("the transport %q of %s is not allowed; use https or ssh", u.Scheme, Redact(address))
	}
	if u.Hostname() == "" || strings.HasPrefix(u.Hostname(), "-") {
		return source{}, repoFault("%q has no host", Redact(address))
	}
	allow := "ssh"
	if u.Scheme == "https" {
		allow = "https"
	}
	return source{address: address, allow: allow}, nil
}

func credentialsFault(address string) error {
	return repoFault("the URL %s contains credentials, which would be stored with the run; remove them and provide them to the worker (an ssh key, a .netrc file or GIT_ASKPASS)", Redact(address))
}
