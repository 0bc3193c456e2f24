package dependencies

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
)

const name = "dependencies"

// The rules of findings.
const (
	RuleNew           = "new"
	RuleFloating      = "floating"
	RuleSource        = "source"
	RuleInsecure      = "insecure"
	RuleRegistry      = "registry"
	RuleReplace       = "replace"
	RuleIntegrity     = "integrity"
	RuleLockOnly      = "lock-only"
	RuleLookAlike     = "look-alike"
	RuleMalicious     = "malicious"
	RuleDeprecated    = "deprecated"
	RuleInstallScript = "install-script"
	RuleLifecycle     = "lifecycle"
	RuleVulnerable    = "vulnerable"
	RuleUnreadable    = "unreadable"
	RuleNotFound      = "not-found"
	RuleNoVersion     = "no-version"
	RuleYoung         = "young"
	RuleAgeUnknown    = "age-unknown"
	RuleLocal         = "local"
)

// Guard is the guard without advisories.
var Guard = New(nil)

// New returns the guard. Advisories may be nil. The guard is safe for concurrent use.
func New(advisories Advisories) change.Guard { return guard{advisories} }

type guard struct{ advisories Advisories }

// Digest identifies the advisories; empty: there are none.
func (g guard) Digest() string {
	if g.advisories == nil {
		return ""
	}
	return g.advisories.Digest()
}

func (guard) Name() string { return name }

// Judge returns what a change does to dependencies.
func (g guard) Judge(ctx context.Context, c change.Change) ([]change.Finding, error) {
	r := &report{advisories: g.advisories, changed: map[string]bool{}}
	contents := map[string]string{}
	for _, f := range c.Files {
		r.changed[f.Path] = true
	}
	for _, f := range c.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		read := changedManifest(f)
		if read == nil {
			continue
		}
		r.path, r.content = f.Path, string(f.After.Content)
		contents[f.Path] = r.content
		if f.After.Unread {
			r.add(RuleUnreadable, contract.SeverityMedium, "", "the file is too large to be examined: review it")
			continue
		}
		after, err := read(f.After.Content)
		if err != nil {
			r.add(RuleUnreadable, contract.SeverityMinor, "", "its dependencies cannot be read, so they were not examined: fix the file")
			continue
		}
		r.compare(readBefore(f, read), after)
	}
	r.releases(c, contents)
	slices.SortStableFunc(r.out, func(a, b change.Finding) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	return r.out, nil
}

// changedManifest returns what reads a file whose dependencies may have changed; nil: it is another file.
func changedManifest(f change.File) reader {
	if f.Deleted() || !f.After.Regular() || bytes.Equal(f.Before.Content, f.After.Content) {
		return nil
	}
	return readerOf(f.Path)
}

// readBefore reads a file as it was before the change; nothing if it did not exist or was not valid.
func readBefore(f change.File, read reader) *manifest {
	before, err := read(f.Before.Content)
	if err != nil || !f.Before.Regular() {
		return &manifest{}
	}
	return before
}

// report collects the findings of a change.
type report struct {
	advisories    Advisories
	changed       map[string]bool // paths
	path, content string          // of the current file
	out           []change.Finding
}

// add adds a finding at the first line that has a text.
func (r *report) add(rule string, severity contract.Severity, at, format string, args ...any) {
	for i, a := range args {
		if s, ok := a.(string); ok {
			args[i] = change.Clean(s)
		}
	}
	line := 0
	if i := strings.Index(r.content, at); at != "" && i >= 0 {
		line = 1 + strings.Count(r.content[:i], "\n")
	}
	r.out = append(r.out, change.Finding{Guard: name, Rule: rule, Path: r.path, Line: line, Severity: severity, Message: fmt.Sprintf(format, args...)})
}

