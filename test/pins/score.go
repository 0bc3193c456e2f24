package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/internal/pin"
)

// score counts findings with and without a label, and labels without a finding.
type score struct {
	cases     int // commits or mutations
	right     int // forbidden findings with a label
	wrong     int // forbidden findings without one
	found     map[pin.Kind]int
	labels    map[pin.Kind]int
	otherKind int // findings with a label of another forbidden kind
	edits     int // findings that a test or helper was edited
	untouched int // of these, those whose text is the same before and after
	lines     []string
}

func (s *score) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// addCommit compares the findings of a commit with its labels.
func (s *score) addCommit(ctx context.Context, repo string, c commit, files []pin.File) error {
	return s.add(ctx, repo+" "+c.ID[:12], files, c.Removed)
}

func (s *score) add(ctx context.Context, where string, files []pin.File, labels []label) error {
	problems, err := pin.Check(ctx, files)
	if err != nil {
		return err
	}
	if s.labels == nil {
		s.labels, s.found = map[pin.Kind]int{}, map[pin.Kind]int{}
	}
	s.cases++
	met := make([]bool, len(labels))
	for _, p := range problems {
		if !p.Kind.Forbidden() {
			s.addEdit(where, p, files)
			continue
		}
		known, sameKind := false, false
		for i, l := range labels {
			if matches(p, l) {
				known, met[i] = true, true
				sameKind = sameKind || p.Kind == l.Kind
			}
		}
		switch {
		case !known:
			s.wrong++
			s.say("wrong  %s %s: %s %s", where, place(p), p.Kind, p.Message)
		case !sameKind:
			s.otherKind++
			fallthrough
		default:
			s.right++
		}
	}
	for i, l := range labels {
		if l.Borderline {
			continue
		}
		s.labels[l.Kind]++
		if met[i] {
			s.found[l.Kind]++
		} else {
			s.say("missed %s %s: %s %s (%s)", where, l.Path, l.Kind, l.Test, l.Why)
		}
	}
	return nil
}

func place(p pin.Problem) string { return fmt.Sprintf("%s:%d", p.Path, p.Line) }

// addEdit checks the claim that something was edited: its text must not have been in the
// file before.
func (s *score) addEdit(where string, p pin.Problem, files []pin.File) {
	s.edits++
	i := slices.IndexFunc(files, func(f pin.File) bool { return f.Path == p.Path })
	if i < 0 || p.Line == 0 || !files[i].Exists {
		return
	}
	if block := blockAt(files[i].After, p.Line); len(block) > 0 && containsBlock(files[i].Before, block) {
		s.untouched++
		s.say("untouched %s %s: %s", where, place(p), p.Message)
	}
}

// containsBlock reports whether a file contains a definition with this text and no more lines.
func containsBlock(data, block []byte) bool {
	for {
		at := bytes.Index(data, block)
		if at < 0 {
			return false
		}
		data = data[at+len(block):]
		if next := bytes.TrimLeft(data, "\r\n"); len(next) < len(data) && indent(next) <= indent(block) || len(data) == 0 {
			return true
		}
	}
}

// blockAt returns the lines of the definition that begins at a line, with the decorators and
// attributes above it: up to the next line that is not indented more and does not close it.
func blockAt(data []byte, line int) []byte {
	lines := bytes.SplitAfter(data, []byte("\n"))
	if line > len(lines) {
		return nil
	}
	start, end := line-1, line
	first := indent(lines[start])
	for ; end < len(lines); end++ {
		text := bytes.TrimSpace(lines[end])
		if bytes.HasPrefix(lines[start], []byte("func ")) { // gofmt closes it in the first column
			if bytes.HasPrefix(lines[end], []byte("}")) {
				end++
				break
			}
		} else if len(text) > 0 && indent(lines[end]) <= first && text[0] != '{' && bytes.Count(bytes.Join(lines[start:end], nil), []byte{'"'})%2 == 0 {
			if bytes.ContainsAny(text[:1], ")}]") {
				end++
				if bytes.HasSuffix(text, []byte(":")) || bytes.HasSuffix(text, []byte("{")) {
					end-- // it closes the parameters
					continue
				}
			}
			break
		}
	}
	for start > 0 && indent(lines[start-1]) >= first && bytes.ContainsAny(lines[start-1][first:first+1], "@#)") {
		start--
	}
	return bytes.TrimRight(bytes.Join(lines[start:end], nil), " \t\n")
}

