package releases

import (
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"github.com/rocketgpt/orchestrator/internal/gate/guard/dependencies"
)

// isPrivate reports whether the name of a package must not be sent.
func (c *Client) isPrivate(e dependencies.Ecosystem, name string) bool {
	matches := func(pattern string) bool { return private(e, pattern, name) }
	return slices.ContainsFunc(c.private, matches) || e == dependencies.Go && slices.ContainsFunc(c.goPrivate, matches)
}

// private reports whether a pattern matches a name in one of the forms in which it can be written: in
// upper or lower case, and in the form that the registry compares. The group and the artifact of Maven
// can also be separated by a dot or a slash.
func private(e dependencies.Ecosystem, pattern, name string) bool {
	pattern, name = strings.ToLower(pattern), strings.ToLower(name)
	patterns, names := []string{pattern}, []string{name}
	switch e {
	case dependencies.Maven:
		names = append(names, strings.Replace(name, ":", ".", 1), strings.Replace(name, ":", "/", 1))
	case dependencies.Go: // the form that is compared leaves out the major version
	default:
		patterns, names = append(patterns, dependencies.Normal(e, pattern)), append(names, dependencies.Normal(e, name))
	}
	for _, p := range patterns {
		for _, n := range names {
			if module.MatchPrefixPatterns(p, n) {
				return true
			}
		}
	}
	return false
}

// anyNames are different names of each ecosystem. A pattern that matches all of them matches everything.
var anyNames = map[dependencies.Ecosystem][]string{
	dependencies.Go:       {"golang.org/x/mod", "github.com/spf13/cobra", "rsc.io/quote", "k8s.io/api"},
	dependencies.NPM:      {"left-pad", "zod", "q", "@types/node"},
	dependencies.PyPI:     {"six", "zope.interface", "a2", "requests"},
	dependencies.Crates:   {"serde", "quick-xml", "z", "a2"},
	dependencies.RubyGems: {"rake", "zeitwerk", "a2", "net-http"},
	dependencies.Composer: {"psr/log", "symfony/yaml", "a/b", "z9/z9"},
	dependencies.Maven:    {"junit:junit", "org.slf4j:slf4j-api", "a.b:c", "z9:z9"},
	dependencies.NuGet:    {"Newtonsoft.Json", "xunit", "a2", "Z"},
}

// TooWide returns the ecosystems, sorted, in which a pattern matches every name, so that nothing is looked
// up there. forGo says that the pattern is only for Go modules.
func TooWide(pattern string, forGo bool) []dependencies.Ecosystem {
	var out []dependencies.Ecosystem
	for e, names := range anyNames {
		if forGo && e != dependencies.Go || slices.ContainsFunc(names, func(n string) bool { return !private(e, pattern, n) }) {
			continue
		}
		out = append(out, e)
	}
	slices.Sort(out)
	return out
}
