package output

import (
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"github.com/rocketgpt/orchestrator/contract"
)

// cargoAudit is the output of cargo audit --json.
type cargoAudit struct {
	Vulnerabilities *struct {
		List []cargoAdvisory `json:"list"`
	} `json:"vulnerabilities"`
	// Warnings are by kind: unmaintained, unsound, notice, yanked.
	Warnings map[string][]cargoAdvisory `json:"warnings"`
}

type cargoAdvisory struct {
	Advisory *struct {
		ID    string `json:"id"`
		Title string `json:"title"`
		CVSS  string `json:"cvss"`
	} `json:"advisory"` // nil for a yanked version
	Versions *struct {
		Patched []string `json:"patched"`
	} `json:"versions"`
	Package struct {
		Name string `json:"name"`
	} `json:"package"`
}

// parseCargoAudit reads the output of cargo audit --json.
func parseCargoAudit(data []byte) (Results, error) {
	var doc cargoAudit
	if err := json.Unmarshal(data, &doc); err != nil {
		return Results{}, err
	}
	if doc.Vulnerabilities == nil {
		return Results{}, errors.New("it is not the output of cargo audit")
	}
	var all distinct
	for _, a := range doc.Vulnerabilities.List {
		all.add(a.vulnerability(), "")
	}
	for _, kind := range slices.Sorted(maps.Keys(doc.Warnings)) {
		for _, a := range doc.Warnings[kind] {
			all.add(a.warning(kind), "")
		}
	}
	return all.out, nil
}

func (a cargoAdvisory) vulnerability() vulnerability {
	v := vulnerability{pkg: a.Package.Name}
	if a.Advisory != nil {
		v.id, v.title, v.severity = a.Advisory.ID, a.Advisory.Title, severityOfVector(a.Advisory.CVSS)
	}
	if a.Versions != nil {
		v.notes = []string{fixedIn(a.Versions.Patched...)}
	}
	return v
}

// warning is about a crate without a known vulnerability, such as one that is no longer maintained.
func (a cargoAdvisory) warning(kind string) vulnerability {
	v := a.vulnerability()
	v.id, v.severity, v.notes = cmp.Or(v.id, kind), contract.SeverityMinor, []string{Name(kind)}
	v.title = cmp.Or(v.title, "the version in use should be replaced")
	return v
}
