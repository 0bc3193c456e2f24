package fault

import (
	"regexp"
	"strings"
)

// unpreparedPattern matches a tool's message that a dependency is not installed. Its group, if any,
// captures the name of the dependency.
type unpreparedPattern struct {
	hint    string // in lower case; if it is not in the output, the pattern is not tried
	pattern *regexp.Regexp
	missing string // the missing dependency if the pattern has no group
}

// unprepared are tools' own messages about a missing installation. Errors in the code itself, such
// as an import of a package that no manifest lists, are not included.
var unprepared = []unpreparedPattern{
	{"not found", re(`(?m)^(?:/\S*/)?(?:ba|da|z)?sh: (?:line )?\d+: ([\w@./+-]+): (?:command )?not found$`), ""},
	{"command not found", re(`(?m)^(?:/\S*/)?(?:ba|z)?sh: (?:line \d+: )?([\w@./+-]+): command not found$`), ""},
	{"command not found:", re(`(?m)^command not found: ([\w@./+-]+)`), ""},
	{"no such file or directory", re(`(?m)^(?:/usr/bin/)?env: [‘'"]?([\w./+-]+)[’'"]?: No such file or directory$`), ""},
	{"node_modules missing", re(`(?m)^.*package\.json exists, but node_modules missing.*$`), "node_modules"},
	{"be present in your lockfile", re(`(?m)^.*This package doesn't seem to be present in your lockfile.*$`), "the installation of this package"},
	{"have been installed", re(`(?m)^.*The project in \S+ doesn.t seem to have been installed.*$`), "the installation of this project"},
	{"couldn't find the node_modules state file", re(`(?m)^.*Couldn't find the node_modules state file.*$`), "node_modules"},
	{"cannot find module", re(`(?m)^.*Cannot find module '(/\S*node_modules/[^']+)'.*$`), ""},
	{"enotcached", re(`(?m)^.*ENOTCACHED.*$`), "a package in npm's cache"},
	{"err_pnpm_no_offline", re(`(?m)^.*ERR_PNPM_NO_OFFLINE_\w+.*$`), "a package in pnpm's store"},
	{"no module named", re(`(?m)^\S*python[\d.]*: No module named ([\w.]+)`), ""},
	{"error importing plugin", re(`(?m)^.*Error importing plugin "[^"]+": No module named '([\w.]+)'`), ""},
	{"missing required plugins", re(`(?m)^.*Missing required plugins: (.+)$`), ""},
	{"unrecognized arguments", re(`(?m)^.*pytest.*: error: unrecognized arguments: (--?[\w-]+).*$`), ""},
	{"failed to spawn", re("(?m)^.*Failed to spawn: `([^`]+)`.*$"), ""},
	{"network was disabled", re(`(?m)^.*network was disabled.*$`), "a package in uv's cache"},
	{"no matching distribution", re(`(?m)^.*No matching distribution found for ([\w.\[\]-]+).*$`), ""},
	{"offline", re("(?m)^error: no matching package named `([^`]+)` found\n(?:.*\n){0,3}.*offline mode.*$"), ""},
	{"--offline was specified", re(`(?m)^.*attempting to make an HTTP request, but --offline was specified.*$`), "a crate in cargo's cache"},
	{"in offline mode", re(`(?m)^.*Cannot access \S+ \(\S+\) in offline mode and the artifact (\S+) has not been downloaded.*$`), ""},
	{"available for offline mode", re(`(?m)^.*No cached version of (\S+) available for offline mode.*$`), ""},
	{"services.gradle.org", re(`(?m)^.*UnknownHostException: services\.gradle\.org.*$`), "the Gradle wrapper's distribution"},
	{"goproxy=off", re(`(?m)^(?:.*: )?(?:(\S+@v\S+): )?module lookup disabled by GOPROXY=off$`), "a module in Go's module cache"},
	{"toolchain not available", re(`(?m)^.*download (go[\d.]+\S*) .*toolchain not available.*$`), ""},
}

// Unprepared reports whether a command failed because a dependency is not installed where it ran,
// as opposed to an error in the code. Then line is the command's message, and what is the missing
// dependency, if the message names it. Like [OfOutput], it reads the beginning and the end of a
// text, which may be hostile.
func Unprepared(o Output) (line, what string, ok bool) {
	text := readable(o.Text)
	low := strings.ToLower(text)
	for _, u := range unprepared {
		if !strings.Contains(low, u.hint) {
			continue
		}
		m := u.pattern.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		what = u.missing
		if len(m) > 1 && m[1] != "" {
			what = m[1]
		}
		return oneLine(FirstLine(m[0]), maxShownLine), oneLine(what, maxShownCommand), true
	}
	return "", "", false
}
