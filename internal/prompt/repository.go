package prompt

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// What a prompt says about a repository. It costs tokens in each call of a
// conversation, and names and texts are whatever the repository's author chose.
const (
	// listedFiles is how many files a prompt names at most.
	listedFiles = 1500
	// listedBytes is how long that list is at most.
	listedBytes = 64 << 10
	// ExcerptBytes is how much of one file the planner sees.
	ExcerptBytes = 4 << 10
	// ExcerptsBytes is how much of all of them together.
	ExcerptsBytes = 16 << 10
	// MaxExcerptFile is the largest file that is excerpted.
	MaxExcerptFile = 1 << 20
)

// descriptive are the files at a repository's root that say what it is, the most
// important first.
var descriptive = []string{
	"go.mod", "package.json", "pyproject.toml", "Cargo.toml", "pom.xml", "build.gradle", "build.gradle.kts", "requirements.txt", "Makefile",
}

// FileList names files, one per line, as far as they fit a prompt.
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

// ShownPath is a path on one line: one with line breaks or other invisible characters,
// with which it could pass for something else, is quoted.
func ShownPath(name string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.ValidString(name) && !strings.ContainsFunc(name, hidden) {
		return name
	}
	return strconv.QuoteToGraphic(name)
}

// DescriptiveFiles returns which files of a sorted list say what the repository
// is: a README first, then manifests.
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

// Beginning cuts a text at a line, and says so.
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