// compare adds what differs between two versions of a file.
func (r *report) compare(before, after *manifest) {
	old := map[string]dependency{}
	var own []string
	for _, d := range before.dependencies {
		old[d.key()] = d
		own = append(own, d.name)
	}
	for _, d := range after.dependencies {
		was, existed := old[d.key()]
		if existed && was == d {
			continue
		}
		if !after.lock {
			r.declared(d, was, existed, own)
		}
		r.fetched(d, was, existed, before, after)
		r.vulnerable(d)
	}
	for _, s := range after.registries {
		if slices.Contains(before.registries, s) || standardRegistry(s) {
			continue
		}
		if insecure(s) {
			r.add(RuleInsecure, contract.SeverityMajor, s, "the registry %s is used over plain HTTP: use HTTPS", host(s))
			continue
		}
		r.add(RuleRegistry, contract.SeverityMedium, s, "packages also come from %s: check who runs it", host(s))
	}
	for _, s := range after.replaced {
		if !s.other() || slices.Contains(before.replaced, s) {
			continue
		}
		severity, by := contract.SeverityMedium, "another module: check that its owner can be trusted"
		if s.local {
			severity, by = contract.SeverityMinor, "a directory of the repository"
		}
		r.add(RuleReplace, severity, s.to, "%s is replaced by "+by, s.from)
	}
	for _, s := range after.scripts {
		if !slices.Contains(before.scripts, s) {
			r.add(RuleLifecycle, lifecycle(s), s.command, "the script %s runs at installation: check what it does", s.name)
		}
	}
	if after.lock && !slices.ContainsFunc(manifestsOf(r.path), func(m string) bool { return r.changed[m] }) {
		r.add(RuleLockOnly, contract.SeverityMinor, "", "the lock file changes without its manifest: check that the package manager wrote it")
	}
}

// declared adds what is wrong with a dependency of a manifest.
func (r *report) declared(d, was dependency, existed bool, own []string) {
	if !existed {
		from := "the standard registry"
		if d.source != "" {
			from = host(d.source)
		}
		r.add(RuleNew, contract.SeverityMinor, d.name, "new dependency %s %s of %s, from %s", d.name, d.version, d.ecosystem.title(), from)
		if note, bad := malicious[d.ecosystem][normal(d.ecosystem, d.name)]; bad {
			r.add(RuleMalicious, contract.SeverityMajor, d.name, "a package with the name %s was malicious (%s): remove it", d.name, note)
		} else if like, exact := lookAlike(d.ecosystem, d.name, own); like != "" {
			severity := contract.SeverityMedium
			if exact {
				severity = contract.SeverityMajor
			}
			r.add(RuleLookAlike, severity, d.name, "the name %s is close to that of %s: check the spelling", d.name, like)
		}
		if instead, old := deprecated[d.ecosystem][normal(d.ecosystem, d.name)]; old {
			r.add(RuleDeprecated, contract.SeverityMinor, d.name, "%s is no longer maintained: use %s", d.name, instead)
		}
	}
	if !d.loose && floating(d) && (!existed || !floating(was)) {
		r.add(RuleFloating, contract.SeverityMedium, d.name, "any version of %s is accepted (%s): name one", d.name, d.version)
	}
}

// fetched adds what is wrong with where a dependency comes from.
func (r *report) fetched(d, was dependency, existed bool, before, after *manifest) {
	switch {
	case d.indexed && slices.Contains(after.registries, d.source): // another finding
	case d.source == "" || existed && was.source == d.source || after.lock && (standardRegistry(d.source) || before.uses(host(d.source))):
	case insecure(d.source):
		r.add(RuleInsecure, contract.SeverityMajor, d.source, "%s is fetched from %s over plain HTTP: use HTTPS", d.name, host(d.source))
	case inside(r.path, d.source):
	default:
		r.add(RuleSource, contract.SeverityMedium, d.source, "%s comes from %s instead of the registry: check who controls it", d.name, host(d.source))
	}
	if after.lock && existed && was.integrity != "" && d.integrity == "" && !strings.HasPrefix(d.source, "git") {
		r.add(RuleIntegrity, contract.SeverityMajor, d.name, "the entry of %s loses its checksum: let the package manager write the lock file again", d.name)
	}
	if d.script && (!existed || !was.script) {
		severity := contract.SeverityMedium
		if popular(d.ecosystem, d.name) {
			severity = contract.SeverityMinor
		}
		r.add(RuleInstallScript, severity, d.name, "%s runs code when it is installed: check what it does", d.name)
	}
}

