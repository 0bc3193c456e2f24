package output

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
)

// govulnMessage is one message of govulncheck -format json, which prints a stream of them.
type govulnMessage struct {
	Config *struct{} `json:"config"`
	OSV    *struct {
		ID      string `json:"id"`
		Summary string `json:"summary"`
		Details string `json:"details"`
	} `json:"osv"`
	Finding *govulnFinding `json:"finding"`
}

// govulnFinding is one way in which a vulnerability concerns the code. Its trace begins with the
// vulnerable module, package or function, and ends in the code.
type govulnFinding struct {
	OSV          string        `json:"osv"`
	FixedVersion string        `json:"fixed_version"`
	Trace        []govulnFrame `json:"trace"`
}

type govulnFrame struct {
	Module   string `json:"module"`
	Package  string `json:"package"`
	Function string `json:"function"`
	Position *struct {
		Filename string `json:"filename"` // relative to the module
		Line     int    `json:"line"`
	} `json:"position"`
}

// govulnLevel is how much a vulnerability concerns the code.
type govulnLevel int

const (
	govulnRequired govulnLevel = iota // the module is required
	govulnImported                    // a vulnerable package is imported
	govulnCalled                      // a vulnerable function is called
)

var govulnNotes = map[govulnLevel]string{
	govulnRequired: "a module with it is required, but its vulnerable packages are not imported",
	govulnImported: "a package with it is imported, but its vulnerable code is not called",
	govulnCalled:   "the code calls it",
}

// standardLibrary is govulncheck's name for the module of the standard library.
const standardLibrary = "stdlib"

// parseGovulncheck reads the output of govulncheck -format json.
func parseGovulncheck(data []byte, s Paths) (Results, error) {
	titles := map[string]string{}
	type key struct{ id, module string }
	worst := map[key]govulnProblem{}
	var order []key
	begun := false
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var m govulnMessage
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return Results{}, err
		}
		begun = begun || m.Config != nil
		if m.OSV != nil {
			titles[m.OSV.ID] = cmp.Or(m.OSV.Summary, m.OSV.Details)
		}
		if m.Finding == nil || len(m.Finding.Trace) == 0 {
			continue
		}
		k := key{m.Finding.OSV, m.Finding.Trace[0].Module}
		now := m.Finding.read(s)
		before, known := worst[k]
		if !known {
			order = append(order, k)
		}
		if !known || now.graver(before) {
			worst[k] = now
		}
	}
	if !begun {
		return Results{}, errors.New("it is not the output of govulncheck")
	}
	slices.SortFunc(order, func(a, b key) int { return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.module, b.module)) })
	var out Results
	for _, k := range order {
		out.Problems = append(out.Problems, worst[k].problem(k.id, k.module, titles[k.id]))
	}
	return out, nil
}

// govulnProblem is the gravest finding of one vulnerability.
type govulnProblem struct {
	level govulnLevel
	fixed string
	path  string // of the calling line
	line  int
}

// graver compares findings by level and, so that the result does not depend on the order of the
// output, by location.
func (p govulnProblem) graver(q govulnProblem) bool {
	switch {
	case p.level != q.level:
		return p.level > q.level
	case (p.path == "") != (q.path == ""):
		return q.path == ""
	}
	return cmp.Or(cmp.Compare(p.path, q.path), cmp.Compare(p.line, q.line)) < 0
}

func (f *govulnFinding) read(s Paths) govulnProblem {
	p := govulnProblem{fixed: f.FixedVersion}
	switch first := f.Trace[0]; {
	case first.Function != "":
		p.level = govulnCalled
	case first.Package != "":
		p.level = govulnImported
	}
	for _, frame := range f.Trace[1:] {
		dir, own := s.GoDirs[frame.Module]
		if own && frame.Position != nil {
			p.path, p.line = Paths{Root: s.Root}.Rel(path.Join(dir, frame.Position.Filename)), max(0, frame.Position.Line)
			break
		}
	}
	return p
}

func (p govulnProblem) problem(id, module, text string) Problem {
	name := module
	if module == standardLibrary {
		name = "the standard library of Go"
	}
	var fixed []string
	if p.fixed != "" {
		fixed = []string{p.fixed}
	}
	v := vulnerability{id: id, pkg: name, title: text, severity: contract.SeverityMinor, notes: []string{govulnNotes[p.level], fixedIn(fixed...)}}
	if p.level == govulnCalled {
		v.severity = contract.SeverityMajor
	}
	out := v.problem()
	out.Path, out.Line, out.Package = p.path, p.line, Name(module)
	return out
}
