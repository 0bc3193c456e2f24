package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/gate/change"
	"github.com/rocketgpt/orchestrator/internal/glob"
)

// lineRule looks for new lines of some files.
type lineRule struct {
	rule     string
	severity contract.Severity
	says     string
	paths    glob.Set
	line     *regexp.Regexp
	except   *regexp.Regexp
}

// maxLine is the length of the longest line that is examined, in bytes.
const maxLine = 4000

var lineRules = []lineRule{
	{
		rule: "registry", severity: contract.SeverityMajor, says: "sets where packages come from",
		paths: glob.NewSet("**/.npmrc", "**/.yarnrc{,.yml}", "**/.pnpmrc", "**/pip.{conf,ini}", "**/.pip/**", "**/.pypirc", "**/uv.toml", "**/.bundle/config", "**/nuget.config",
			"**/.cargo/config{,.toml}", "**/bunfig.toml", "**/.mvn/settings.xml", "**/.condarc", "**/.bazelrc"),
		line: regexp.MustCompile(`(?i)registry|index|find-links|trusted-host|server|source|mirror|proxy|strict-ssl|verify|url|channel|replace-with|token|auth|` +
			`plugin|yarnpath|ignore-scripts|enablescripts|script-shell|node-options|runner|rustc|linker|rustflags|config`),
	},
	{
		rule: "registry", severity: contract.SeverityMajor, says: "sets where packages come from", paths: glob.NewSet("**/*requirements*.{txt,in}", "**/requirements/*.{txt,in}", "**/constraints*.txt"),
		line: regexp.MustCompile(`^\s*(?:-i|-f|--index-url|--extra-index-url|--find-links|--trusted-host)[\s=]`),
	},
	{
		rule: "registry", severity: contract.SeverityMajor, says: "sets where packages come from", paths: glob.NewSet("**/{pyproject.toml,pipfile}"),
		line: regexp.MustCompile(`^\s*\[\[\s*(?:source|tool\.(?:uv\.index|poetry\.source|pdm\.source))\s*\]\]|^\s*(?:index-url|extra-index-url|find-links)\s*=`),
	},
	{
		rule: "registry", severity: contract.SeverityMajor, says: "sets where packages come from", paths: glob.NewSet("**/gemfile", "**/gems.rb"),
		line: regexp.MustCompile(`^\s*source\b`), except: regexp.MustCompile(`^\s*source\s*\(?\s*['"]https://rubygems\.org/?['"]`),
	},
	{
		rule: "install-script", severity: contract.SeverityMajor, says: "builds native code at its install", paths: glob.NewSet("**/*.gemspec"),
		line: regexp.MustCompile(`\.extensions\b`),
	},
	{
		rule: "install-script", severity: contract.SeverityMajor, says: "runs at an install of a package", paths: glob.NewSet("**/binding.gyp"), line: regexp.MustCompile(`\S`),
	},
	{
		rule: "build-script", severity: contract.SeverityMedium, says: "runs programs or loads something at a build",
		paths: glob.NewSet("**/{setup.py,build.rs,extconf.rb,build.py,hatch_build.py,gulpfile.js,gruntfile.js}", "**/{build,settings}.gradle{,.kts}", "**/*.gemspec", "build.zig"),
		line: regexp.MustCompile(`\b(?:curl|wget|urllib|urlopen|requests\.(?:get|post)|subprocess|os\.system|popen|execv\w*|check_call|check_output|b64decode|Command::new|Net::HTTP|` +
			`open-uri|child_process|Invoke-WebRequest|ProcessBuilder|Runtime\.getRuntime|ureq|reqwest|cmdclass)\b|/dev/tcp/|\beval\s*\(|\bexec\s*[({]`),
	},
	{
		rule: "build-script", severity: contract.SeverityMedium, says: "runs what it loads from the network", paths: glob.NewSet("**/{gnu,}makefile", "**/*.mk", "**/rakefile", "**/justfile", "**/taskfile.{yml,yaml}"),
		line: remoteScript,
	},
	{
		rule: "build-script", severity: contract.SeverityMedium, says: "runs what it loads from the network at go generate", paths: glob.NewSet("**/*.go"),
		line: regexp.MustCompile(`^//go:generate\s.*\b(?:curl|wget|/dev/tcp/|https?://)`),
	},
}

// remoteScript matches a download that is run without being looked at.
var remoteScript = regexp.MustCompile(`\b(?:curl|wget)\b[^|;&\n]*\|\s*(?:sudo\s+(?:-\S+\s+)*)?(?:env\s+)?(?:ba|z|da|k)?sh\b|\b(?:ba|z)?sh\s+(?:-c\s+"?\$|<)\(\s*(?:curl|wget)\b|\b(?:curl|wget)\b[^|;&\n]*\|\s*(?:sudo\s+)?(?:python3?|node|perl|ruby)\b|(?i:iex\b.*\b(?:iwr|irm|DownloadString)\b|\b(?:iwr|irm)\b[^|\n]*\|\s*iex\b)`)

// lines looks for new lines that matter in files that are ordinary otherwise.
func (j *judge) lines(f change.File, lower string) {
	for _, r := range lineRules {
		if !r.paths.Match(lower) {
			continue
		}
		for _, l := range f.AddedLines() {
			text := l.Text[:min(len(l.Text), maxLine)]
			if !r.line.MatchString(text) || r.except != nil && r.except.MatchString(text) {
				continue
			}
			j.add(r.rule, r.severity, f.Path, l.Number, "%s %s (%s); a person should approve that", change.Clean(f.Path), r.says, change.Clean(strings.TrimSpace(text)))
			break
		}
	}
}

