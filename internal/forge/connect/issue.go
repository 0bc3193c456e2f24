package connect

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Issue is an issue on one of the forges.
type Issue struct {
	Service forge.Service
	Forge   string // its name in the configuration
	Repo    string // path on the forge
	Number  int64
	URL     string // for people, made from the forge's configured url
	Clone   string // address from which git clones the repository
}

// issuePath matches the path of an issue below that of its repository, in the forms of all forges.
var issuePath = regexp.MustCompile(`^(/.+?)(?:/-)?/(?:issues|work_items)/([1-9][0-9]{0,17})/?$`)

// Issue returns the issue that an address for people names, such as
// https://git.example.com/owner/name/issues/12. It sends nothing, but fails if the credentials are
// missing. Every error is a CONFIG_ERROR.
func (s *Set) Issue(address string) (Issue, error) {
	repository, number, err := parseIssue(address)
	if err != nil {
		return Issue{}, err
	}
	f, repo, err := s.find(repository)
	if err != nil {
		return Issue{}, err
	}
	service, err := f.connect()
	return Issue{
		Service: service, Forge: f.name, Repo: repo, Number: number, URL: f.issue(repo, number), Clone: f.remote(repo),
	}, err
}

// IssueURL returns the address of an issue for people, made from the forge's configured url. Issue
// accepts it.
func (s *Set) IssueURL(name, repo string, number int64) (string, error) {
	for _, f := range s.forges {
		if f.name == name {
			return f.issue(repo, number), nil
		}
	}
	return "", s.notNamed(name)
}

func (f *configured) issue(repo string, number int64) string {
	below := ""
	if forge.Kind(f.settings.Kind) == forge.GitLab {
		below = "/-"
	}
	return fmt.Sprintf("%s/%s%s/issues/%d", f.url, repo, below, number)
}

// parseIssue splits the address of an issue into that of its repository and its number. What follows
// the number, such as that of a comment, is ignored.
func parseIssue(address string) (repository string, number int64, err error) {
	text := strings.TrimSpace(address)
	unprintable := strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) || r == '\\' })
	u, err := url.Parse(text)
	if err == nil && !unprintable && len(text) <= maxRemote && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" {
		if found := issuePath.FindStringSubmatch(u.EscapedPath()); found != nil {
			number, err = strconv.ParseInt(found[2], 10, 64)
			return u.Scheme + "://" + u.Host + found[1], number, err
		}
	}
	return "", 0, fault.New(contract.ClassConfig, contract.CodeRepository,
		"%s is not the address of an issue; expected one such as https://github.com/owner/name/issues/12", shown(text))
}