// vulnerable adds the known vulnerabilities of a dependency.
func (r *report) vulnerable(d dependency) {
	if r.advisories == nil {
		return
	}
	version := firstVersion(d.version)
	if version == "" {
		return
	}
	for _, a := range r.advisories.Affecting(d.ecosystem, normal(d.ecosystem, d.name), version) {
		fix := "no fixed version is known"
		if a.Fixed != "" {
			fix = "fixed in " + change.Clean(a.Fixed)
		}
		r.add(RuleVulnerable, a.Severity, d.name, "%s %s has the vulnerability %s (%s): "+fix, d.name, version, a.ID, a.Summary)
	}
}

// floating reports whether a dependency accepts any version.
func floating(d dependency) bool {
	v := strings.ToLower(strings.Trim(d.version, " \"'"))
	return slices.Contains([]string{"*", "latest", "x", ">=0", ">=0.0.0", "any", "+", "latest.release", "latest.integration", "release", "*.*", "dev-master", "dev-main", "@dev", "next", "master", "main", "head"}, v)
}

// lifecycle is the severity of a new script: harmless tools prepare a repository for its developers.
func lifecycle(s script) contract.Severity {
	words := strings.Fields(s.command)
	plain := !strings.ContainsAny(s.command, "|;$`<>(\\") && !strings.Contains(s.command, "://") && !strings.Contains(s.command, " -e ")
	if plain && len(words) > 0 && len(s.command) <= 80 && slices.Contains(usualTools, words[0]) {
		return contract.SeverityMinor
	}
	return contract.SeverityMedium
}

var usualTools = []string{"husky", "lefthook", "simple-git-hooks", "patch-package", "tsc", "npm", "pnpm", "yarn", "turbo", "nx", "lerna", "rollup", "tsup", "vite", "is-ci", "electron-builder", "prisma", "@php", "Illuminate\\Foundation\\ComposerScripts::postAutoloadDump"}

// insecure reports whether a URL is fetched without encryption, except from the same machine.
func insecure(source string) bool {
	h := host(source)
	return (strings.HasPrefix(source, "http://") || strings.HasPrefix(source, "git://") || strings.HasPrefix(source, "git+http://")) &&
		h != "localhost" && h != "127.0.0.1" && !strings.HasPrefix(h, "localhost:")
}

// inside reports whether a source is a path within the repository.
func inside(file, source string) bool {
	if scheme, rest, ok := strings.Cut(source, ":"); ok && slices.Contains([]string{"file", "link", "portal", "workspace", "path"}, scheme) {
		source = strings.TrimPrefix(rest, "//")
	} else if ok {
		return false
	}
	if path.IsAbs(source) || strings.Contains(source, "\\") {
		return false
	}
	joined := path.Join(path.Dir(file), source)
	return joined != ".." && !strings.HasPrefix(joined, "../")
}

// host is where a source is, for a message: without credentials.
func host(source string) string {
	if u, err := url.Parse(strings.TrimPrefix(source, "git+")); err == nil && u.Host != "" {
		return u.Host
	}
	if i := strings.LastIndexByte(source, '@'); i >= 0 {
		source = source[i+1:]
	}
	return source
}

var registries = []string{
	"registry.npmjs.org", "registry.yarnpkg.com", "npm.jsr.io", "pypi.org", "pypi.python.org", "files.pythonhosted.org", "rubygems.org", "www.rubygems.org", "repo.packagist.org", "packagist.org",
	"repo.maven.apache.org", "repo1.maven.org", "maven.google.com", "plugins.gradle.org", "dl.google.com", "api.nuget.org", "nuget.org", "www.nuget.org", "crates.io", "index.crates.io", "static.crates.io", "github.com/rust-lang/crates.io-index",
}

// standardRegistry reports whether a URL is in one of the registries that package managers use unless told
// otherwise.
func standardRegistry(source string) bool {
	h := strings.ToLower(host(source))
	if name, _, _ := strings.Cut(h, ":"); name == "localhost" || name == "127.0.0.1" {
		return true
	}
	return !insecure(source) && slices.Contains(registries, h)
}
