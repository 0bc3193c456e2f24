package output

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
)

// npmAudit is the output of npm audit --json and pnpm audit --json. npm 7 and later list packages
// with their advisories, pnpm and npm 6 list advisories. Both print an object of another kind if
// they could not ask the registry.
type npmAudit struct {
	Vulnerabilities map[string]struct {
		Via []json.RawMessage `json:"via"` // advisories, and names of vulnerable dependencies
	} `json:"vulnerabilities"`
	Advisories map[string]npmAdvisory `json:"advisories"`
	Message    string                 `json:"message"`
	Error      *struct {
		Code    string `json:"code"`
		Summary string `json:"summary"`
		Message string `json:"message"`
	} `json:"error"`
}

// npmAdvisory is an advisory of the npm registry, in either format.
type npmAdvisory struct {
	ID     int    `json:"id"`
	Source int    `json:"source"`
	Name   string `json:"name"`
	Module string `json:"module_name"`
	Title  string `json:"title"`
	URL    string `json:"url"`
	GitHub string `json:"github_advisory_id"`
	Grade  string `json:"severity"`
	Range  string `json:"range"`
	Ranges string `json:"vulnerable_versions"`
}

// parseNPMAudit reads the output of npm audit --json and pnpm audit --json.
func parseNPMAudit(data []byte) (Results, error) {
	var doc npmAudit
	if err := json.Unmarshal(data, &doc); err != nil {
		return Results{}, err
	}
	if doc.Vulnerabilities == nil && doc.Advisories == nil {
		return Results{}, doc.failure()
	}
	var all distinct
	for _, name := range slices.Sorted(maps.Keys(doc.Vulnerabilities)) {
		for _, via := range doc.Vulnerabilities[name].Via {
			var a npmAdvisory
			if json.Unmarshal(via, &a) == nil { // otherwise the name of a dependency, which is listed itself
				a.Name = cmp.Or(a.Name, name)
				all.add(a.vulnerability(), "")
			}
		}
	}
	for _, id := range slices.Sorted(maps.Keys(doc.Advisories)) {
		all.add(doc.Advisories[id].vulnerability(), "")
	}
	return all.out, nil
}

// failure returns why the output contains no result.
func (a npmAudit) failure() error {
	text := a.Message
	if e := a.Error; e != nil {
		text = strings.TrimSpace(cmp.Or(e.Summary, e.Message, text) + " " + e.Code)
	}
	return errors.New(cmp.Or(Message(text), "it is not the output of an audit"))
}

func (a npmAdvisory) vulnerability() vulnerability {
	return vulnerability{
		id: a.rule(), pkg: cmp.Or(a.Module, a.Name), title: a.Title, severity: severityOf(a.Grade),
		notes: affected(cmp.Or(a.Range, a.Ranges)),
	}
}

// rule returns the identifier of an advisory: GitHub's if possible.
func (a npmAdvisory) rule() string {
	if last := path.Base(a.URL); a.GitHub == "" && strings.HasPrefix(last, "GHSA-") {
		return last
	}
	return cmp.Or(a.GitHub, "npm-"+strconv.Itoa(cmp.Or(a.ID, a.Source)))
}
