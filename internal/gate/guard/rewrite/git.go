package rewrite

import (
	"path"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

// submodule looks for other repositories in the tree.
func (j *judge) submodule(f change.File) {
	name := change.Clean(f.Path)
	for _, p := range f.Paths() {
		if change.Fold(path.Base(p)) == ".gitmodules" {
			j.add("submodule", contract.SeverityMajor, p, 0, "%s names the repositories of submodules; check each of them", change.Clean(p))
		}
	}
	before, after := f.Before.Mode == change.ModeSubmodule, f.After.Mode == change.ModeSubmodule
	switch {
	case before && after && f.Before.Digest != f.After.Digest:
		j.add("submodule", contract.SeverityMedium, f.Path, 0, "the submodule %s has another commit; check what it brings", name)
	case after && !before:
		j.add("submodule", contract.SeverityMajor, f.Path, 0, "%s becomes a submodule, the content of another repository; check that repository", name)
	case before && !after:
		j.add("submodule", contract.SeverityMajor, f.Path, 0, "the submodule %s disappears; check that nothing needs it", name)
	}
}

// The attributes that name a driver, which is a command in the configuration of a user.
var (
	filterAttribute = regexp.MustCompile(`(?:^|\s)filter=(\S+)`)
	driverAttribute = regexp.MustCompile(`(?:^|\s)(?:diff|merge|working-tree-encoding)=(\S+)`)
)

// builtinDrivers are those that git itself contains, or that only choose a format.
const builtinDrivers = ` ada bash bibtex cpp csharp css dts elixir fortran fountain golang html java kotlin markdown matlab objc pascal perl php
 python ruby rust scheme tex astextplain text union binary utf-8 utf-16 utf-16le utf-16be utf-16le-bom ini `

// attributes looks for new lines of .gitattributes.
func (j *judge) attributes(f change.File) {
	if change.Fold(path.Base(f.Path)) != ".gitattributes" || f.Deleted() {
		return
	}
	name := change.Clean(f.Path)
	for _, line := range f.AddedLines() {
		text := strings.TrimSpace(line.Text)
		if text == "" || text[0] == '#' {
			continue
		}
		if m := filterAttribute.FindStringSubmatch(text); m != nil {
			j.add("attribute-driver", contract.SeverityMajor, f.Path, line.Number, "%s sends files through the filter %s, which git runs on checkout; remove it",
				name, change.Clean(m[1]))
			continue
		}
		if m := driverAttribute.FindStringSubmatch(text); m != nil && !strings.Contains(builtinDrivers, " "+strings.ToLower(m[1])+" ") {
			j.add("attribute-driver", contract.SeverityMedium, f.Path, line.Number, "%s names the driver %s, a command in the configuration of a user; remove it",
				name, change.Clean(m[1]))
			continue
		}
		j.add("attributes", contract.SeverityMinor, f.Path, line.Number, "%s changes how git treats files (%s); check it", name, change.Clean(text))
	}
}
