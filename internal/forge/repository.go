package forge

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

const (
	// maxRepository is the maximum length of a repository's path.
	maxRepository = 1000
	// maxGroups is the maximum number of groups above a project: GitLab allows 20.
	maxGroups = 20
)

// repositoryPart matches an owner, a group or a repository's name. No forge allows other
// characters. A hyphen at the beginning could be read as an option.
var repositoryPart = regexp.MustCompile(`^[A-Za-z0-9_.][A-Za-z0-9_.-]*$`)

// SplitRepository splits a repository's path into its owner, on GitLab all groups, and its name. The
// parts can be inserted into a URL as they are. The error is a CONFIG_ERROR with CodeRepository.
func SplitRepository(kind Kind, repo string) (owner, name string, err error) {
	parts := strings.Split(repo, "/")
	valid := len(repo) <= maxRepository && len(parts) >= 2 && (len(parts) == 2 || kind == GitLab && len(parts) <= maxGroups+1)
	for _, part := range parts {
		valid = valid && repositoryPart.MatchString(part) && part != "." && part != ".."
	}
	if !valid {
		form := "owner/name"
		if kind == GitLab {
			form = "group/name, with any number of groups"
		}
		return "", "", fault.New(contract.ClassConfig, contract.CodeRepository,
			"%q is not the path of a repository on a forge of kind %s; expected %s", fault.Clip(repo, maxShownRepository), kind, form)
	}
	last := len(parts) - 1
	return strings.Join(parts[:last], "/"), parts[last], nil
}

// maxShownRepository is the number of bytes of an invalid path that a message shows.
const maxShownRepository = 200

// commitPattern matches an object name of git, in full or shortened.
var commitPattern = regexp.MustCompile(`^[0-9a-fA-F]{7,64}$`)

// CheckCommit returns a CONFIG_ERROR with CodeBadRequest unless a text is the name of a commit, which
// can be inserted into a URL as it is.
func CheckCommit(commit string) error {
	if commitPattern.MatchString(commit) {
		return nil
	}
	return fault.New(contract.ClassConfig, contract.CodeBadRequest, "%q is not the name of a commit", fault.Clip(commit, maxShownRepository))
}

// maxBranch is the maximum length of a branch's name.
const maxBranch = 255

// CheckBranch returns a CONFIG_ERROR with CodeBadRequest unless git allows a branch's name. Its parts
// are never "." or "..", so that it cannot lead to another object in a URL.
func CheckBranch(branch string) error {
	valid := branch != "" && len(branch) <= maxBranch && !strings.HasPrefix(branch, "-") && branch != "@" &&
		!strings.ContainsAny(branch, " ~^:?*[\\") && !strings.Contains(branch, "..") && !strings.Contains(branch, "@{") &&
		!strings.HasSuffix(branch, ".") && !strings.ContainsFunc(branch, unicode.IsControl) && utf8.ValidString(branch)
	for part := range strings.SplitSeq(branch, "/") {
		valid = valid && part != "" && !strings.HasPrefix(part, ".") && !strings.HasSuffix(part, ".lock")
	}
	if valid {
		return nil
	}
	return fault.New(contract.ClassConfig, contract.CodeBadRequest, "%q is not the name of a branch", fault.Clip(branch, maxShownRepository))
}

// Cut shortens a text to a number of characters, and marks that it did.
func Cut(text string, most int) string {
	runes := []rune(strings.ToValidUTF8(text, "�"))
	if len(runes) <= most {
		return string(runes)
	}
	return string(runes[:most-1]) + "…"
}
