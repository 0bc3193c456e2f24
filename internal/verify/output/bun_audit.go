package output

import (
	"encoding/json"
	"maps"
	"slices"
)

// parseBunAudit reads the output of bun audit --json: the advisories of each package.
func parseBunAudit(data []byte) (Results, error) {
	var doc map[string][]npmAdvisory
	if err := json.Unmarshal(data, &doc); err != nil {
		return Results{}, err
	}
	var all distinct
	for _, name := range slices.Sorted(maps.Keys(doc)) {
		for _, a := range doc[name] {
			a.Name = name
			all.add(a.vulnerability(), "")
		}
	}
	return all.out, nil
}
