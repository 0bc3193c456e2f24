package sandbox

import (
	"fmt"
	"slices"
	"strings"
)

// place is a path of the host and the path that stands for it in a sandbox.
type place struct{ host, inside string }

// places are the paths of a command that runs without namespaces, where only host paths exist. Its
// user knows the paths of the sandbox: they are replaced in the command, and the host's paths in its
// output. A command in namespaces needs none.
type places []place

// directPlaces returns the places of a command with the given directories.
func directPlaces(s *session, home, temporary, scratch string) places {
	all := places{{s.command.Root, Workspace}, {home, Home}}
	for _, m := range movedPaths(s.command, s.toolchains) {
		all = append(all, place{m.Source, m.Target})
	}
	all = append(all, place{temporary, tmp})
	if scratch != temporary && scratch != home {
		all = append(all, place{scratch, tmp})
	}
	return all
}

// use replaces the paths of the sandbox in a command by those of the host. No host path is replaced
// again: a placeholder, which a command cannot contain, stands for it.
func (p places) use(command string) string {
	for i, at := range p.longestFirst(func(a place) string { return a.inside }) {
		command = replaceName(command, at.inside, fmt.Sprintf("\x00%d\x00", i))
	}
	for i, at := range p.longestFirst(func(a place) string { return a.inside }) {
		command = strings.ReplaceAll(command, fmt.Sprintf("\x00%d\x00", i), at.host)
	}
	return command
}

// hide replaces the paths of the host in an output by those of the sandbox.
func (p places) hide(output []byte) []byte {
	text := string(output)
	for _, at := range p.longestFirst(func(a place) string { return a.host }) {
		text = replaceName(text, at.host, at.inside)
	}
	if text == string(output) {
		return output
	}
	return []byte(text)
}

// longestFirst orders places by the length of a path: one may be inside another.
func (p places) longestFirst(path func(place) string) places {
	return slices.SortedStableFunc(slices.Values(p), func(a, b place) int { return len(path(b)) - len(path(a)) })
}

// replaceName replaces a path, and the beginnings of paths below it. Part of a longer name is not
// the path.
func replaceName(text, path, by string) string {
	var b strings.Builder
	done := 0
	for from := 0; ; {
		i := strings.Index(text[from:], path)
		if i < 0 {
			b.WriteString(text[done:])
			return b.String()
		}
		at := from + i
		end := at + len(path)
		from = at + 1
		if (at == 0 || !inName(text[at-1]) && text[at-1] != '/') && (end == len(text) || !inName(text[end])) {
			b.WriteString(text[done:at])
			b.WriteString(by)
			done, from = end, end
		}
	}
}

func inName(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}
