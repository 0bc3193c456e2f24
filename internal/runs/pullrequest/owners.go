package pullrequest

import (
	"bytes"
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/hmarr/codeowners"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
	"github.com/rocketgpt/orchestrator/internal/forge"
)

// Limits of owners.
const (
	maxOwnersFile = 3 << 20 // bytes, as on GitHub
	maxOwners     = 15      // people and teams that are asked
)

// ownersFiles are the places of a CODEOWNERS file for each kind of forge, in the order in which the
// forge looks for it. Gitea asks the owners itself.
var ownersFiles = map[forge.Kind][]string{
	forge.GitHub: {".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"},
	forge.GitLab: {"CODEOWNERS", "docs/CODEOWNERS", ".gitlab/CODEOWNERS"},
}

// Owners returns the owners of changed files according to the first CODEOWNERS file of the base, which
// read returns. E-mail addresses are left out: forges do not find people by them.
func Owners(ctx context.Context, kind forge.Kind, changed []string, read func(ctx context.Context, name string, most int64) ([]byte, bool, error)) (forge.Reviewers, error) {
	for _, name := range ownersFiles[kind] {
		content, found, err := read(ctx, name, maxOwnersFile)
		if err != nil {
			return forge.Reviewers{}, err
		}
		if found {
			return owners(content, name, changed)
		}
	}
	return forge.Reviewers{}, nil
}

// sections matches the headings of sections, which only GitLab knows and the library does not. The
// owners that a heading names for rules without owners are not asked.
var sections = regexp.MustCompile(`(?m)^\^?\[[^\]\n]+\].*$`)

func owners(content []byte, name string, changed []string) (out forge.Reviewers, err error) {
	rules, err := codeowners.ParseFile(bytes.NewReader(sections.ReplaceAll(content, nil)))
	if err != nil {
		return out, fault.New(contract.ClassConfig, contract.CodeRepository, "%s of the base commit is not valid, so no owners were asked for a review: %v", name, err)
	}
	for _, path := range changed {
		rule, err := rules.Match(path)
		if err != nil || rule == nil {
			continue
		}
		for _, o := range rule.Owners {
			list := &out.People
			switch {
			case o.Type == codeowners.EmailOwner:
				continue
			case strings.Contains(o.Value, "/"):
				list = &out.Teams
			}
			if !slices.Contains(*list, o.Value) && len(out.People)+len(out.Teams) < maxOwners {
				*list = append(*list, o.Value)
			}
		}
	}
	return out, nil
}
