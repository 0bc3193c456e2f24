package output

import (
	"cmp"
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
	"github.com/rocketgpt/orchestrator/internal/fault"
)

var (
	unittestCase = regexp.MustCompile(`^\s*(\S+) \(([\w.]+)\)(.*)$`)
	unittestEnd  = regexp.MustCompile(`\.\.\. *(ok|FAIL|ERROR|skipped .*|expected failure|unexpected success)\s*$`)
	unittestHead = regexp.MustCompile(`^(ERROR|FAIL): (\S+)(?: \(([\w.]+)\))?(.*)$`)
	unittestRan  = regexp.MustCompile(`^Ran (\d+) tests? in `)
	pythonError  = regexp.MustCompile(`^(?:E\s+)?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure|Failed|Iteration|NotFound)?)(?:: (.*))?$`)
)

// unittestParser collects cases by id. A result is at the end of the line that names the test or of
// a later line, because a test can have a docstring or print output.
type unittestParser struct {
	out     Results
	index   map[string]int // test → case
	current string         // the test whose result has not been read
	ran     int            // number of tests according to the runner; -1 if unknown
	paths   Paths
}

// parseUnittest reads the output of python3 -m unittest -v. The reports at the end repeat the
// failures; if they contradict the earlier lines, the reports count.
func parseUnittest(data []byte, s Paths) Results {
	p := unittestParser{index: map[string]int{}, ran: -1, paths: s}
	all := Lines(data)
	for n := range all {
		p.line(all, n)
	}
	passed := 0
	for _, c := range p.out.Cases {
		if c.Status == contract.TestPassed {
			passed++
		}
	}
	if p.ran >= 0 && p.ran < passed {
		// Lines printed by the tests can look like results.
		p.out.Problems = append(p.out.Problems, Problem{
			Level:   Warning,
			Message: "the output lists " + itoa(passed) + " passed tests, but only " + itoa(p.ran) + " were run",
		})
	}
	return p.out
}

func (p *unittestParser) line(all []string, n int) {
	line := Clean(all[n])
	if m := unittestRan.FindStringSubmatch(line); m != nil {
		p.ran = Number(m[1])
	}
	if m := unittestHead.FindStringSubmatch(line); m != nil && n > 0 && strings.HasPrefix(all[n-1], "=====") {
		p.report(unittestFailure(m, all[n+1:], p.paths))
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

// report records a failure: the first one with a reason.
func (p *unittestParser) report(c Case) {
	at, seen := p.index[c.Test]
	if !seen {
		p.add(c)
		return
	}
	if known := p.out.Cases[at]; known.Status != contract.TestFailed || known.Message == "" {
		p.out.Cases[at] = c
	}
}

func (p *unittestParser) add(c Case) {
	if len(p.out.Cases) < 2*MaxCases {
		p.index[c.Test] = len(p.out.Cases)
		p.out.Cases = append(p.out.Cases, c)
	}
}

// unittestID returns the id of a test: since Python 3.11, the parentheses also contain the test
// name.
func unittestID(test, class string) string {
	if strings.HasSuffix(class, "."+test) {
		return class
	}
	return class + "." + test
}

func unittestResult(id, result string) Case {
	c := Case{Test: id}
	c.Name = Name(id)
	switch {
	case result == "ok", result == "expected failure":
		c.Status = contract.TestPassed
	case strings.HasPrefix(result, "skipped"):
		c.Status = contract.TestSkipped
		c.Message = Message(strings.Trim(strings.TrimPrefix(result, "skipped"), ` '"`))
	default:
		c.Status = contract.TestFailed
		if result == "unexpected success" {
			c.Message = result
		}
	}
	return c
}

// unittestFailure reads one report with its traceback.
func unittestFailure(m []string, below []string, s Paths) Case {
	class := cmp.Or(m[3], "unittest")
	c := Case{Test: unittestID(m[2], class)}
	c.Status = contract.TestFailed
	c.Name = Name(c.Test)
	var body []string
	for n, line := range below {
		if n > 400 || strings.HasPrefix(line, "=====") || n > 1 && strings.HasPrefix(line, "-----") {
			break
		}
		body = append(body, Clean(line))
	}
	text := strings.Join(body, "\n")
	c.Message = Message(pythonReason(text))
	for _, p := range locations(text, s) {
		c.Location, c.File = p.Location(), p.Path
	}
	return c
}

// pythonReason returns the line of a traceback that names the exception, with the rest of a
// multi-line message.
func pythonReason(body string) string {
	all := strings.Split(body, "\n")
	for n := len(all) - 1; n >= 0; n-- {
		line := strings.TrimSpace(all[n])
		if pythonError.MatchString(line) {
			return strings.TrimSpace(strings.TrimPrefix(line, "E "))
		}
	}
	return fault.FirstLine(body)
}
