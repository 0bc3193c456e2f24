package output

import (
	"regexp"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

var (
	cargoCase   = regexp.MustCompile(`^test (.+?)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:, (.*))?$`)
	cargoStdout = regexp.MustCompile(`^---- (.+) stdout ----$`)
	cargoSum    = regexp.MustCompile(`^test result: \w+\. (\d+) passed; (\d+) failed;`)
)

// parseCargo reads the output of cargo test: results on stdout, their targets on stderr. The two
// streams are not synchronized, so only its path identifies a case.
func parseCargo(stdout []byte, s Paths) Results {
	var out Results
	failures := map[string]int{}
	current, explained := -1, false
	passed, ran := 0, 0
	for _, line := range Lines(stdout) {
		line = strings.TrimRight(Clean(line), " ")
		if m := cargoSum.FindStringSubmatch(line); m != nil {
			ran += Number(m[1])
			current = -1
			continue
		}
		if m := cargoStdout.FindStringSubmatch(line); m != nil {
			current, explained = -1, false
			if n, ok := failures[m[1]]; ok {
				current = n
			}
			continue
		}
		if line == "failures:" {
			current = -1
		}
		// A failed test's output can contain anything.
		if m := cargoCase.FindStringSubmatch(line); m != nil && current < 0 && len(out.Cases) < 2*MaxCases {
			c := cargoResult(m)
			if c.Status == contract.TestFailed {
				failures[m[1]] = len(out.Cases)
			}
			if c.Status == contract.TestPassed {
				passed++
			}
			out.Cases = append(out.Cases, c)
			continue
		}
		if current >= 0 && !explained {
			explained = !cargoExplain(&out.Cases[current], line, s)
		}
	}
	if passed > ran {
		out.Problems = append(out.Problems, Problem{Level: Warning, Message: "the output lists " + itoa(passed) + " passed tests, but the summaries count only " + itoa(ran)})
	}
	return out
}

func cargoResult(m []string) Case {
	c := Case{Test: m[1]}
	c.Name = Name(m[1])
	switch m[2] {
	case "ok":
		c.Status = contract.TestPassed
	case "ignored":
		c.Status, c.Message = contract.TestSkipped, Message(m[3])
	default:
		c.Status = contract.TestFailed
	}
	return c
}

// cargoExplain collects the message and the location of a failed test's panic. The output before it
// is less informative, and the stack after it adds nothing.
func cargoExplain(c *Case, line string, s Paths) (more bool) {
	if strings.HasPrefix(line, "stack backtrace:") || strings.HasPrefix(line, "note: ") {
		return false
	}
	if at := locations(line, s); len(at) > 0 && c.Location == "" && strings.Contains(line, "panicked at") {
		c.Location, c.File, c.Message = at[0].Location(), at[0].Path, ""
		return true
	}
	c.Message = Message(c.Message + "\n" + line)
	return true
}
