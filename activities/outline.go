package activities

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/prompt"
	"github.com/rocketgpt/orchestrator/internal/telemetry"
)

// What a prompt tells of a repository. It is paid for with each call of a
// conversation, and names and texts are whatever the repository's author liked.
const (
	// listedFiles is how many files a prompt names at most.
	listedFiles = 1500
	// listedBytes is how long that list is at most.
	listedBytes = 64 << 10
	// excerptBytes is how much of one file the planner is shown.
	excerptBytes = 4 << 10
	// excerptsBytes is how much of all of them together.
	excerptsBytes = 16 << 10
	// excerptSource is the largest file of which an excerpt is made.
	excerptSource = 1 << 20
)

// telling are the files at a repository's root that say what it is, the most
// telling first.
var telling = []string{
	"go.mod", "package.json", "pyproject.toml", "Cargo.toml", "pom.xml", "build.gradle", "build.gradle.kts", "requirements.txt", "Makefile",
}

// listing names files, one a line, as far as they fit a prompt.
func listing(files []string) string {
	var b strings.Builder
	for i, name := range files {
		line := shownPath(name)
		if i == listedFiles || b.Len()+len(line)+1 > listedBytes {
			fmt.Fprintf(&b, "… and %d more", len(files)-i)
			break
		}
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// shownPath is a path on one line: one with line breaks or other characters that
// nobody sees, by which it could pass for something else, is quoted.
func shownPath(name string) string {
	hidden := func(r rune) bool { return !unicode.IsPrint(r) }
	if utf8.ValidString(name) && !strings.ContainsFunc(name, hidden) {
		return name
	}
	return strconv.QuoteToGraphic(name)
}

// excerpts returns the beginnings of the files that say what a repository is: its
// README and manifests.
func (a *Activities) excerpts(ctx context.Context, ws contract.Workspace, files []string) ([]prompt.Excerpt, error) {
	var out []prompt.Excerpt
	left := excerptsBytes
	for _, name := range tellingOf(files) {
		content, found, err := a.Workspaces.BaseFile(ctx, ws, name, excerptSource)
		if err != nil {
			return nil, err
		}
		if !found || !utf8.Valid(content) || left <= 0 {
			continue
		}
		text := beginning(telemetry.Redact(string(content)), min(left, excerptBytes))
		left -= len(text)
		out = append(out, prompt.Excerpt{Name: name, Text: text})
	}
	return out, nil
}

// tellingOf returns which telling files there are: a README first.
func tellingOf(files []string) []string {
	var out []string
	for _, name := range files {
		stem, _, _ := strings.Cut(name, ".")
		if strings.EqualFold(stem, "readme") && !strings.ContainsRune(name, '/') && shownPath(name) == name {
			out = append(out, name)
			break
		}
	}
	for _, name := range telling {
		if _, there := slices.BinarySearch(files, name); there {
			out = append(out, name)
		}
	}
	return out
}

// beginning cuts a text at a line, and says so.
func beginning(text string, most int) string {
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
