package checks

import (
	"encoding/json"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/verify/output"
)

// Each check runs in its own copy of the checkout, so tests of build output do not find what the
// build check built. This file finds such tests, and their checks build first.

// buildSetup returns the command that builds the package before its tests, or nil if the package has
// no script build.
func (p nodeProject) buildSetup(network []string) []Invocation {
	if p.manifest.Scripts["build"] == "" {
		return nil
	}
	run := p.script("build")
	run.Setup, run.Network = true, network
	return []Invocation{run}
}

// withSetup adds the commands of a setup unless they are among the commands already.
func withSetup(runs, setup []Invocation) []Invocation {
	for _, s := range setup {
		if !slices.ContainsFunc(runs, func(r Invocation) bool { return r.Dir == s.Dir && slices.Equal(r.Args, s.Args) }) {
			runs = append(runs, s)
		}
	}
	return runs
}

// testsItsBuild reports whether the script test needs a build that it does not do itself: a file of
// the tests names the directory of an entry point of the package that is missing from the checkout.
func (p nodeProject) testsItsBuild(t *checkout) bool {
	if p.manifest.Scripts["build"] == "" || runnersOf(p.manifest.Scripts, "test").builds || runnersOf(p.manifest.Scripts, "pretest").builds {
		return false
	}
	var dirs []string
	for _, entry := range p.manifest.entries() {
		dir, _, nested := strings.Cut(entry, "/")
		if nested && !t.has(path.Join(p.dir, entry)) {
			dirs = append(dirs, regexp.QuoteMeta(dir))
		}
	}
	if len(dirs) == 0 {
		return false
	}
	named := regexp.MustCompile("['\"`/](?:" + strings.Join(dirs, "|") + ")['\"`/]")
	return slices.ContainsFunc(t.files, func(f string) bool {
		return output.Below(f, p.dir) && nodeTestFile.MatchString(relTo(p.dir, f)) && !inOutput(f) && named.MatchString(t.read(f))
	})
}

// nodeTestFile matches the files of tests by their usual names and directories.
var nodeTestFile = regexp.MustCompile(`(?:(?:^|/)(?:tests?|__tests__|specs?)/.*|[._-](?:test|spec))\.[cm]?[jt]sx?$`)

// maxEntries limits the entry points of a package that are read.
const maxEntries = 100

// entries returns the entry points of the package, relative to its directory.
func (m manifest) entries() []string {
	var all []string
	var add func(v any)
	add = func(v any) {
		switch v := v.(type) {
		case string:
			if at := path.Clean(v); len(all) < maxEntries && filepath.IsLocal(at) {
				all = append(all, at)
			}
		case []any:
			for _, each := range v {
				add(each)
			}
		case map[string]any:
			for _, each := range v {
				add(each)
			}
		}
	}
	for _, raw := range []json.RawMessage{m.Main, m.Module, m.Bin, m.Exports} {
		var v any
		if json.Unmarshal(raw, &v) == nil {
			add(v)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var (
	// webServerCommand matches the commands of webServer in a configuration of Playwright, as whole
	// expressions, because they often depend on the environment: CI ? 'vite preview' : 'vite dev'.
	webServerCommand = regexp.MustCompile(`\bcommand:((?:` + quoted.String() + `|[^,}])*)`)
	quoted           = regexp.MustCompile("'([^'\n]*)'|\"([^\"\n]*)\"|`([^`\n]*)`")
	componentTests   = regexp.MustCompile(`@playwright/experimental-ct-`)
)

// buildSetup returns the command that builds what the tests open, or nil if they run on sources: if
// each web server is a development server or builds by itself. The package that is built is the
// innermost one around the tests that has a script build.
func (s playwrightSuite) buildSetup(t *checkout, network []string) []Invocation {
	config := t.read(s.configFile(t))
	if componentTests.MatchString(config) {
		return nil
	}
	var servers []string
	for _, line := range webServerCommand.FindAllStringSubmatch(config, -1) {
		for _, m := range quoted.FindAllStringSubmatch(line[1], -1) {
			servers = append(servers, m[1]+m[2]+m[3])
		}
	}
	scripts := nodeProjectAt(t, s.dir).manifest.Scripts
	needed := func(server string) bool { s := runnersIn(scripts, server); return !s.serves && !s.builds }
	if len(servers) > 0 && !slices.ContainsFunc(servers, needed) {
		return nil
	}
	for dir := s.dir; ; dir = path.Dir(dir) {
		if p := nodeProjectAt(t, dir); p.manifest.Scripts["build"] != "" {
			return p.buildSetup(network)
		}
		if dir == "." {
			return nil
		}
	}
}

// configFile returns the path of the configuration, or "" without one.
func (s playwrightSuite) configFile(t *checkout) string {
	at := path.Join(s.dir, s.config)
	if t.has(at) {
		return at
	}
	for _, name := range playwrightConfigs {
		if file := path.Join(at, name); t.has(file) {
			return file
		}
	}
	return ""
}
