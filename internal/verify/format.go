package verify

import (
	"bytes"
	"path"
	"regexp"
	"slices"
	"strings"
)

// parseReport reads one report file into the execution. Whatever the format,
// the file's first bytes must agree with it.
func (e *execution) parseReport(data []byte, s site) error {
	format := e.run.format
	if format == "" || format == FormatAuto || format == FormatExitCode {
		format = sniff(data)
	}
	more, err := parse(format, data, s, false)
	if err == nil {
		e.parsed.add(more)
	}
	return err
}

// tapStart is where TAP begins that something else was printed before.
var tapStart = regexp.MustCompile(`(?m)^TAP version 1[34]\r?$`)

// parseOutput reads the output of a command that wrote no report file. tests says
// that it is to run tests: then what runners print for people counts too.
func (e *execution) parseOutput(s site, tests bool) {
	format := e.run.format
	if format == "" || format == FormatAuto {
		format = sniff(e.result.Stdout)
		if format == FormatExitCode && tests {
			text := e.runnersText(s)
			// Beside another runner's sums, TAP is what some test of it prints.
			if text.noTAP || !tapStart.Match(e.result.Stdout) {
				e.takeText(text)
				return
			}
			format = FormatTAP
		}
	}
	data, cut := e.result.Stdout, e.result.StdoutTruncated
	if format == formatUnittest {
		data, cut = e.result.Stderr, e.result.StderrTruncated
	}
	if format == FormatExitCode {
		return
	}
	e.counted = true
	more, err := parse(format, data, s, cut)
	if err != nil {
		e.notes = append(e.notes, "the output was not understood as "+string(format)+": "+message(err.Error()))
	}
	if cut {
		e.notes = append(e.notes, "the output was too long to keep: some results are missing")
	}
	e.parsed.add(more)
	if e.run.format == FormatGoTest || format == FormatGoTest {
		e.parsed.problems = append(e.parsed.problems, e.goSetupProblems(s)...)
	}
}

// parseText reads what test runners print for people. An output that none of them
// is seen in counts as one test, unless the command is known to start a runner. It
// reports whether one was seen.
func (e *execution) parseText(s site) bool { return e.takeText(e.runnersText(s)) }

// runnersText is what test runners print for people. Some, such as vitest, name
// failures on stderr and end with their sums on stdout.
func (e *execution) runnersText(s site) parsed {
	return parseRunners(slices.Concat(e.result.Stderr, []byte("\n"), e.result.Stdout), s)
}

func (e *execution) takeText(out parsed) bool {
	e.counted = out.sum != nil || e.run.runner && e.red()
	if e.counted {
		e.parsed.add(out)
	}
	if e.counted && (e.result.StdoutTruncated || e.result.StderrTruncated) {
		e.notes = append(e.notes, "the output was too long to keep: some results are missing")
	}
	return out.sum != nil
}

// goSetupProblems: what keeps the go tool from starting is on stderr.
func (e *execution) goSetupProblems(s site) []problem {
	if !e.red() || len(e.parsed.failed()) > 0 {
		return nil
	}
	return parseText(e.result.Stderr, s)
}

// parse reads data in a known format.
func parse(f Format, data []byte, s site, cut bool) (parsed, error) {
	switch f {
	case FormatGoTest:
		return parseGoTest(data, s, cut), nil
	case FormatJUnit:
		return parseJUnit(data, s)
	case FormatSARIF:
		return parseSARIF(data, s)
	case FormatPlaywright:
		return parsePlaywright(data, s)
	case FormatTAP:
		return parseTAP(data, s, cut), nil
	case formatUnittest:
		return parseUnittest(data, s), nil
	case formatJest:
		return parseJest(data, s)
	case formatAva:
		return parseAva(data, s, cut), nil
	case formatRunners:
		return parseRunners(data, s), nil
	case formatCargo:
		return parseCargo(data, s), nil
	case formatFileList:
		return parseFileList(data, s), nil
	default:
		return parsed{problems: parseText(data, s)}, nil
	}
}

// sniff recognises a format by its beginning. What it does not know is judged
// by the exit code.
func sniff(data []byte) Format {
	head := bytes.TrimLeft(bytes.TrimPrefix(data[:min(len(data), 64<<10)], []byte("\xef\xbb\xbf")), " \t\r\n")
	firstLine, _, _ := bytes.Cut(head, []byte("\n"))
	switch {
	case bytes.HasPrefix(head, []byte("TAP version ")), tapPlan.Match(bytes.TrimSpace(firstLine)):
		return FormatTAP
	case bytes.HasPrefix(head, []byte("<")) && (bytes.Contains(head, []byte("<testsuite")) || bytes.Contains(head, []byte("<testcase"))):
		return FormatJUnit
	case !bytes.HasPrefix(head, []byte("{")):
		return FormatExitCode
	case bytes.Contains(firstLine, []byte(`"Action":"`)) && (bytes.Contains(firstLine, []byte(`"Package":`)) || bytes.Contains(firstLine, []byte(`"ImportPath":`))):
		return FormatGoTest
	case bytes.Contains(head, []byte(`"rootDir"`)) && bytes.Contains(head, []byte(`"config"`)):
		return FormatPlaywright
	case bytes.Contains(head, []byte(`"runs"`)) || bytes.Contains(head, []byte("sarif")):
		return FormatSARIF
	}
	return FormatExitCode
}

// parseFileList reads the output of gofmt -l.
func parseFileList(data []byte, s site) parsed {
	var out parsed
	for _, line := range lines(data) {
		f := s.rel(strings.TrimSpace(line))
		if f == "" || !strings.HasSuffix(f, ".go") || goIgnores(path.Dir(f)) || strings.HasPrefix(f, ".") || strings.Contains(f, "/.") || strings.Contains(f, "node_modules/") {
			continue
		}
		out.problems = append(out.problems, problem{level: levelNote, path: f, rule: "gofmt", message: "the file is not formatted by gofmt"})
	}
	return out
}
