package verify

import (
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

var (
	unittestCase = regexp.MustCompile(`^\s*(\S+) \(([\w.]+)\)(.*)$`)
	unittestEnd  = regexp.MustCompile(`\.\.\. *(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)\s*$`)
	unittestHead = regexp.MustCompile(`^(ERROR|FAIL): (\S+)(?: \(([\w.]+)\))?(.*)$`)
	unittestRan  = regexp.MustCompile(`^Ran (\d+) tests? in `)
	pythonError  = regexp.MustCompile(`^(?:E\s+)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Failed|Iteration|NotFound)?)(?:: (.*))?$`)
)

// unittestParser collects cases by id. A result stands at the end of the line
// that names the test or of one below it, since a test can have a docstring or
// print something itself.
type unittestParser struct {
	out     parsed
	index   map[string]int // test → case
	current string         // the test whose result is to come
	ran     int            // how many the runner says it ran; -1: it did not say
	site    site
}

// parseUnittest reads what python3 -m unittest -v prints. The reports at the
// end name again what failed; where they and the lines before disagree, the
// reports count.
func parseUnittest(data []byte, s site) parsed {
	p := unittestParser{index: map[string]int{}, ran: -1, site: s}
	all := lines(data)
	for n := range all {
		p.line(all, n)
	}
	passed := 0
	for _, c := range p.out.cases {
		if c.Status == contract.TestPassed {
			passed++
		}
	}
	if p.ran >= 0 && p.ran < passed {
		// Lines of the tests' own look like results.
		p.out.problems = append(p.out.problems, problem{
			level:   levelWarning,
			message: "the output names " + itoa(passed) + " passed tests, but only " + itoa(p.ran) + " were run",
		})
	}
	return p.out
}

func (p *unittestParser) line(all []string, n int) {
	line := clean(all[n])
	if m := unittestRan.FindStringSubmatch(line); m != nil {
		p.ran = number(m[1])
	}
	if m := unittestHead.FindStringSubmatch(line); m != nil && n > 0 && strings.HasPrefix(all[n-1], "=====") {
		p.report(unittestFailure(m, all[n+1:], p.site))
		p.current = ""
		return
	}
	if m := unittestCase.FindStringSubmatch(line); m != nil {
		p.current = unittestID(m[1], m[2])
	}
	if m := unittestEnd.FindStringSubmatch(line); m != nil && p.current != "" {
		if _, seen := p.index[p.current]; !seen {
			p.add(unittestResult(p.current, m[1]))
		}
		p.current = ""
	}
}

// report takes in a failure: the first one that says why.
func (p *unittestParser) report(c testCase) {
	at, seen := p.index[c.test]
	if !seen {
		p.add(c)
		return
	}
	if known := p.out.cases[at]; known.Status != contract.TestFailed || known.Message == "" {
		p.out.cases[at] = c
	}
}

func (p *unittestParser) add(c testCase) {
	if len(p.out.cases) < 2*maxCases {
		p.index[c.test] = len(p.out.cases)
		p.out.cases = append(p.out.cases, c)
	}
}

// unittestID: since Python 3.11 the brackets hold the test as well.
func unittestID(test, class string) string {
	if strings.HasSuffix(class, "."+test) {
		return class
	}
	return class + "." + test
}

func unittestResult(id, result string) testCase {
	c := testCase{test: id}
	c.Name = name(id)
	switch {
	case result == "ok", result == "expected failure":
		c.Status = contract.TestPassed
	case strings.HasPrefix(result, "skipped"):
		c.Status = contract.TestSkipped
		c.Message = message(strings.Trim(strings.TrimPrefix(result, "skipped"), ` '"`))
	default:
		c.Status = contract.TestFailed
		if result == "unexpected success" {
			c.Message = result
		}
	}
	return c
}

// unittestFailure reads one report with its traceback.
func unittestFailure(m []string, below []string, s site) testCase {
	class := m[3]
	if class == "" {
		class = "unittest"
	}
	c := testCase{test: unittestID(m[2], class)}
	c.Status = contract.TestFailed
	c.Name = name(c.test)
	var body []string
	for n, line := range below {
		if n > 400 || strings.HasPrefix(line, "=====") || n > 1 && strings.HasPrefix(line, "-----") {
			break
		}
		body = append(body, clean(line))
	}
	text := strings.Join(body, "\n")
	c.Message = message(pythonReason(text))
	for _, p := range places(text, s) {
		c.Location, c.file = p.location(), p.path
	}
	return c
}

// pythonReason is the line of a traceback that names the exception, with the
// rest of a message of several lines.
func pythonReason(body string) string {
	all := strings.Split(body, "\n")
	for n := len(all) - 1; n >= 0; n-- {
		line := strings.TrimSpace(all[n])
		if pythonError.MatchString(line) {
			return strings.TrimSpace(strings.TrimPrefix(line, "E "))
		}
	}
	return firstLine(body)
}
