package tool

import (
	"fmt"
	"strings"
	"unicode"
)

const (
	// comparedLines and comparedTarget limit the lines of a file, and of a wanted text, that are
	// compared to find the nearest ones.
	comparedLines, comparedTarget = 20_000, 40
	// shownNear limits the lines shown of the nearest text.
	shownNear = 20
	// leastAlike is the similarity from which a text counts as near, of 100.
	leastAlike = 45
)

// nearMatches describes the text of a file that is nearest to the wanted one: equal except for
// whitespace, whose differences it names, or with the most similar lines.
func nearMatches(content, wanted string) string {
	lines := strings.Split(content, "\n")
	target := squeezeLines(wanted)
	if len(target) == 0 {
		return "old_text contains only whitespace."
	}
	if at, end := findSqueezed(lines, target); at >= 0 {
		var text strings.Builder
		fmt.Fprintf(&text, "The same text with different spaces or line breaks is at line %d", at+1)
		if how := spaceDifference(wanted, lines[at:end]); how != "" {
			text.WriteString(" (" + how + ")")
		}
		text.WriteString("; copy it from here, without the line numbers:\n")
		for i := at; i < min(end, at+shownNear); i++ {
			numbered(&text, i+1, lines[i], maxHitBytes)
		}
		return text.String()
	}
	at, alike := nearest(lines, target)
	if alike < leastAlike {
		return "Nothing similar was found; read the file again."
	}
	var text strings.Builder
	var differ []int
	for i := range min(len(target), len(lines)-at) {
		if squeeze(lines[at+i]) != target[i] {
			differ = append(differ, at+i+1)
		}
	}
	fmt.Fprintf(&text, "The nearest text is at line %d; different lines: %s. Similar lines:\n", at+1, join(differ))
	for i := at; i < min(at+len(target), at+shownNear, len(lines)); i++ {
		numbered(&text, i+1, lines[i], maxHitBytes)
	}
	return text.String() + "Copy the text exactly as it is here, without the line numbers."
}

// squeezeLines returns the non-empty lines of a text, each with its runs of spaces reduced to one.
func squeezeLines(text string) []string {
	var lines []string
	for line := range strings.Lines(text) {
		if s := squeeze(line); s != "" {
			lines = append(lines, s)
		}
	}
	return lines
}

func squeeze(line string) string { return strings.Join(strings.Fields(line), " ") }

// findSqueezed returns the index of the line where the squeezed lines begin and the one after they
// end, or -1.
func findSqueezed(lines, target []string) (from, to int) {
	var text []string
	var index []int
	for i, line := range lines {
		if s := squeeze(line); s != "" {
			text, index = append(text, s), append(index, i)
		}
	}
	for i := 0; i+len(target) <= len(text); i++ {
		if startsWith(text[i:], target) {
			return index[i], index[i+len(target)-1] + 1
		}
	}
	return -1, -1
}

func startsWith(lines, target []string) bool {
	for i, t := range target {
		if lines[i] != t {
			return false
		}
	}
	return true
}

// spaceDifference names the first difference in whitespace between a wanted text and the lines of a
// file with the same words.
func spaceDifference(wanted string, lines []string) string {
	given := strings.Split(strings.Trim(wanted, "\n"), "\n")
	for i := range min(len(given), len(lines)) {
		want, has := given[i], strings.TrimSuffix(lines[i], "\r")
		if want == has {
			continue
		}
		if (squeeze(want) == "") != (squeeze(has) == "") {
			return fmt.Sprintf("line %d of old_text: the blank lines differ", i+1)
		}
		if a, b := indentOf(want), indentOf(has); a != b {
			return fmt.Sprintf("line %d of old_text is indented with %s, the file with %s", i+1, spacesIn(a), spacesIn(b))
		}
		if a, b := strings.TrimRightFunc(want, unicode.IsSpace), strings.TrimRightFunc(has, unicode.IsSpace); a == b {
			return fmt.Sprintf("line %d of old_text ends with %s, the file with %s", i+1, spacesIn(want[len(a):]), spacesIn(has[len(b):]))
		}
		return fmt.Sprintf("line %d of old_text has other spaces between its words", i+1)
	}
	return ""
}

func indentOf(line string) string { return line[:len(line)-len(strings.TrimLeft(line, " \t"))] }

// spacesIn describes whitespace in words.
func spacesIn(s string) string {
	tabs, spaces := strings.Count(s, "\t"), strings.Count(s, " ")
	var parts []string
	for _, c := range []struct {
		n    int
		noun string
	}{{tabs, "tab"}, {spaces, "space"}, {len(s) - tabs - spaces, "other character"}} {
		switch {
		case c.n == 1:
			parts = append(parts, "1 "+c.noun)
		case c.n > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", c.n, c.noun))
		}
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " and ")
}

// nearest returns the index of the line from which on the lines of a file are most similar to the
// target, and how similar they are, of 100.
func nearest(lines, target []string) (at, alike int) {
	lines, target = lines[:min(len(lines), comparedLines)], target[:min(len(target), comparedTarget)]
	words := make([]map[string]int, len(target))
	for i, t := range target {
		words[i] = wordsOf(t)
	}
	scores := make([]int, len(lines)) // of the target that would begin there, times its lines
	for i, line := range lines {
		s := squeeze(line)
		if s == "" {
			continue
		}
		own := wordsOf(s)
		for j := range target {
			if i-j < 0 {
				break
			}
			if s == target[j] {
				scores[i-j] += 100
			} else {
				scores[i-j] += similarity(own, words[j])
			}
		}
	}
	for i, score := range scores {
		if score/len(target) > alike {
			at, alike = i, score/len(target)
		}
	}
	return at, alike
}

// wordsOf counts the words of a line.
func wordsOf(line string) map[string]int {
	words := map[string]int{}
	for _, w := range strings.FieldsFunc(line, notInWord) {
		words[w]++
	}
	return words
}

// similarity returns how many of the words of two lines are the same, of 100.
func similarity(a, b map[string]int) int {
	shared, total := 0, 0
	for w, n := range a {
		shared += min(n, b[w])
		total += n
	}
	for _, n := range b {
		total += n
	}
	if total == 0 {
		return 0
	}
	return 200 * shared / total
}

func notInWord(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }
