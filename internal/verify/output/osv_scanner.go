package output

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/rocketgpt/orchestrator/contract"
)

// osvReport is the output of osv-scanner --format json.
type osvReport struct {
	Results *[]struct {
		Source struct {
			Path string `json:"path"`
		} `json:"source"`
		Packages []osvPackage `json:"packages"`
	} `json:"results"`
}

type osvPackage struct {
	Package struct {
		Name string `json:"name"`
	} `json:"package"`
	// Groups are the vulnerabilities, each with all of its identifiers.
	Groups []struct {
		IDs      []string `json:"ids"`
		Severity string   `json:"max_severity"` // a CVSS score
	} `json:"groups"`
	Vulnerabilities []osvEntry `json:"vulnerabilities"`
}

// osvEntry is one entry of the database.
type osvEntry struct {
	ID       string `json:"id"`
	Summary  string `json:"summary"`
	Details  string `json:"details"`
	Affected []struct {
		Package struct {
			Name string `json:"name"`
		} `json:"package"`
		Ranges []struct {
			Events []struct {
				Fixed string `json:"fixed"`
			} `json:"events"`
		} `json:"ranges"`
	} `json:"affected"`
	Database struct {
		Severity json.RawMessage `json:"severity"` // a word in GitHub's entries, anything in others
	} `json:"database_specific"`
}

// parseOSV reads the output of osv-scanner --format json.
func parseOSV(data []byte, s Paths) (Results, error) {
	var doc osvReport
	if err := json.Unmarshal(data, &doc); err != nil {
		return Results{}, err
	}
	if doc.Results == nil {
		return Results{}, errors.New("it is not the output of osv-scanner")
	}
	var all distinct
	for _, r := range *doc.Results {
		at := s.Rel(r.Source.Path)
		for _, p := range r.Packages {
			p.each(func(v vulnerability) { all.add(v, at) })
		}
	}
	return all.out, nil
}

// each calls add for each vulnerability of a package.
func (p osvPackage) each(add func(vulnerability)) {
	entries := make(map[string]*osvEntry, len(p.Vulnerabilities))
	fixes := make(map[string][]string, len(p.Vulnerabilities))
	for i := range p.Vulnerabilities {
		e := &p.Vulnerabilities[i]
		entries[e.ID], fixes[e.ID] = e, e.fixed(p.Package.Name)
	}
	for _, g := range p.Groups {
		v := vulnerability{id: osvRule(g.IDs), pkg: p.Package.Name, severity: severityOfScore(g.Severity)}
		var fixed []string
		for _, id := range g.IDs {
			e := entries[id]
			if e == nil {
				continue
			}
			v.title = cmp.Or(v.title, e.Summary, e.Details)
			v.severity = cmp.Or(v.severity, e.severity())
			if len(fixed) == 0 {
				fixed = fixes[id]
			}
		}
		v.notes = []string{fixedIn(fixed...)}
		add(v)
	}
}

// osvRule returns the identifier by which a vulnerability is best known in its ecosystem.
func osvRule(ids []string) string {
	for _, prefix := range []string{"GO-", "RUSTSEC-", "GHSA-", "CVE-"} {
		if i := slices.IndexFunc(ids, func(id string) bool { return strings.HasPrefix(id, prefix) }); i >= 0 {
			return ids[i]
		}
	}
	if len(ids) > 0 {
		return ids[0]
	}
	return "unknown"
}

// severity is the database's own grade. A package that is itself malicious has none.
func (e *osvEntry) severity() contract.Severity {
	if strings.HasPrefix(e.ID, "MAL-") {
		return contract.SeverityMajor
	}
	var word string
	if json.Unmarshal(e.Database.Severity, &word) != nil {
		return ""
	}
	return severityOf(word)
}

// fixed returns versions of a package that fix the vulnerability.
func (e *osvEntry) fixed(name string) []string {
	var out []string
	for _, a := range e.Affected {
		for _, r := range a.Ranges {
			for _, event := range r.Events {
				if event.Fixed != "" && len(out) < maxFixed && strings.EqualFold(a.Package.Name, name) && !slices.Contains(out, event.Fixed) {
					out = append(out, event.Fixed)
				}
			}
		}
	}
	return out
}