func indent(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " \t")) }

// nameParts separates the parts of a test's name in any notation.
var nameParts = regexp.MustCompile(`\s*(?:/|::| > | › |#)\s*`)

// matches reports whether a finding is about the test of a label. A finding about a group
// covers the tests in it, and the reverse.
func matches(p pin.Problem, l label) bool {
	for _, name := range p.Leaning {
		test := p
		test.Test, test.Leaning = name, nil
		if matches(test, l) {
			return true
		}
	}
	if p.Test == "" || l.Test == "" {
		return p.Path == l.Path || base(p.Path) == base(l.Path)
	}
	if p.Was != "" {
		was := p
		was.Test, was.Was = p.Was, ""
		if matches(was, l) {
			return true
		}
	}
	a, b := parts(p.Test), parts(l.Test)
	last, lastOfLabel := a[len(a)-1], b[len(b)-1]
	dynamic := len(last) > minTitle && strings.HasPrefix(lastOfLabel, last) // the title is put together at run time
	return slices.Contains(a, lastOfLabel) || slices.Contains(b, last) || dynamic
}

// minTitle is the shortest beginning of a title that tells tests apart.
const minTitle = 12

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// duplicate matches the number of a test whose name occurs more than once.
var duplicate = regexp.MustCompile(` #\d+$`)

// caseID matches the case of a parametrized test in the notation of pytest: findings name the test alone.
var caseID = regexp.MustCompile(`^([\w:.]+)\[[^\[\]]+\]$`)

// methodWithSpaces matches the name of a Kotlin test whose method has a name with spaces.
var methodWithSpaces = regexp.MustCompile(`^([A-Z]\w*)\.([^/:>›#]* [^/:>›#]*)$`)

// parts splits the name of a test and simplifies each part.
func parts(name string) []string {
	var out []string
	name = caseID.ReplaceAllString(duplicate.ReplaceAllString(name, ""), "$1")
	if m := methodWithSpaces.FindStringSubmatch(name); m != nil {
		out, name = append(out, parts(m[1])...), m[2]
	} else if i := strings.LastIndexByte(name, '.'); i > 0 && !strings.ContainsAny(name, " /:") {
		out = append(out, parts(name[:i])...) // Class.method, module.function
		name = name[i+1:]
	}
	for _, part := range nameParts.Split(name, -1) {
		part = strings.ToLower(strings.Map(func(r rune) rune {
			if strings.ContainsRune(" _'\"`()[]\\.-,:;", r) {
				return -1
			}
			return r
		}, part))
		if part != "" {
			out = append(out, part)
		}
	}
	if len(out) == 0 {
		return []string{name}
	}
	return out
}

func percent(n, of int) string {
	if of == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f %% (%d of %d)", 100*float64(n)/float64(of), n, of)
}

// print prints the counts, and each disagreement.
func (s *score) print(title string) {
	slices.Sort(s.lines)
	for _, l := range s.lines {
		fmt.Println(l)
	}
	labels, found := 0, 0
	for _, n := range s.labels {
		labels += n
	}
	for _, n := range s.found {
		found += n
	}
	fmt.Printf("\n%s: %d\n  precision            %s\n  recall               %s\n", title, s.cases, percent(s.right, s.right+s.wrong), percent(found, labels))
	for _, k := range slices.Sorted(maps.Keys(s.labels)) {
		fmt.Printf("    %-18s %s\n", k, percent(s.found[k], s.labels[k]))
	}
	fmt.Printf("  found as another kind %d\n  edits reported       %d, of which untouched %d\n\n", s.otherKind, s.edits, s.untouched)
}