// installScripts are the scripts that package managers run by themselves, by the name of the manifest.
var installScripts = map[string][]string{
	"package.json": {
		"preinstall", "install", "postinstall", "prepare", "preprepare", "postprepare", "prepublish", "prepublishonly", "prepack", "postpack", "dependencies", "pnpm:devpreinstall",
	},
	"composer.json": {
		"pre-install-cmd", "post-install-cmd", "pre-update-cmd", "post-update-cmd", "pre-autoload-dump", "post-autoload-dump", "post-root-package-install", "post-create-project-cmd",
		"pre-package-install", "post-package-install", "pre-package-update", "post-package-update", "pre-operations-exec", "init", "command", "pre-command-run",
	},
}

// hookKeys are the keys of a package.json, besides scripts, that name what runs at git commands.
var hookKeys = []string{"husky", "simple-git-hooks", "pre-commit", "pre-push", "lint-staged", "gitHooks"}

// manifest compares what a package runs at its install and with what it is built.
func (j *judge) manifest(f change.File, lower string) {
	base := path.Base(lower)
	switch {
	case installScripts[base] != nil:
		j.scripts(f, base)
	case base == "pyproject.toml":
		j.backend(f)
	}
}

// scripts compares the install scripts of a manifest in JSON.
func (j *judge) scripts(f change.File, base string) {
	before, _ := readManifest(f.Before)
	after, err := readManifest(f.After)
	if err != nil {
		j.add("install-script", contract.SeverityMedium, f.Path, 0, "%s cannot be read (%s), so that it is unknown what it runs at an install; correct it", change.Clean(f.Path), change.Clean(err.Error()))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(after.Scripts)) {
		if script := string(after.Scripts[name]); slices.Contains(installScripts[base], strings.ToLower(name)) && script != string(before.Scripts[name]) {
			j.add("install-script", contract.SeverityMajor, f.Path, lineOf(f.After.Content, name), "%s runs %s at %s; a person should approve that",
				change.Clean(f.Path), change.Clean(script), change.Clean(name))
		}
	}
	for _, key := range hookKeys {
		if now := string(after.rest[key]); now != "" && now != string(before.rest[key]) {
			j.add("hook", contract.SeverityMajor, f.Path, lineOf(f.After.Content, key), "%s changes what runs at git commands (%s); a person should approve that", change.Clean(f.Path), key)
		}
	}
	for _, key := range []string{"publishConfig", "repositories"} {
		if now := string(after.rest[key]); now != "" && now != string(before.rest[key]) {
			j.add("registry", contract.SeverityMajor, f.Path, lineOf(f.After.Content, key), "%s changes where packages come from or go to (%s); a person should approve that", change.Clean(f.Path), key)
		}
	}
}

// packageManifest is what is read of a manifest.
type packageManifest struct {
	Scripts map[string]json.RawMessage `json:"scripts"`
	rest    map[string]json.RawMessage
}

func readManifest(v change.Version) (m packageManifest, err error) {
	switch {
	case !v.Exists():
		return m, nil
	case !v.Regular() || v.Binary() || len(v.Content) > maxManifest:
		return m, fmt.Errorf("it is not a text of at most %d bytes", maxManifest)
	}
	if err = json.Unmarshal(v.Content, &m.rest); err != nil {
		return m, err
	}
	if scripts := m.rest["scripts"]; scripts != nil && string(scripts) != "null" {
		err = json.Unmarshal(scripts, &m.Scripts)
	}
	return m, err
}

// lineOf returns the number of the first line with a key in JSON, or 0.
func lineOf(content []byte, key string) int {
	text := string(content)
	i := strings.Index(text, `"`+key+`"`)
	if i < 0 {
		return 0
	}
	return strings.Count(text[:i], "\n") + 1
}

var (
	tomlSection = regexp.MustCompile(`^\s*\[+\s*([^\]\n]+?)\s*\]+\s*(?:#.*)?$`)
	buildHook   = regexp.MustCompile(`^tool\.(?:hatch\.build\.(?:targets\.\w+\.)?hooks|setuptools\.cmdclass|pdm\.build|poetry\.build)\b`)
)

// backend compares the program that builds a Python package.
func (j *judge) backend(f change.File) {
	old := map[string]bool{}
	eachSetting(f.Before, func(_ int, section, line string) { old[section+"\n"+line] = true })
	eachSetting(f.After, func(n int, section, line string) {
		if old[section+"\n"+line] {
			return
		}
		switch {
		case section == "build-system" && (strings.HasPrefix(line, "build-backend") || strings.HasPrefix(line, "backend-path")):
			j.add("build-backend", contract.SeverityMajor, f.Path, n, "%s has another program build the package (%s); check it", change.Clean(f.Path), change.Clean(line))
		case section == "build-system":
			j.add("build-backend", contract.SeverityMedium, f.Path, n, "%s changes what its build requires (%s); check it", change.Clean(f.Path), change.Clean(line))
		case buildHook.MatchString(section):
			j.add("build-backend", contract.SeverityMedium, f.Path, n, "%s changes what runs at its build (%s); check it", change.Clean(f.Path), change.Clean(line))
		}
	})
}

// eachSetting calls do for each line of a file in TOML, with its section.
func eachSetting(v change.Version, do func(number int, section, line string)) {
	if !v.Regular() || v.Binary() {
		return
	}
	section, n := "", 0
	for line := range strings.Lines(string(v.Content)) {
		n++
		line = strings.TrimSpace(line[:min(len(line), maxLine)])
		if m := tomlSection.FindStringSubmatch(line); m != nil {
			section = m[1]
		} else if line != "" && line[0] != '#' {
			do(n, section, line)
		}
	}
}
