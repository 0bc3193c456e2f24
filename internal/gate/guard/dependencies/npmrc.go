package dependencies

import (
	"context"
	"path"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

var npmRegistry = regexp.MustCompile(`(?m)^[ \t]*(?:(@[^:\s=]+):)?registry[ \t]*=[ \t]*["']?([^\s"']+)`)

// npmRegistries are the registries that the .npmrc files of a repository name, by directory and scope; the
// scope "" is that of all other packages.
type npmRegistries struct {
	tree  change.Tree
	known map[string]map[string]string
}

// of returns the registry that a package of a manifest comes from; "": the usual one. The file beside the
// manifest goes before that of the repository.
func (n *npmRegistries) of(ctx context.Context, manifest, name string) (string, error) {
	scope := ""
	if before, _, ok := strings.Cut(name, "/"); ok && strings.HasPrefix(before, "@") {
		scope = before
	}
	for _, s := range []string{scope, ""} {
		for _, dir := range []string{path.Dir(manifest), "."} {
			named, err := n.in(ctx, dir)
			if err != nil {
				return "", err
			}
			if place, ok := named[s]; ok {
				return place, nil
			}
		}
	}
	return "", nil
}

// in returns the registries that the .npmrc of a directory names.
func (n *npmRegistries) in(ctx context.Context, dir string) (map[string]string, error) {
	if named, ok := n.known[dir]; ok {
		return named, nil
	}
	content, _, err := n.tree.Read(ctx, path.Join(dir, ".npmrc"), maxOwnBytes)
	if err != nil {
		return nil, err
	}
	named := map[string]string{}
	for _, m := range npmRegistry.FindAllSubmatch(content, -1) {
		named[string(m[1])] = string(m[2])
	}
	n.known[dir] = named
	return named, nil
}
