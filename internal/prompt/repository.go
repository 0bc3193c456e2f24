package prompt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits on the description of a repository in a prompt. The description costs tokens in each call
// of a conversation, and the repository's author controls its names and texts.
const (
	// listedFiles is the maximum number of files listed in a prompt.
	listedFiles = 1500
	// listedBytes is the maximum size of that list.
	listedBytes = 64 << 10
	// ExcerptBytes is the maximum size of one file's excerpt for the planner.
	ExcerptBytes = 2 << 10
	// ExcerptsBytes is the maximum size of all excerpts together.
	ExcerptsBytes = 16 << 10
	// MaxExcerptFile is the maximum size of a file that is excerpted.
	MaxExcerptFile = 1 << 20
)

// descriptive lists files at a repository's root that describe it, the most important first.
var descriptive = []string{
	"go.mod", "package.json", "pyproject.toml", "Cargo.toml", "pom.xml", "build.gradle", "build.gradle.kts", "requirements.txt", "Makefile",
}

// FileList lists files, one per line, up to the limits of a prompt.
func FileList(files []string) string {
	var b strings.Builder
	for i, name := range files {
		line := ShownPath(name)
		if i == listedFiles || b.Len()+len(line)+1 > listedBytes {
			fmt.Fprintf(&b, "… and %d more", len(files)-i)
			break
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// ShownPath returns a path on one line: a path with line breaks or other invisible characters,
// which could be mistaken for something else, is quoted.
func ShownPath(name string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.ValidString(name) && !strings.ContainsFunc(name, hidden) {
		return name
	}
	return strconv.QuoteToGraphic(name)
}

// DescriptiveFiles returns the files in a sorted list that describe the repository: a README first,
// then manifests.
func DescriptiveFiles(files []string) []string {
	var out []string
	for _, name := range files {
		stem, _, _ := strings.Cut(name, ".")
		if strings.EqualFold(stem, "readme") && !strings.ContainsRune(name, '/') && ShownPath(name) == name {
			out = append(out, name)
			break
		}
	}
	for _, name := range descriptive {
		if _, there := slices.BinarySearch(files, name); there {
			out = append(out, name)
		}
	}
	return out
}

// Beginning cuts a text at the end of a line, and marks the cut.
func Beginning(text string, most int) string {
	if len(text) <= most {
		return text
	}
	const cut = "\n… (cut)"
	text = strings.ToValidUTF8(text[:max(0, most-len(cut))], "")
	if at := strings.LastIndexByte(text, '\n'); at > 0 {
		text = text[:at]
	}
	return text + cut
}
