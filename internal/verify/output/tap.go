package output

import (
	"cmp"
	"path"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

var (
	tapLine = regexp.MustCompile(`^( *)(not )?ok\b(?: +(\d+))?(?:\s*-)?\s*(.*)$`)
	tapPlan = regexp.MustCompile(`^( *)1\.\.(\d+)(?:\s*#\s*(.*))?$`)
	tapBail = regexp.MustCompile(`^Bail out!\s*(.*)$`)
	tapTag  = regexp.MustCompile(`(?i)\s+#\s*(skip|todo)\S*\s*(.*)$`)
	tapYAML = regexp.MustCompile(`^ *(\w+): *(.*)$`)
)

const maxTAPDepth = 100

// tapPoint is a test point with the diagnostics below it.
type tapPoint struct {
	indent   int
	number   int // 0 if the runner prints none
	ok       bool
	title    string
	tag      string // skip, todo
	why      string
	yaml     map[string]string
	children []tapPoint
}

// parseTAP reads the Test Anything Protocol, version 13 and 14, with indented subtests as node's
// runner writes them. Nested points are the cases; the enclosing point is their group. cut reports
// that the middle is missing.
//
// If the runner ends with its own summary (node, mocha, tape), the counts are taken from there:
// node also counts the parents of subtests, and tape counts assertions.
func parseTAP(data []byte, s Paths, cut bool) Results {
	out := tapOf(data, s, cut, false)
	out.Reported = tapSums(data, &out)
	return out
}

// parseAva reads the TAP of ava. Its plan excludes exceptions outside tests and messages about
// files, because they are not tests.
func parseAva(data []byte, s Paths, cut bool) Results { return tapOf(data, s, cut, true) }

func tapOf(data []byte, s Paths, cut, planOnly bool) Results {
	t := tapParser{planned: -1}
	for _, line := range Lines(data) {
		t.line(line)
	}
	var out Results
	for _, p := range t.points[0] {
		if planOnly && !p.ok && t.planned >= 0 && p.number > t.planned {
			out.Unexplained = true
			out.Problems = append(out.Problems, p.problem(s))
			continue
		}
		tapCases(&out, p, "", s)
	}
	// Points left below the top level belong to an enclosing point that is missing.
	for _, level := range t.points[1:] {
		for _, p := range level {
			tapCases(&out, p, "", s)
		}
	}
	t.judge(&out, cut)
	return out
}

// problem converts a point that is not a test into a problem.
func (p tapPoint) problem(s Paths) Problem {
	out := Problem{Level: Error, Rule: "test-file", Message: Message(p.title)}
	if at := locations(p.yaml["stack"]+"\n"+p.yaml["at"], s); len(at) > 0 {
		out.Path, out.Line = at[0].Path, at[0].Line
	}
	return out
}

var tapSum = regexp.MustCompile(`^# (tests|pass|fail|cancelled|skipped|skip|todo)\s+(\d+)$`)

// tapSums adds up the summaries at the end of each TAP document, and returns nil if there are none.
// A todo test has not passed, even if the runner counts it as passed.
func tapSums(data []byte, p *Results) *contract.TestSummary {
	var all []map[string]int
	sums := map[string]int{}
	for _, line := range append(Lines(data), "TAP version 13") {
		if strings.HasPrefix(line, "TAP version 1") {
			if _, ok := sums["pass"]; ok {
				all = append(all, sums)
			}
			sums = map[string]int{}
		}
		if m := tapSum.FindStringSubmatch(line); m != nil {
			sums[m[1]] = Number(m[2])
		}
	}
	if len(all) == 0 {
		return nil
	}
	var out contract.TestSummary
	uncounted := todoCases(p.Cases) // todo tests that the summaries count as passed
	tells := true
	for _, s := range all {
		out.Passed += s["pass"]
		out.Failed += s["fail"] + s["cancelled"]
		out.Skipped += s["skipped"] + s["skip"] + s["todo"]
		uncounted -= s["todo"]
		_, counted := s["todo"]
		tells = tells && counted
	}
	if !tells {
		out.Passed = max(0, out.Passed-max(0, uncounted))
	}
	out.Skipped = max(out.Skipped, Summarize(p.Cases).Skipped)
	return &out
}

// todoCases counts the todo tests.
func todoCases(cases []Case) int {
	todo := 0
	for _, c := range cases {
		if c.Status == contract.TestSkipped && strings.HasPrefix(c.Message, "todo") {
			todo++
		}
	}
	return todo
}

// tapParser collects points without an enclosing point so far, one list for each level of
// indentation.
type tapParser struct {
	points  [maxTAPDepth][]tapPoint
	last    *tapPoint
	yaml    bool
	key     string // of a YAML block scalar
	indent  int    // of the YAML block
	planned int
	seen    int
	bail    string
	count   int
}

func (t *tapParser) line(line string) {
	if t.yaml {
		t.diagnostic(line)
		return
	}
	if m := tapBail.FindStringSubmatch(line); m != nil {
		t.bail = "the tests bailed out: " + m[1]
		return
	}
	if m := tapPlan.FindStringSubmatch(line); m != nil && m[1] == "" {
		t.planned = Number(m[2])
		return
	}
	if m := tapLine.FindStringSubmatch(line); m != nil {
		t.point(m)
		return
	}
	if t.last != nil && strings.TrimSpace(line) == "---" {
		t.yaml, t.key, t.indent = true, "", len(line)-len(strings.TrimLeft(line, " "))
	}
}

func (t *tapParser) point(m []string) {
	t.count++
	if t.count > 2*MaxCases {
		return
	}
	p := tapPoint{indent: len(m[1]) / 4, number: Number(m[3]), ok: m[2] == "", title: m[4], yaml: map[string]string{}}
	p.indent = min(p.indent, maxTAPDepth-2)
	if tag := tapTag.FindStringSubmatchIndex(" " + p.title); tag != nil {
		padded := " " + p.title
		p.tag, p.why = strings.ToLower(padded[tag[2]:tag[3]]), padded[tag[4]:tag[5]]
		p.title = strings.TrimSpace(padded[:tag[0]])
	}
	p.title = strings.NewReplacer(`\#`, "#", `\\`, `\`).Replace(p.title)
	if p.indent == 0 {
		t.seen++
	}
	p.children, t.points[p.indent+1] = t.points[p.indent+1], nil
	t.points[p.indent] = append(t.points[p.indent], p)
	t.last = &t.points[p.indent][len(t.points[p.indent])-1]
}

// diagnostic reads the YAML block of a point: scalars and one level of text blocks, the only forms
// that runners use for a failure.
func (t *tapParser) diagnostic(line string) {
	trimmed := strings.TrimSpace(line)
	depth := len(line) - len(strings.TrimLeft(line, " "))
	switch {
	case trimmed == "..." && depth <= t.indent:
		t.yaml = false
	case t.key != "" && (depth > t.indent || trimmed == ""):
		if v := t.last.yaml[t.key]; len(v) < 4*MaxMessage {
			t.last.yaml[t.key] = v + trimmed + "\n"
		}
	default:
		t.key = ""
		m := tapYAML.FindStringSubmatch(line)
		if m == nil || len(t.last.yaml) > 50 {
			return
		}
		if strings.HasPrefix(m[2], "|") || strings.HasPrefix(m[2], ">") {
			t.key, m[2] = m[1], ""
		}
		t.last.yaml[m[1]] = strings.Trim(m[2], `'"`)
	}
}

// judge adds problems from the plan and from a bail-out.
func (t *tapParser) judge(out *Results, cut bool) {
	if t.bail != "" {
		out.Unexplained = true
		out.Problems = append(out.Problems, Problem{Level: Error, Message: Message(t.bail)})
	}
	if !cut && t.bail == "" && t.planned > t.seen {
		out.Problems = append(out.Problems, Problem{Level: Warning, Message: "the tests announced " + itoa(t.planned) + " results but reported " + itoa(t.seen)})
	}
}

// tapCases flattens a point, and returns how many cases failed. A point without children is a case.
func tapCases(out *Results, p tapPoint, group string, s Paths) (failed int) {
	title := p.title
	if f := s.Rel(title); f != "" && path.IsAbs(title) {
		title = f // a file of node's runner
	}
	if group != "" {
		title = Name(group + " › " + Bound(title, maxName))
	}
	emptySuite := p.yaml["type"] == "suite" && p.ok
	if len(p.children) == 0 && emptySuite {
		return 0
	}
	for _, c := range p.children {
		failed += tapCases(out, c, title, s)
	}
	// A group itself can fail because of a hook.
	byItself := !p.ok && p.tag == "" && p.yaml["failureType"] != "subtestsFailed" && failed == 0
	if len(p.children) > 0 && !byItself {
		return failed
	}
	c := p.testCase(title, s)
	out.Cases = append(out.Cases, c)
	if c.Status == contract.TestFailed {
		failed++
	}
	return failed
}

func (p tapPoint) testCase(title string, s Paths) Case {
	var c Case
	c.Name = Name(title)
	c.Name = cmp.Or(c.Name, "unnamed test")
	c.DurationMS = milliseconds(float(p.yaml["duration_ms"]) / 1000)
	file, line := splitLocation(p.yaml["location"])
	if file == "" {
		file, line = p.yaml["file"], Number(p.yaml["line"])
	}
	c.File = s.Rel(file)
	switch {
	case p.tag == "skip", p.tag == "todo":
		// A todo test has not passed, whatever its result.
		c.Status, c.Message = contract.TestSkipped, Message(p.tag+" "+p.why)
	case p.ok:
		c.Status = contract.TestPassed
	default:
		c.Status = contract.TestFailed
		c.Location = Location(c.File, line)
		c.Message = Message(p.reason())
		if at := locations(p.yaml["stack"]+"\n"+p.yaml["at"], s); len(at) > 0 {
			c.Location = at[0].Location()
		}
	}
	return c
}

func (p tapPoint) reason() string {
	for _, key := range []string{"error", "message", "stack"} {
		if p.yaml[key] != "" {
			return p.yaml[key]
		}
	}
	return ""
}

var fileAndLine = regexp.MustCompile(`^(.*?):(\d+)(?::\d+)?$`)

func splitLocation(s string) (string, int) {
	if m := fileAndLine.FindStringSubmatch(strings.TrimSpace(s)); m != nil {
		return m[1], Number(m[2])
	}
	return "", 0
}
