package dependencies

import (
	"encoding/json"
	"regexp"
	"strings"
)

// readPackageLock reads package-lock.json of any version.
func readPackageLock(content []byte) (*manifest, error) {
	type entry struct {
		Name             string          `json:"name"` // of an alias
		Version          string          `json:"version"`
		Resolved         string          `json:"resolved"`
		Integrity        string          `json:"integrity"`
		HasInstallScript bool            `json:"hasInstallScript"`
		Link             bool            `json:"link"`
		Dependencies     json.RawMessage `json:"dependencies"`
	}
	var doc struct {
		Packages     map[string]entry `json:"packages"`
		Dependencies map[string]entry `json:"dependencies"`
	}
	m := &manifest{lock: true}
	if len(content) == 0 {
		return m, nil
	}
	if err := json.Unmarshal(content, &doc); err != nil {
		return nil, err
	}
	add := func(name, group string, e entry) {
		if e.Link || e.Resolved != "" && !strings.Contains(e.Resolved, ":") {
			return
		}
		if e.Name != "" {
			name = e.Name
		}
		m.dependencies = append(m.dependencies, dependency{
			ecosystem: NPM, name: name, group: group, version: e.Version, source: e.Resolved, integrity: e.Integrity, script: e.HasInstallScript,
		})
	}
	for place, e := range doc.Packages {
		if i := strings.LastIndex(place, "node_modules/"); i >= 0 {
			add(place[i+len("node_modules/"):], place[:i], e)
		}
	}
	if doc.Packages == nil {
		for name, e := range doc.Dependencies {
			add(name, "", e)
		}
	}
	sortDependencies(m)
	return m, nil
}

// readYarn reads yarn.lock of version 1. Entries of later versions name no URLs of the registry.
func readYarn(content []byte) (*manifest, error) {
	m := &manifest{lock: true}
	var current *dependency
	for line := range strings.Lines(string(content)) {
		line = strings.TrimRight(line, "\r\n")
		if line != "" && line[0] != ' ' && line[0] != '#' {
			first, _, _ := strings.Cut(strings.Trim(strings.TrimSuffix(line, ":"), `"`), ",")
			first = strings.Trim(first, `"`)
			if i := strings.LastIndexByte(first, '@'); i > 0 {
				m.dependencies = append(m.dependencies, dependency{ecosystem: NPM, name: yarnName(first, i), group: first[i:]})
				current = &m.dependencies[len(m.dependencies)-1]
			}
			continue
		}
		if current == nil {
			continue
		}
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch value = strings.Trim(value, `"`); key {
		case "version", "version:":
			current.version = value
		case "resolution:": // of later versions: the package itself, also of an alias
			if i := strings.Index(value, "@npm:"); i > 0 {
				current.name = value[:i]
			}
		case "resolved":
			current.source, _, _ = strings.Cut(value, "#")
		case "integrity", "checksum:":
			current.integrity = value
		}
	}
	return m, nil
}

// yarnAlias matches the description of an alias.
var yarnAlias = regexp.MustCompile(`^.+@npm:((?:@[^/@]+/)?[A-Za-z][^/@]*)(?:@.*)?$`)

// yarnName returns the name of the package that an entry describes, whose range begins at a place.
func yarnName(entry string, at int) string {
	if alias := yarnAlias.FindStringSubmatch(entry); alias != nil {
		return alias[1]
	}
	return entry[:at]
}

var (
	pnpmEntry   = regexp.MustCompile(`^  ['"]?/?((?:@[^@/'"]+/)?[^@/'"(:]+)[@/]([^'"(:]+)[^:]*:\s*$`)
	pnpmTarball = regexp.MustCompile(`\btarball:\s*['"]?([^\s,'"}]+)`)
	pnpmSum     = regexp.MustCompile(`\bintegrity:\s*['"]?([^\s,'"}]+)`)
)

// readPNPM reads pnpm-lock.yaml line by line, as pnpm writes it.
func readPNPM(content []byte) (*manifest, error) {
	m := &manifest{lock: true}
	var current *dependency
	packages := false
	for line := range strings.Lines(string(content)) {
		line = strings.TrimRight(line, "\r\n")
		if line != "" && line[0] != ' ' {
			packages, current = line == "packages:", nil
		}
		if !packages {
			continue
		}
		if e := pnpmEntry.FindStringSubmatch(line); e != nil {
			m.dependencies = append(m.dependencies, dependency{ecosystem: NPM, name: e[1], version: e[2], group: e[2]})
			current = &m.dependencies[len(m.dependencies)-1]
			continue
		}
		if current == nil {
			continue
		}
		if t := pnpmTarball.FindStringSubmatch(line); t != nil {
			current.source = t[1]
		}
		if s := pnpmSum.FindStringSubmatch(line); s != nil {
			current.integrity = s[1]
		}
		if strings.TrimSpace(line) == "requiresBuild: true" {
			current.script = true
		}
	}
	return m, nil
}
