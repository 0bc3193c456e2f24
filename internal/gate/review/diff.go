package review

import (
	"bufio"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// fileHeader begins the diff of a file. No other line of a diff does: those of files begin with a
// space, a plus or a minus.
const fileHeader = "diff --git "

// note says, within a diff, that a part of it is missing.
const note = "[the rest of this file's diff is not shown: %d more bytes]\n"

// Fit returns a diff that is at most most bytes long, except for the notes about what is missing. Small
// files are whole; the large ones share what is left equally. cut are the names of the cut files.
func Fit(diff string, most int) (text string, cut []string) {
	if len(diff) <= most {
		return diff, nil
	}
	files := split(diff)
	share := shares(files, most)
	var b strings.Builder
	for _, f := range files {
		if len(f) <= share {
			b.WriteString(f)
			continue
		}
		cut = append(cut, nameOf(f))
		kept := f[:strings.LastIndexByte(f[:share], '\n')+1]
		b.WriteString(kept)
		fmt.Fprintf(&b, note, len(f)-len(kept))
	}
	return b.String(), cut
}

// Names returns the names of the files of a diff.
func Names(diff string) []string {
	var out []string
	for _, f := range split(diff) {
		out = append(out, nameOf(f))
	}
	return out
}

// nameOf returns the name of the file of a diff, or both names if they differ.
func nameOf(file string) string {
	header, _, _ := strings.Cut(strings.TrimPrefix(file, fileHeader), "\n")
	if half := len(header) / 2; len(header)%2 == 1 && header[half] == ' ' {
		if old, is := strings.CutPrefix(header[:half], "a/"); is && header[half+1:] == "b/"+old {
			return old
		}
	}
	return header
}

// split divides a diff into those of its files.
func split(diff string) []string {
	var out []string
	for diff != "" {
		end := strings.Index(diff[1:], "\n"+fileHeader)
		if end < 0 {
			return append(out, diff)
		}
		out, diff = append(out, diff[:end+2]), diff[end+2:]
	}
	return out
}

// shares returns the largest size of a file's diff with which all of them fit.
func shares(files []string, most int) int {
	sizes := make([]int, len(files))
	for i, f := range files {
		sizes[i] = len(f)
	}
	slices.Sort(sizes)
	left := most
	for i, size := range sizes {
		share := left / (len(sizes) - i)
		if size > share {
			return share
		}
		left -= size
	}
	return most
}

// hunk is the header of a hunk: the lines of the old version, and those of the new one.
var hunk = regexp.MustCompile(`^@@ -\d+(?:,(\d+))? \+(\d+)(?:,(\d+))? @@`)

// Numbered returns a unified diff in which the lines of the new version begin with their numbers, so
// that a model can name them.
func Numbered(diff string) string {
	var b strings.Builder
	line, oldLeft, newLeft := 0, 0, 0
	lines := bufio.NewScanner(strings.NewReader(diff))
	lines.Buffer(nil, len(diff)+1)
	for lines.Scan() {
		text := lines.Text()
		switch {
		case oldLeft+newLeft == 0 || text == "":
			if m := hunk.FindStringSubmatch(text); m != nil {
				oldLeft, line, newLeft = count(m[1]), number(m[2]), count(m[3])
			}
			b.WriteString(text)
		case text[0] == '-':
			oldLeft--
			b.WriteString("       " + text)
		case text[0] == '+' || text[0] == ' ':
			if newLeft--; text[0] == ' ' {
				oldLeft--
			}
			fmt.Fprintf(&b, "%6d %s", line, text)
			line++
		default: // a note, such as that the file does not end with a newline
			b.WriteString(text)
		}
		b.WriteByte('\n')
		oldLeft, newLeft = max(0, oldLeft), max(0, newLeft)
	}
	return b.String()
}

// count reads the number of lines of a hunk, which is omitted if it is 1.
func count(text string) int {
	if text == "" {
		return 1
	}
	return number(text)
}

func number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// answerLine is the line of a summary that answers a finding: "R1: fixed: …", also as an item of a list.
var answerLine = regexp.MustCompile(`(?m)^[\s*\-#>]*\**(R\d{1,4})\**\s*[:.)\-–—]+\s*(\S.*)$`)

// Answers reads the answers to findings from the summary with which an agent finishes, by their ids.
func Answers(summary string) map[string]string {
	out := map[string]string{}
	for _, m := range answerLine.FindAllStringSubmatch(summary, -1) {
		if text := Text(m[2], MaxText); out[m[1]] == "" && text != "" {
			out[m[1]] = text
		}
	}
	return out
}

// Unanswered returns those ids of findings that a summary does not answer.
func Unanswered(summary string, ids []string) []string {
	if len(ids) == 0 {
		return nil
	}
	answers := Answers(summary)
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return answers[id] != "" })
}
