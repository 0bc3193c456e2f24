package output

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// pipAudit is the output of pip-audit --format json.
type pipAudit struct {
	Dependencies []struct {
		Name            string `json:"name"`
		Skipped         string `json:"skip_reason"` // why it was not audited
		Vulnerabilities []struct {
			ID          string   `json:"id"`
			Fixed       []string `json:"fix_versions"`
			Description string   `json:"description"`
		} `json:"vulns"`
	} `json:"dependencies"`
}

// RuleNotAudited marks the finding that a scanner could not judge some dependencies.
const RuleNotAudited = "not-audited"

// parsePipAudit reads the output of pip-audit --format json, which has no severities.
func parsePipAudit(data []byte) (Results, error) {
	var doc pipAudit
	if err := json.Unmarshal(data, &doc); err != nil {
		return Results{}, err
	}
	if doc.Dependencies == nil {
		return Results{}, errors.New("it is not the output of pip-audit")
	}
	var all distinct
	var skipped []string
	reason := ""
	for _, d := range doc.Dependencies {
		if d.Skipped != "" {
			skipped, reason = append(skipped, Name(d.Name)), d.Skipped
		}
		for _, v := range d.Vulnerabilities {
			all.add(vulnerability{id: v.ID, pkg: d.Name, title: v.Description, notes: []string{fixedIn(v.Fixed...)}}, "")
		}
	}
	if len(skipped) == 0 {
		return all.out, nil
	}
	if len(skipped) == len(doc.Dependencies) {
		return Results{}, errors.New("no dependency could be audited: " + title(reason))
	}
	all.out.Problems = append(all.out.Problems, notAudited(skipped))
	return all.out, nil
}

// notAudited returns the problem that some dependencies were not judged, for example because they
// are not from the public registry.
func notAudited(names []string) Problem {
	const most = 10
	text := strings.Join(names[:min(len(names), most)], ", ")
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return Problem{Level: Note, Rule: RuleNotAudited, Message: Message("not audited: " + text)}
}
